//! `trace` without probes: its arguments and errors.

use iotrail_host::pid_namespace::Standing;

use crate::bad_load::assert_refused;
use crate::confine::{self, NOBODY};
use crate::tool::{Place, at_work, end, is_root, kill, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("trace::exactly_one_subject_is_required", one_subject),
    ("trace::a_command_that_cannot_run_is_rejected", no_command),
    ("trace::a_process_that_cannot_be_traced_is_rejected", no_process),
    ("trace::contradictory_options_are_rejected", options),
    ("trace::a_user_without_privileges_to_load_probes_is_rejected", no_rights),
];

/// Asserts the error line, and that nothing was run or written.
#[track_caller]
fn refused(args: &[&str], status: i32, line: &str) {
    let place = Place::new();
    assert_refused(&run(&mut place.tool([&["trace"], args].concat())), status, line);
    assert_eq!(place.contents().len(), 0);
}

fn one_subject() -> End {
    let two = "more than one kind of subject is specified; specify one of: a command after --, processes with -p, all processes with -a";
    refused(&["-p", "1", "--", "touch", "x"], 2, two);
    refused(&["-a", "--", "touch", "x"], 2, two);
    refused(&["-a", "-p", "1"], 2, two);
    if Standing::of_this_process() == Standing::Initial {
        refused(
            &["-p", "1"],
            2,
            "process 1 (*) is the ancestor of all processes on this machine; trace all processes with -a*",
        );
    }
    refused(&["-a", "--until", "command"], 2, "*");
    let none = "nothing to trace; specify a command (iotrail trace -- CMD), a process (-p TGID), or all processes (-a)";
    refused(&[], 2, none);
    refused(&["--"], 2, none);
    refused(&["touch", "x"], 2, "unexpected argument 'touch' found; *");
    End::Passed
}

fn no_command() -> End {
    refused(
        &["--", "no-such-program", "x"],
        2,
        "program no-such-program is not in PATH; specify its path, or another program",
    );
    refused(
        &["--json", "--", "./absent"],
        2,
        "cannot run ./absent: No such file or directory (os error 2); specify an existing program",
    );
    refused(
        &["--", "/proc/self/status"],
        2,
        "cannot run /proc/self/status: it is not executable; make it executable: chmod +x",
    );
    refused(&["--", "/"], 2, "cannot run /: it is a directory; specify a program in it");
    refused(&["--", ""], 2, "the command name is empty; specify a program after --");
    End::Passed
}

fn no_process() -> End {
    refused(&["-p", "2147483647"], 2, "process 2147483647 does not exist; `ps` lists the processes");
    for wrong in ["0", "-1", "x", "4294967296"] {
        refused(&["-p", wrong], 2, "invalid value '*' for '--pid <TGID>': *; see `iotrail trace --help`");
    }
    // A thread ID that is valid as long as the load is running.
    let place = Place::new();
    let child = crate::tool::bench(&place, "--rw nop --runtime 1h").spawn().expect("the tool starts");
    let thread = at_work(&child);
    let line = format!("{thread} is a thread of process {0}; trace the process: -p {0}", child.id());
    refused(&["-p", &thread.to_string()], 2, &line);
    kill(child.id(), libc::SIGINT);
    assert_eq!(end(child).status, 1);
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        let line = "process 2 (kthreadd) is a kernel thread: *; specify the program whose requests it serves, *";
        refused(&["-p", "2"], 2, line);
    }
    End::Passed
}

fn options() -> End {
    for (option, value) in [
        ("-d", "0"),
        ("-d", "soon"),
        ("--one-in", "0"),
        ("--one-in", "-1"),
        ("--one-in", "2000000"),
        ("--duration", "-5"),
    ] {
        refused(&[option, value, "--", "touch", "x"], 2, "invalid value '*' for '*; see `iotrail trace --help`");
    }
    // An unknown finding code would never fail the command.
    let line = "invalid value 'sloth' for '--fail-on <CODE>' [possible values: *, overlapping_buffers]; see `iotrail trace --help`";
    refused(&["--fail-on", "reordered", "--fail-on", "sloth", "--", "touch", "x"], 2, line);
    End::Passed
}

fn no_rights() -> End {
    let place = Place::public();
    let copy = confine::public_copy(&place);
    let before = place.contents();
    let line = "this user may not load the probes (BPF programs); run as root, or with CAP_BPF and CAP_PERFMON";
    let us = std::process::id().to_string();
    for args in [&["-a"] as &[&str], &["--", "touch", "x"], &["--json", "-p", &us]] {
        let mut command = place.command(&copy, [&["trace"], args].concat());
        assert_refused(&run(confine::unprivileged(&mut command)), 3, line);
        assert_eq!(place.contents(), before, "nothing was run");
    }
    // Usage errors are reported first, because privileges would not help.
    let ended = run(confine::unprivileged(&mut place.command(&copy, ["trace", "-p", "2147483647"])));
    assert_refused(&ended, 2, "process 2147483647 does not exist; *");
    if is_root() {
        assert_eq!(NOBODY, 65534, "whom the refusals above were for");
    }
    End::Passed
}
