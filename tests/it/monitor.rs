//! `monitor` and `stalls` without probes.

use crate::bad_load::assert_refused;
use crate::confine;
use crate::tool::{Place, run};
use crate::{End, Test};
use iotrail_schema::stall::Trigger;
use serde_json::Value;

pub const TESTS: &[Test] = &[
    ("monitor::contradictory_options_are_rejected", refusals),
    ("monitor::a_user_without_privileges_to_load_probes_is_rejected", no_rights),
    ("monitor::a_directory_without_captures_has_no_stalls", no_stalls),
    ("monitor::the_documentation_lists_each_trigger_and_metric", documented),
];

fn refusals() -> End {
    for (args, line) in [
        (&["-p", "2147483647"] as &[&str], "process 2147483647 does not exist; `ps` lists the processes"),
        (
            &["--cgroup", "/absent/x"],
            "cgroup /absent/x does not exist; use its path as in /proc/PID/cgroup: /system.slice/x.service",
        ),
        (&["--when", "nothing > 1"], "unknown metric nothing; --when accepts build_info, *"),
        (&["--when", "unreaped"], "invalid value 'unreaped' for '--when <EXPR>': *; see `iotrail monitor --help`"),
        (
            &["--threshold", "x=1s"],
            "invalid value 'x=1s' for '--threshold <TRIGGER=TIME>': unknown trigger 'x': use one of slow_request, *",
        ),
        (
            &["--threshold", "slow_sync=-1"],
            "invalid value 'slow_sync=-1' for '--threshold <TRIGGER=TIME>': '-1' is not a duration: write 5s or 500ms; *",
        ),
        (&["--for", "0"], "invalid value '0' for '--for <SECONDS>': the time must be above 0; *"),
        (&["--cpu-budget", "0"], "invalid value '0' for '--cpu-budget <PERCENT>': *; see `iotrail monitor --help`"),
        (
            &["--memory-budget", "1k"],
            "invalid value '1k' for '--memory-budget <SIZE>': *; see `iotrail monitor --help`",
        ),
        (&["-a", "-p", "1"], "the argument '--all' cannot be used with '--pid <TGID>'; see `iotrail monitor --help`"),
    ] {
        let place = Place::new();
        assert_refused(&run(&mut place.tool([&["monitor"], args].concat())), 2, line);
        assert_eq!(place.contents().len(), 0);
    }
    End::Passed
}

fn no_rights() -> End {
    let place = Place::public();
    let copy = confine::public_copy(&place);
    let line = "this user may not load the probes (BPF programs); run as root, or with CAP_BPF and CAP_PERFMON";
    let mut command = place.command(&copy, ["monitor", "--dir", "captures"]);
    assert_refused(&run(confine::unprivileged(&mut command)), 3, line);
    End::Passed
}

fn no_stalls() -> End {
    let place = Place::new();
    assert_eq!(run(&mut place.tool(["stalls"])).ok().stdout, "no stall was captured\n");
    let json = run(&mut place.tool(["stalls", "--json", "--store", "s.db"])).ok().stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["schema"], &json["stalls"]), (&"iotrail.stalls/1".into(), &Value::Array(vec![])));
    let missing = run(&mut place.tool(["stalls", "--dir", "d"]));
    assert_refused(
        &missing,
        2,
        "cannot read d: No such file or directory (os error 2); specify another directory with --dir",
    );
    std::fs::create_dir(place.path().join("d")).expect("a directory");
    let line = "no stall 1 of 0 in d; `iotrail stalls` lists them";
    assert_refused(&run(&mut place.tool(["stalls", "1", "--dir", "d"])), 2, line);
    std::fs::write(place.path().join("d").join("1-unreaped-1.json"), "junk").expect("a file");
    let junk = run(&mut place.tool(["stalls", "--dir", "d"])).ok();
    assert_eq!(junk.stderr, "iotrail: 1 file in d cannot be read as a stall\n");
    End::Passed
}

fn documented() -> End {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/monitoring.md")).expect("a document");
    for trigger in Trigger::ALL {
        assert!(text.contains(&format!("| `{}` |", trigger.name())), "{}", trigger.name());
    }
    for metric in iotrail_watch::monitor::metrics().into_iter().filter(|name| *name != "build_info") {
        let is_named =
            |end: char| text.contains(&format!("`{metric}{end}")) || text.contains(&format!("`{metric}_total{end}"));
        assert!(is_named('`') || is_named('{'), "{metric}");
    }
    End::Passed
}
