//! `top` without probes.

use crate::bad_load::assert_refused;
use crate::confine;
use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("top::a_process_that_cannot_be_traced_is_rejected", refusals),
    ("top::a_user_without_privileges_to_load_probes_is_rejected", no_rights),
];

fn refusals() -> End {
    for (args, line) in [
        (&["-p", "2147483647"] as &[&str], "process 2147483647 does not exist; `ps` lists the processes"),
        (
            &["-a", "-p", "1"],
            "more than one kind of subject is specified; specify one of: a command after --, processes with -p, all processes with -a",
        ),
        (
            &["-i", "0"],
            "invalid value '0' for '--interval <SECONDS>': an interval must be at least 100ms; see `iotrail top --help`",
        ),
        (&["-i", "soon"], "invalid value 'soon' for '--interval <SECONDS>': *; see `iotrail top --help`"),
        (&["-n", "0"], "invalid value '0' for '--count <COUNT>': *; see `iotrail top --help`"),
        (&["-p", "0"], "invalid value '0' for '--pid <TGID>': *; see `iotrail top --help`"),
    ] {
        let place = Place::new();
        assert_refused(&run(&mut place.tool([&["top"], args].concat())), 2, line);
        assert_eq!(place.contents().len(), 0);
    }
    End::Passed
}

fn no_rights() -> End {
    let place = Place::public();
    let copy = confine::public_copy(&place);
    let line = "this user may not load the probes (BPF programs); run as root, or with CAP_BPF and CAP_PERFMON";
    let us = std::process::id().to_string();
    for args in [&["top"] as &[&str], &["top", "--json"], &["top", "-p", &us]] {
        let mut command = place.command(&copy, args);
        assert_refused(&run(confine::unprivileged(&mut command)), 3, line);
    }
    End::Passed
}
