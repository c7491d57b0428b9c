//! Machines that refuse: no permission, a full disk, no io_uring, no lockable memory.

use std::os::unix::fs::PermissionsExt;

use crate::bad_load::assert_refused;
use crate::confine::{self, Rule};
use crate::tool::{Place, bench, file, is_root, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("bad_machine::missing_permissions_are_reported_with_the_file", no_permission),
    ("bad_machine::a_full_disk_is_reported_with_a_remedy", full_disk),
    ("bad_machine::a_disk_without_space_for_the_store_is_reported_with_a_remedy", full_disk_of_the_store),
    ("bad_machine::a_disk_that_becomes_full_is_reported_with_a_remedy", fills),
    ("bad_machine::a_file_system_without_direct_io_is_reported", no_direct),
    ("bad_machine::an_insufficient_locked_memory_limit_is_reported", locked_memory),
    ("bad_machine::a_seccomp_filter_that_forbids_io_uring_is_reported", no_io_uring),
    ("bad_machine::cpu_selection_by_unknown_interrupts_is_rejected", no_interrupts),
    ("bad_machine::unavailable_probes_are_an_error_if_requested", no_probes),
];

fn no_permission() -> End {
    let place = Place::public();
    let copy = confine::public_copy(&place);
    place.write("closed", [7; 8192]);
    std::fs::set_permissions(place.join("closed"), std::fs::Permissions::from_mode(0o000)).expect("our own file");
    std::fs::create_dir(place.join("folder")).expect("our own folder");
    std::fs::set_permissions(place.join("folder"), std::fs::Permissions::from_mode(0o555)).expect("our own folder");
    let before = place.contents();
    for (options, what) in [
        ("--file closed", "open closed"),
        ("--file closed --rw randwrite --allow-write", "open closed"),
        ("--file folder/new --size 1m", "create folder/new"),
    ] {
        let args = format!("bench --trace off --count 8 {options}");
        let ended = run(confine::unprivileged(&mut place.command(&copy, args.split(' '))));
        let line = format!(
            "cannot {what}: Permission denied (os error 13); run as a user with permission, or choose another --file"
        );
        assert_refused(&ended, 3, &line);
        assert_eq!(place.contents(), before);
    }
    End::Passed
}

/// Runs `bench` in the directory `at` on a file system of its own, then returns the directory's contents.
fn on_its_own(
    kind: &'static std::ffi::CStr,
    size: &'static std::ffi::CStr,
    options: &str,
) -> Result<crate::tool::Ended, String> {
    if let Some(reason) = confine::cannot_mount(kind) {
        return Err(reason);
    }
    let place = Place::new();
    std::fs::create_dir(place.join("at")).expect("our own folder");
    let script = "\"$0\" bench --trace off --warmup 0 --count 8 \"$@\"; s=$?; ls -A at; exit $s";
    let mut command = place.command("sh".as_ref(), ["-c", script, crate::tool::BINARY]);
    command.args(options.split(' '));
    Ok(run(confine::mounted(&mut command, kind, size, c"at")))
}

fn full_disk() -> End {
    match on_its_own(c"tmpfs", c"size=1m", "--buffered --file at/x --size 2m") {
        Ok(ended) => assert_refused(
            &ended,
            3,
            "cannot lay out at/x: No space left on device (os error 28); free space there, use a smaller --size, or choose another --file",
        ),
        Err(reason) => return End::Skipped(reason),
    }
    End::Passed
}

fn full_disk_of_the_store() -> End {
    match on_its_own(c"tmpfs", c"size=8k", "--rw nop --store at/deep/s.db") {
        Ok(ended) => assert_refused(
            &ended,
            3,
            "no space left for the store at/deep/s.db; free space there, or specify another file with --store",
        ),
        Err(reason) => return End::Skipped(reason),
    }
    End::Passed
}

fn fills() -> End {
    if let Some(reason) = confine::cannot_filter() {
        return End::Skipped(reason);
    }
    let place = Place::new();
    let mut command = bench(&place, "--count 8 --file x --size 4m");
    // A file system that cannot reserve space in advance, and fills up when data is written.
    let rules = [Rule::Refuse(libc::SYS_fallocate, libc::EOPNOTSUPP), Rule::Refuse(libc::SYS_fsync, libc::ENOSPC)];
    let ended = run(confine::filter(&mut command, &rules));
    assert_refused(
        &ended,
        3,
        "cannot lay out x: No space left on device (os error 28); free space there, use a smaller --size, or choose another --file",
    );
    assert_eq!(place.contents().len(), 0);
    End::Passed
}

fn no_direct() -> End {
    match on_its_own(c"ramfs", c"", "--file at/x --size 1m") {
        Ok(ended) => assert_refused(
            &ended,
            3,
            "the file system of at/x does not support direct I/O (O_DIRECT); add --buffered, or choose a --file on another file system",
        ),
        Err(reason) => return End::Skipped(reason),
    }
    match on_its_own(c"ramfs", c"", "--file at/x --size 1m --buffered --json") {
        Ok(ended) => assert_eq!((ended.status, ended.stdout.ends_with("\nx\n")), (0, true), "{}", ended.stderr),
        Err(reason) => return End::Skipped(reason),
    }
    End::Passed
}

