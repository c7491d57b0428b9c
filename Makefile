# make run · make test · make quick · make arm64-tools · make arm64-units · make arm64 · make lab-test · make fleet-test · make peers-test · make interop · make bench · make lint · make prose · make deny · make install · make deb · make deb-test
CARGO ?= cargo
PREFIX ?= /usr/local
PACKAGES = clang libelf-dev zlib1g-dev pkg-config gcc
TARGET = $(or $(CARGO_TARGET_DIR),target)
PROFILE = release
BIN ?= $(TARGET)/$(PROFILE)/iotrail

# With link-time optimisation.
install deb bench: PROFILE = dist
# With debug assertions and overflow checks.
test lab-test fleet-test: PROFILE = checked

# For lab-test: kernels (`iotrail lab kernels`), and the tests that are meaningful in a guest.
LAB_KERNELS = 6.1 6.12 newest
LAB_TESTS = order:: vehicles:: functions:: ground:: reaping:: threads:: net::zero_copy_receives nvme:: nvme::iopoll_on_a_drive_without_poll_queues

.PHONY: run build deps test quick arm64 arm64-tools arm64-units lab-test fleet-test peers-test interop lint prose deny bench install install-files deb deb-test clean

# The main experiment: COOP_TASKRUN compared with the default, on a file on this machine's disk; then its report page.
run: build
	$(BIN) run coop --quick
	$(BIN) report last -o report.html
	@echo "open $(CURDIR)/report.html in a browser"

build: deps
	$(CARGO) build --profile $(PROFILE) --locked

