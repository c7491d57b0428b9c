//! Standard output that has gone away or is full; standard error that is full.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::run::experiment;
use crate::tool::{Place, bench, end, file, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("output::a_reader_that_leaves_is_no_error", early),
    ("output::a_full_standard_output_is_one", full),
    ("output::a_full_standard_error_changes_nothing", full_error),
];

/// Commands that print, and what they need in the folder.
fn printing(place: &Place) -> Vec<Command> {
    experiment(place, "count = 8");
    let mut run = place.tool(["run", "e.toml", "--quick", "--store", "s.db", "--file"]);
    run.arg(file());
    let tool = |args: &[&str]| place.tool(args);
    vec![
        tool(&["--help"]),
        tool(&["bench", "--help"]),
        tool(&["--version"]),
        tool(&["check"]),
        tool(&["check", "--json"]),
        tool(&["list", "--store", "none.db"]),
        tool(&["run", "coop", "--plan", "--file", "x", "--size", "1g"]),
        bench(place, "--rw nop --count 8"),
        bench(place, "--rw nop --count 8 --json"),
        run,
    ]
}

fn early() -> End {
    let place = Place::new();
    for command in &mut printing(&place) {
        // `| head -1`, and a reader that never reads at all.
        for bytes in [1, 0] {
            let mut child = command.spawn().expect("the tool starts");
            let mut reader = child.stdout.take().expect("a pipe");
            let mut first = vec![0; bytes];
            reader.read_exact(&mut first).expect("its first byte");
            drop(reader);
            let ended = end(child);
            assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{command:?}");
        }
    }
    End::Passed
}

fn dev_full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is on every Linux").into()
}

fn full() -> End {
    let place = Place::new();
    for command in &mut printing(&place) {
        let ended = run(command.stdout(dev_full()));
        assert_eq!(ended.status, 3, "{command:?}");
        let line = "cannot write to standard output: No space left on device (os error 28); check where it leads";
        assert_eq!(ended.one_line(), line, "{command:?}");
    }
    // What was measured is stored all the same.
    let listed = run(&mut place.tool(["list", "--store", "s.db", "--json"])).ok().json();
    assert_eq!(listed["runs"][0]["done"], 4);
    End::Passed
}

fn full_error() -> End {
    let place = Place::new();
    let status = |command: &mut Command| run(command.stderr(dev_full())).status;
    assert_eq!(status(&mut bench(&place, "--file missing")), 2);
    assert_eq!(status(&mut place.tool(["bench", "--engine", "none"])), 2);
    assert_eq!(status(&mut place.tool([""; 0])), 2);
    assert_eq!(status(&mut bench(&place, "--rw nop --count 8")), 0);
    // A disk that is full while the target is laid out, and nobody to be told.
    assert_eq!(status(&mut bench(&place, "--file x --size 4000000t")), 3);
    assert_eq!(place.contents().len(), 0);
    End::Passed
}