fn locked_memory() -> End {
    let place = Place::public();
    let copy = confine::public_copy(&place);
    let args = "bench --trace off --rw nop --register buffers --depth 1024 --count 8";
    let mut command = place.command(&copy, args.split(' '));
    let ended = run(confine::locked_memory(confine::unprivileged(&mut command), 1 << 20));
    assert_refused(
        &ended,
        3,
        "cannot register 4096 KiB of buffers with the ring: the locked memory limit is 1024 KiB; raise it (ulimit -l 4160, per job), use a smaller --depth, or remove buffers from --register",
    );
    End::Passed
}

fn no_io_uring() -> End {
    if let Some(reason) = confine::cannot_filter() {
        return End::Skipped(reason);
    }
    let place = Place::new();
    let filter = "cannot set up an io_uring: the seccomp filter of this process (a container's or a service's) blocks io_uring; let the filter allow io_uring_setup, io_uring_enter and io_uring_register, or run outside it, or use --engine libaio";
    let locked = "cannot set up an io_uring of 16 entries: a ring counts as locked memory, and this user's limit is reached; raise it: ulimit -l unlimited, LimitMEMLOCK=infinity of the service, or run with CAP_IPC_LOCK, or use a smaller --depth or use fewer --jobs";
    let no_memory = "cannot set up an io_uring of 16 entries: not enough memory for a ring (4 tries in a row); free memory, or raise this process's memory cgroup limit, or use a smaller --depth or use fewer --jobs";
    for (errno, line) in [
        (libc::EPERM, filter),
        (libc::ENOSYS, filter),
        // Only since Linux 6.14 does a ring count as locked memory, and root's memory never does.
        (libc::ENOMEM, if is_root() { no_memory } else { locked }),
        (
            libc::EMFILE,
            "cannot set up an io_uring: this process has reached its open file limit (4 tries in a row); raise it: ulimit -n, or use fewer --jobs",
        ),
    ] {
        let rules = [Rule::Refuse(libc::SYS_io_uring_setup, errno)];
        for options in ["--rw nop --count 8", "--rw nop --count 8 --jobs 3 --neighbour busy:1"] {
            assert_refused(&run(confine::filter(&mut bench(&place, options), &rules)), 3, line);
        }
    }
    let rules = [Rule::Refuse(libc::SYS_io_uring_setup, libc::EPERM)];
    // Reported before a program is run for its rings.
    let tried = run(confine::filter(&mut place.tool(["try", "--watch", "none", "--", "false"]), &rules));
    let line = "programs cannot set up an io_uring here: the seccomp filter of this process (a container's or a service's) blocks io_uring; let the filter allow io_uring_setup, io_uring_enter and io_uring_register, or run outside it";
    assert_refused(&tried, 3, line);
    // The remedy works.
    run(confine::filter(bench(&place, "--engine libaio --count 8 --file").arg(file()), &rules)).ok();
    // check reports the same without failing.
    let check = run(confine::filter(&mut place.tool(["check", "--json"]), &rules)).ok().json();
    let items = check["items"].as_array().expect("a list");
    let of_ring = items.iter().find(|i| i["id"] == "engine.io_uring").expect("the engine is told of");
    assert_eq!(of_ring["state"], "missing", "{of_ring}");
    let restore = of_ring["restore"].as_str().expect("what restores it");
    assert!(filter.contains(restore), "{restore}");
    End::Passed
}

fn no_interrupts() -> End {
    let place = Place::new();
    for list in ["irq", "non-irq"] {
        let line = |why: &str| format!("--cpus {list}: {why}; specify the CPUs: --cpus 0,2-3");
        let (none, memory) = (
            line("the load has no target with interrupts"),
            line("at/x is on no disk (tmpfs), so no interrupt completes its I/O"),
        );
        assert_refused(&run(&mut bench(&place, &format!("--rw nop --count 8 --cpus {list}"))), 3, &none);
        match on_its_own(c"tmpfs", c"size=4m", &format!("--buffered --file at/x --size 1m --cpus {list}")) {
            Ok(ended) => assert_refused(&ended, 3, &memory),
            Err(reason) => return End::Skipped(reason),
        }
    }
    End::Passed
}

fn no_probes() -> End {
    let place = Place::public();
    let ended = confine::run_unprivileged(&place, "bench --rw nop --count 8 --warmup 0 --trace on");
    assert_eq!(ended.status, 3, "{}", ended.stderr);
    let line = ended.one_line();
    assert!(line.contains("; "), "a remedy: {line}");
    assert!(!line.contains("errno") && !line.contains("libbpf"), "in the user's words: {line}");
    // `auto` still measures, and reports it.
    let copy = place.join("iotrail");
    let args = ["bench", "--rw", "nop", "--count", "8", "--warmup", "0", "--json"];
    let m = run(confine::unprivileged(&mut place.command(&copy, args))).ok().json();
    crate::options::sound(&m);
    assert_eq!((&m["probe"]["mode"], &m["warnings"][0]["code"]), (&"off".into(), &"not_watched".into()));
    End::Passed
}
