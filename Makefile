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

# Of lab-test: kernels (`iotrail lab kernels`), and the tests that mean something in a guest.
LAB_KERNELS = 6.1 6.12 newest
LAB_TESTS = order:: vehicles:: functions:: ground:: reaping:: threads:: nvme:: nvme::iopoll_on_a_drive_without_poll_queues

.PHONY: run build deps test quick arm64 arm64-tools arm64-units lab-test fleet-test peers-test interop lint prose deny bench install install-files deb deb-test clean

# The main job: COOP_TASKRUN against the default, on a file of this machine's disk; then the page of its figures.
run: build
	$(BIN) run coop --quick
	$(BIN) report last -o report.html
	@echo "open $(CURDIR)/report.html in a browser"

build: deps
	$(CARGO) build --profile $(PROFILE) --locked

# Installs only what is missing.
deps:
	@missing=; for p in $(PACKAGES); do \
	    dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	    echo "installing:$$missing"; \
	    if [ "$$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing; \
	fi
	@command -v $(CARGO) >/dev/null || { echo "cargo is not installed: get Rust 1.89 or later with rustup"; exit 2; }

# What the pages of reports are checked with for accessibility: fetched, never kept in the repository.
AXE = $(or $(CARGO_TARGET_DIR),target)/tmp/axe-core/package/axe.min.js
$(AXE):
	@command -v npm >/dev/null || { if [ "$$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends npm; }
	@mkdir -p $(dir $(AXE)).. && cd $(dir $(AXE)).. && npm pack --silent axe-core@4.10.3 >/dev/null && tar xzf axe-core-4.10.3.tgz package/axe.min.js

# Everything: the rooms that need no privileges, then the ones that need root and a disk.
# One test compares its counts with strace's, one has groff read the manual, some complete in zsh and fish, others look at reports in a browser;
# and the short ones of a fleet have a Slurm.
test: PACKAGES += strace groff-base zsh fish chromium slurm-wlm munge liburing-dev
test: deps $(AXE)
	$(CARGO) test --profile $(PROFILE) --locked --workspace --no-fail-fast

# The tests that need neither root nor a network, built for the next change.
quick: deps
	$(CARGO) fmt --all --check
	$(CARGO) test --locked --workspace --lib
	$(CARGO) test --locked --test golden

# What a build for arm64 needs here.
arm64-tools arm64-units arm64: PACKAGES += gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
arm64-tools: deps
	sh packaging/cross.sh arm64 $(TARGET)

# Tests of crates, by QEMU's emulation of programs: of those that differ by processor with the BPF programs. Others can be asked for
# (CRATES="answer stats"): what reckons much takes minutes.
CRATES = path schema probe
arm64-units: arm64-tools
	. $(TARGET)/arm64/env && $(CARGO) test --locked --target $$CROSS_TARGET $(addprefix -p iotrail-,$(CRATES)) --lib

# The whole program, and the other tests that need no kernel. Then `iotrail lab run --arch arm64` boots it.
arm64: arm64-units
	. $(TARGET)/arm64/env && $(CARGO) build --locked --target $$CROSS_TARGET --bins --example ground
	. $(TARGET)/arm64/env && $(CARGO) test --locked --target $$CROSS_TARGET --test golden

# The tests of what a kernel does, inside each kernel of the lab. All are run, whatever fails before. Built as `test` builds them: with
# the features that the whole workspace asks for.
lab-test: PACKAGES += e2fsprogs
lab-test: deps
	$(CARGO) build --profile $(PROFILE) --locked --workspace --bins --example ground
	@failed=; for kernel in $(LAB_KERNELS); do \
	    LAB_KERNEL=$$kernel LAB_TESTS="$(LAB_TESTS)" CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sh tests/lab.sh" \
	        $(CARGO) test --profile $(PROFILE) --locked --workspace --test kernel || failed="$$failed $$kernel"; \
	done; \
	[ -z "$$failed" ] || { echo "failed in:$$failed"; exit 1; }

# `--slurm` on a Slurm of four nodes in a folder of its own: also what waits for Slurm's time-outs. Needs root.
fleet-test: PACKAGES += slurm-wlm munge
fleet-test: deps
	$(CARGO) test --profile $(PROFILE) --locked --test fleet -- --include-ignored

# Programs that nobody here wrote (liburing's tests with LIBURING=FOLDER, a sample or those of TESTS='*bundle*'; QEMU, Node, MariaDB, PostgreSQL, where they are installed), alone and traced, beside bpftrace.
peers-test: PACKAGES += bpftrace python3
peers-test: build
	python3 -B tests/peers/run.py $(BIN) $(if $(LIBURING),--liburing $(LIBURING)) $(if $(TESTS),--test "$(TESTS)")

# Every export, read back by the tool that it is for (DuckDB, Spark, fio-plot, HdrHistogram, Prometheus); prints both sides' numbers.
interop: PACKAGES += fio python3-venv
interop: build
	sh tests/interop/run.sh $(BIN)

lint: PROFILE = dev
lint: deps
	$(CARGO) fmt --all --check
	$(CARGO) clippy --profile $(PROFILE) --locked --workspace --all-targets -- -D warnings

# The rules of styles/iotrail over the documents, the help and the manual pages. It reports, and never fails.
PROSE = $(TARGET)/tmp/prose
prose:
	@command -v vale >/dev/null || { echo "vale: not installed (go install github.com/vale-cli/vale/v3/cmd/vale@v3.20.0)"; exit 0; }; \
	rm -rf $(PROSE) && mkdir -p $(PROSE) && $(BIN) man $(PROSE)/man >/dev/null && \
	for page in $(PROSE)/man/*.1; do \
	    command=$$(basename $$page .1 | sed 's/^iotrail//;s/-/ /g'); $(BIN) $$command --help >$(PROSE)/$$(basename $$page .1).help.txt; \
	    sed -e '/^\.\(ie\|el\)/d;s/^\.[A-Z]* *//;s/\\f[A-Z]//g;s/\\-/-/g' $$page >$(PROSE)/$$(basename $$page).txt; done; \
	vale --no-exit $$(git ls-files '*.md') $(PROSE)/*.txt

# Licences, sources and duplicates of the dependencies (deny.toml); advisories where their database can be fetched.
deny:
	@if ! command -v cargo-deny >/dev/null; then \
	    echo "skipped: cargo-deny is not installed (cargo install cargo-deny --locked)"; exit 0; fi; \
	$(CARGO) deny --locked check licenses bans sources || exit 1; \
	if $(CARGO) deny --locked fetch db >/dev/null 2>&1; then $(CARGO) deny --locked check --disable-fetch advisories; \
	else echo "skipped: the database of advisories cannot be fetched"; fi

# Speed of the load and of the network servers, and cost of the probes, beside the peers that are installed.
bench: build
	sh benches/generator.sh $(BIN)
	sh benches/commits.sh $(BIN)
	sh benches/observer.sh $(BIN)
	sh benches/watching.sh $(BIN)
	sh benches/programs.sh $(BIN)
	sh benches/profile.sh $(BIN)
	sh benches/replay.sh $(BIN)
	sh benches/monitor.sh $(BIN)
	$(CARGO) build --release --locked -p iotrail-probe --example estimates
	sh benches/estimates.sh $(BIN) $(TARGET)/release/examples/estimates
	sh benches/verdicts.sh $(BIN)
	sh benches/list.sh $(BIN)
	sh benches/network.sh $(BIN)
	$(CARGO) build --release --locked --example stored
	sh benches/report.sh $(BIN) $(TARGET)/release/examples/stored
	sh benches/exports.sh $(BIN) $(TARGET)/release/examples/stored

# Its debug symbols go apart, where gdb and perf look for them.
install: PACKAGES += binutils
install: SYMBOLS = $(DESTDIR)$(PREFIX)/lib/debug/iotrail.debug
install: build install-files
	install -d $(dir $(SYMBOLS))
	objcopy --only-keep-debug $(BIN) $(SYMBOLS)
	strip --strip-unneeded $(DESTDIR)$(PREFIX)/bin/iotrail
	objcopy --add-gnu-debuglink=$(SYMBOLS) $(DESTDIR)$(PREFIX)/bin/iotrail

# The program, its manual pages, what shells complete by, its documents and the experiments as examples.
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

# A Debian package of these; `make deb ARCH=arm64` makes one for arm64.
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

# Installs it on bare Debian systems, uses and removes it; with ARCH=arm64 in a guest, which the lab boots. Needs root and a registry.
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