# Installs only missing packages.
deps:
	@missing=; for p in $(PACKAGES); do \
	    dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	    echo "installing:$$missing"; \
	    if [ "$$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing; \
	fi
	@command -v $(CARGO) >/dev/null || { echo "cargo is not installed: get Rust 1.89 or later with rustup"; exit 2; }

# Accessibility checker for report pages: fetched, never committed.
AXE = $(or $(CARGO_TARGET_DIR),target)/tmp/axe-core/package/axe.min.js
$(AXE):
	@command -v npm >/dev/null || { if [ "$$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends npm; }
	@mkdir -p $(dir $(AXE)).. && cd $(dir $(AXE)).. && npm pack --silent axe-core@4.10.3 >/dev/null && tar xzf axe-core-4.10.3.tgz package/axe.min.js

# All tests: first those without privileges, then those that need root and a disk.
# One test compares counts with strace, one runs groff on the manual pages, some test completion in zsh and fish, others check reports in a
# browser; the short fleet tests need Slurm.
test: PACKAGES += strace groff-base zsh fish chromium slurm-wlm munge liburing-dev
test: deps $(AXE)
	$(CARGO) test --profile $(PROFILE) --locked --workspace --no-fail-fast

# Tests that need neither root nor a network, built for fast incremental rebuilds.
quick: deps
	$(CARGO) fmt --all --check
	$(CARGO) test --locked --workspace --lib
	$(CARGO) test --locked --test golden

# Tools for an arm64 build on this machine.
arm64-tools arm64-units arm64: PACKAGES += gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
arm64-tools: deps
	sh packaging/cross.sh arm64 $(TARGET)

# Unit tests of architecture-dependent crates and of the BPF programs' user space, in QEMU user mode. CRATES="answer stats" selects other crates;
# compute-bound tests take minutes.
CRATES = path schema probe
arm64-units: arm64-tools
	. $(TARGET)/arm64/env && $(CARGO) test --locked --target $$CROSS_TARGET $(addprefix -p iotrail-,$(CRATES)) --lib

# The complete program, and the other tests that need no kernel. `iotrail lab run --arch arm64` then boots it.
arm64: arm64-units
	. $(TARGET)/arm64/env && $(CARGO) build --locked --target $$CROSS_TARGET --bins --example ground
	. $(TARGET)/arm64/env && $(CARGO) test --locked --target $$CROSS_TARGET --test golden

# Kernel tests, inside each kernel of the lab. All run, even if one fails. Built as in `test`, with the features of the complete workspace.
lab-test: PACKAGES += e2fsprogs
lab-test: deps
	$(CARGO) build --profile $(PROFILE) --locked --workspace --bins --example ground
	@failed=; for kernel in $(LAB_KERNELS); do \
	    LAB_KERNEL=$$kernel LAB_TESTS="$(LAB_TESTS)" CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sh tests/lab.sh" \
	        $(CARGO) test --profile $(PROFILE) --locked --workspace --test kernel || failed="$$failed $$kernel"; \
	done; \
	[ -z "$$failed" ] || { echo "failed in:$$failed"; exit 1; }

# `--slurm` on a four-node Slurm cluster in its own directory, including tests that wait for Slurm's timeouts. Needs root.
fleet-test: PACKAGES += slurm-wlm munge
fleet-test: deps
	$(CARGO) test --profile $(PROFILE) --locked --test fleet -- --include-ignored

# Third-party programs, untraced and traced, compared with bpftrace: liburing's tests (LIBURING=DIRECTORY; a sample, or TESTS='*bundle*'), and
# QEMU, Node, MariaDB and PostgreSQL, if installed.
peers-test: PACKAGES += bpftrace python3
peers-test: build
	python3 -B tests/peers/run.py $(BIN) $(if $(LIBURING),--liburing $(LIBURING)) $(if $(TESTS),--test "$(TESTS)")

# Every export, read by the tool that it is intended for (DuckDB, Spark, fio-plot, HdrHistogram, Prometheus); prints the numbers from both sides.
interop: PACKAGES += fio python3-venv
interop: build
	sh tests/interop/run.sh $(BIN)

lint: PROFILE = dev
lint: deps
	$(CARGO) fmt --all --check
	$(CARGO) clippy --profile $(PROFILE) --locked --workspace --all-targets -- -D warnings

# Applies the rules in styles/iotrail to the documents, help and manual pages. Reports only, and never fails.
PROSE = $(TARGET)/tmp/prose
prose:
	@command -v vale >/dev/null || { echo "vale: not installed (go install github.com/vale-cli/vale/v3/cmd/vale@v3.20.0)"; exit 0; }; \
	rm -rf $(PROSE) && mkdir -p $(PROSE) && $(BIN) man $(PROSE)/man >/dev/null && \
	for page in $(PROSE)/man/*.1; do \
	    command=$$(basename $$page .1 | sed 's/^iotrail//;s/-/ /g'); $(BIN) $$command --help >$(PROSE)/$$(basename $$page .1).help.txt; \
	    sed -e '/^\.\(ie\|el\)/d;s/^\.[A-Z]* *//;s/\\f[A-Z]//g;s/\\-/-/g' $$page >$(PROSE)/$$(basename $$page).txt; done; \
	vale --no-exit $$(git ls-files '*.md') $(PROSE)/*.txt

# Licences, sources and duplicates of the dependencies (deny.toml); advisories if their database can be fetched.
deny:
	@if ! command -v cargo-deny >/dev/null; then \
	    echo "skipped: cargo-deny is not installed (cargo install cargo-deny --locked)"; exit 0; fi; \
	$(CARGO) deny --locked check licenses bans sources || exit 1; \
	if $(CARGO) deny --locked fetch db >/dev/null 2>&1; then $(CARGO) deny --locked check --disable-fetch advisories; \
	else echo "skipped: the database of advisories cannot be fetched"; fi

# Speed of the load generator and the network servers, and probe overhead, compared with installed peers.
bench: build
	sh benches/generator.sh $(BIN)
	sh benches/commits.sh $(BIN)
	sh benches/observer.sh $(BIN)
	sh benches/watching.sh $(BIN)
	sh benches/programs.sh $(BIN)
	sh benches/profile.sh $(BIN)
	sh benches/replay.sh $(BIN)
	sh benches/predictions.sh $(BIN)
	sh benches/monitor.sh $(BIN)
	$(CARGO) build --release --locked -p iotrail-probe --example estimates
	sh benches/estimates.sh $(BIN) $(TARGET)/release/examples/estimates
	sh benches/verdicts.sh $(BIN)
	sh benches/list.sh $(BIN)
	sh benches/network.sh $(BIN)
	$(CARGO) build --release --locked --example stored
	sh benches/report.sh $(BIN) $(TARGET)/release/examples/stored
	sh benches/exports.sh $(BIN) $(TARGET)/release/examples/stored

# Debug symbols are stored separately, where gdb and perf find them.
install: PACKAGES += binutils
install: SYMBOLS = $(DESTDIR)$(PREFIX)/lib/debug/iotrail.debug
install: build install-files
	install -d $(dir $(SYMBOLS))
	objcopy --only-keep-debug $(BIN) $(SYMBOLS)
	strip --strip-unneeded $(DESTDIR)$(PREFIX)/bin/iotrail
	objcopy --add-gnu-debuglink=$(SYMBOLS) $(DESTDIR)$(PREFIX)/bin/iotrail

# The program, manual pages, shell completions, documents, and the experiments as examples.
install-files: SHARE = $(DESTDIR)$(PREFIX)/share
install-files:
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/iotrail
	$(CROSS_RUN) $(BIN) man $(SHARE)/man/man1
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(CROSS_RUN) $(BIN) completions bash >$(SHARE)/bash-completion/completions/iotrail
	$(CROSS_RUN) $(BIN) completions zsh >$(SHARE)/zsh/site-functions/_iotrail
	$(CROSS_RUN) $(BIN) completions fish >$(SHARE)/fish/vendor_completions.d/iotrail.fish
	install -d $(SHARE)/doc/iotrail/examples/programs
	install -m 644 README.md CHANGELOG.md $(filter-out docs/contributing,$(wildcard docs/*)) grafana/iotrail.json $(SHARE)/doc/iotrail
	install -m 644 experiments/*.toml $(SHARE)/doc/iotrail/examples
	install -m 644 experiments/programs/* $(SHARE)/doc/iotrail/examples/programs

# A Debian package of the same files; `make deb ARCH=arm64` builds one for arm64.
deb: PACKAGES += dpkg-dev binutils
ifeq ($(ARCH),)
deb: build
	BIN=$(BIN) sh packaging/deb.sh $(TARGET)
else
deb: PACKAGES += gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
deb: deps
	sh packaging/cross.sh $(ARCH) $(TARGET)
	. $(TARGET)/$(ARCH)/env && $(CARGO) build --profile $(PROFILE) --locked --target $$CROSS_TARGET --bins && \
	    BIN=$(TARGET)/$$CROSS_TARGET/$(PROFILE)/iotrail sh packaging/deb.sh $(TARGET) $(ARCH)
endif

# Installs the package on minimal Debian systems, uses it and removes it; with ARCH=arm64, in a guest booted by the lab. Needs root and a registry.
deb-test: PACKAGES += mmdebstrap
ifeq ($(ARCH),)
deb-test: deb
	sh packaging/deb-test.sh $(TARGET)/debian/iotrail_*_$$(dpkg --print-architecture).deb
else
deb-test: PACKAGES += arch-test binfmt-support
deb-test: deb build
	sh packaging/deb-test-guest.sh $(BIN) $(TARGET)/debian/iotrail_*_$(ARCH).deb
endif

clean:
	$(CARGO) clean
