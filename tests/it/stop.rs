//! Stopped by Ctrl-C, or killed: complete results are kept, and incomplete ones leave nothing behind.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::run::experiment;
use crate::tool::{Ended, Place, at_work, bench, end, file, kill, run, wait_for};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("stop::ctrl_c_keeps_complete_measurements_and_resume_continues", ctrl_c),
    ("stop::a_closed_terminal_and_other_signals_end_a_run_like_ctrl_c", other_signals),
    ("stop::a_program_and_its_descendants_are_killed_with_iotrail", programs),
    ("stop::a_killed_run_leaves_a_readable_store_and_no_process", killed),
    ("stop::an_interrupted_bench_prints_a_partial_result_with_a_warning", stopped_bench),
];

/// The stored measurements; `None` if the store does not exist yet, or if a transaction is open.
fn stored(store: &Path) -> Option<Vec<String>> {
    let db = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    let mut query = db.prepare("SELECT json FROM measurements ORDER BY measurement").ok()?;
    let rows = query.query_map([], |r| r.get(0)).ok()?;
    rows.collect::<rusqlite::Result<_>>().ok()
}

fn first_stored(place: &Place) {
    wait_for("the first measurement in the store", || stored(&place.join("s.db")).filter(|m| !m.is_empty()));
}

/// An experiment with 8 measurements and busy neighbours.
fn begin(place: &Place) -> Child {
    experiment(place, "runtime = \"150ms\"\nneighbour = \"busy:1\"");
    let args = ["run", "e.toml", "--store", "s.db", "--json", "--file"];
    place.tool(args).arg(file()).spawn().expect("the tool starts")
}

fn done(r: &Value) -> usize {
    let of = |c: &Value| c["measurements"].as_array().map_or(0, Vec::len);
    r["cells"].as_array().expect("a list").iter().map(of).sum()
}

/// Resumes with the command in `line`, and compares with the store's earlier contents.
#[track_caller]
fn resume(place: &Place, command: &str) -> Ended {
    let before = stored(&place.join("s.db")).expect("the store can be read");
    let ended = run(&mut place.tool(command.split(' '))).ok();
    let after = stored(&place.join("s.db")).expect("the store can be read");
    assert_eq!(after.len(), 8, "everything is measured");
    assert_eq!(after[..before.len()], before, "what was stored stays as it was");
    ended
}

fn ctrl_c() -> End {
    let place = Place::new();
    let child = begin(&place);
    first_stored(&place);
    kill(child.id(), libc::SIGINT);
    let ended = end(child);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let r = ended.json();
    let kept = done(&r);
    assert!((1..8).contains(&kept), "{kept}");
    assert!(r["finished_unix_s"].is_null());
    let line = ended.stderr.lines().last().expect("a line");
    let (said, command) = line.split_once("; continue with: iotrail ").expect("how to go on");
    assert_eq!(said, format!("stopped: {kept} of 8 measurements are stored"));
    // Uses exactly the printed command.
    assert!(command.ends_with(" --resume"), "{command}");
    let ended = resume(&place, command);
    assert!(ended.stdout.contains("details: iotrail report 1"), "{}", ended.stdout);
    // Nothing is left to resume.
    let ended = run(&mut place.tool(command.split(' ')));
    assert_eq!(ended.status, 2);
    assert_eq!(ended.one_line(), "no unfinished run of 'tiny' in s.db; omit --resume to start a new run");
    End::Passed
}

/// SIGHUP arrives twice when a terminal is lost.
fn other_signals() -> End {
    for signals in [&[libc::SIGHUP, libc::SIGHUP][..], &[libc::SIGQUIT], &[libc::SIGTERM]] {
        let place = Place::new();
        experiment(&place, "runtime = \"150ms\"\nneighbour = \"busy:1\"");
        let mut tool = place.tool(["run", "e.toml", "--store", "s.db", "--json", "--file"]);
        // The tests may be running under nohup(1).
        // SAFETY: a single system call.
        unsafe {
            tool.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            })
        };
        let child = tool.arg(file()).spawn().expect("the tool starts");
        first_stored(&place);
        signals.iter().for_each(|signal| kill(child.id(), *signal));
        let ended = end(child);
        assert_eq!(ended.status, 1, "{signals:?}: {}", ended.stderr);
        assert!((1..8).contains(&done(&ended.json())), "{signals:?}");
        assert!(ended.stderr.contains("continue with: iotrail "), "{signals:?}: {}", ended.stderr);
    }
    End::Passed
}

/// Processes with this argument.
fn marked(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{mark}\0").into_bytes()).count()
}

/// Includes processes that left the group or the session: of a server without exec, of its client, and of --prepare.
fn programs() -> End {
    // SAFETY: the call only queries the user.
    let users: &[u32] = if unsafe { libc::geteuid() } == 0 { &[0, 65_534] } else { &[0] };
    for (i, (user, signal)) in
        users.iter().flat_map(|user| [libc::SIGINT, libc::SIGKILL].map(|signal| (*user, signal))).enumerate()
    {
        let place = Place::public();
        let mark = format!("6{i}{}", std::process::id());
        let both = format!("setsid sleep {mark} & sleep {mark}; :");
        let mut tool = place.tool(["try", "--watch", "none", "--env-arm", "A=1", "--store", "s.db"]);
        tool.args(["--prepare", &format!("sleep {mark} &"), "--server", &format!("echo up; {both}")]);
        tool.args(["--ready", "log:up", "--", "sh", "-c", &both]);
        if user != 0 {
            tool.uid(user).gid(user);
        }
        let child = tool.spawn().expect("the tool starts");
        wait_for("all processes", || (marked(&mark) == 5).then_some(()));
        kill(child.id(), signal);
        let ended = end(child);
        assert_eq!(ended.status, if signal == libc::SIGKILL { 128 + signal } else { 1 }, "{user}: {}", ended.stderr);
        if signal == libc::SIGKILL {
            wait_for("the end of all processes", || (marked(&mark) == 0).then_some(()));
        }
        assert_eq!(marked(&mark), 0, "{user} {signal}");
    }
    End::Passed
}

fn killed() -> End {
    let place = Place::new();
    let child = begin(&place);
    first_stored(&place);
    kill(child.id(), libc::SIGKILL);
    // Neighbours share standard output, so end of file means that they have exited.
    let ended = end(child);
    assert_eq!((ended.status, ended.stdout.as_str()), (128 + libc::SIGKILL, ""));
    let listed = run(&mut place.tool(["list", "--store", "s.db", "--json"])).ok().json();
    let kept = listed["runs"][0]["done"].as_u64().expect("a number");
    assert!((1..8).contains(&kept), "{kept}");
    assert_eq!((&listed["runs"][0]["planned"], &listed["runs"][0]["finished_unix_s"]), (&json!(8), &Value::Null));
    let command = format!("run e.toml --store s.db --json --file {} --resume", file().display());
    assert_eq!(done(&resume(&place, &command).json()), 8);
    End::Passed
}

fn stopped_bench() -> End {
    let place = Place::new();
    let child = bench(&place, "--rw nop --runtime 1h --neighbour busy:1 --json").spawn().expect("the tool starts");
    at_work(&child);
    kill(child.id(), libc::SIGINT);
    let ended = end(child);
    assert_eq!((ended.status, ended.stderr.as_str()), (1, ""));
    let m = ended.json();
    crate::options::sound(&m);
    let codes: Vec<_> = m["warnings"].as_array().expect("a list").iter().map(|w| &w["code"]).collect();
    // The machine's other activity may be reported, too.
    assert!(codes.contains(&&Value::from("interrupted")), "{codes:?}");
    End::Passed
}
