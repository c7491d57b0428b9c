//! The store: its path, and files that are rejected.

use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;

use crate::run::experiment;
use crate::tool::{Place, bench, file, run};
use crate::{End, Test, confine};

pub const TESTS: &[Test] = &[
    ("store::the_path_of_the_store_depends_on_the_environment", place_of_it),
    ("store::bench_stores_one_measurement", single),
    ("store::a_file_that_is_not_a_store_is_rejected_and_not_modified", refused),
    ("store::a_read_only_directory_is_rejected", unwritable),
    ("store::a_failed_command_leaves_no_store", failed),
];

fn place_of_it() -> End {
    let place = Place::new();
    experiment(&place, "count = 8");
    let go = |name: &str, value: Option<std::path::PathBuf>| {
        let mut command = place.tool(["run", "e.toml", "--quick", "--file"]);
        command.arg(file());
        value.iter().for_each(|v| {
            command.env(name, v);
        });
        run(&mut command).ok();
    };
    go("XDG_STATE_HOME", Some(place.join("state")));
    assert!(place.join("state/iotrail/iotrail.db").is_file());
    go("XDG_STATE_HOME", None);
    assert!(place.join("home/.local/state/iotrail/iotrail.db").is_file());
    // The XDG specification requires that a relative path be ignored.
    go("XDG_STATE_HOME", Some("relative".into()));
    assert!(!place.join("relative").exists());
    let ended = run(place.tool(["list"]).env_remove("HOME"));
    assert_eq!(ended.status, 2);
    assert_eq!(ended.one_line(), "neither XDG_STATE_HOME nor HOME is set; specify the store with --store PATH");
    End::Passed
}

fn single() -> End {
    let place = Place::new();
    let mut m = run(&mut bench(&place, "--rw nop --count 8 --json --store deep/er/s.db")).ok().json();
    // The first lines of the screen are generated from the rest.
    let head = m.as_object_mut().and_then(|m| m.remove("head")).expect("an answer");
    assert!(head["answer"].as_str().is_some_and(|answer| answer.contains("IOPS")), "{head}");
    let db = Connection::open(place.join("deep/er/s.db")).expect("an SQLite file");
    let (kind, ios, json): (String, i64, String) = db
        .query_row("SELECT kind, ios, json FROM runs JOIN measurements USING (run)", [], |r| {
            Ok((r.get(0)?, r.get(1)?, r.get(2)?))
        })
        .expect("one measurement");
    assert_eq!((kind.as_str(), ios), ("single", 8));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).expect("JSON"), m, "what is printed is what is stored");
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    run(&mut bench(&place, "--rw nop --count 8 --store good.db")).ok();
    let good = std::fs::read(place.join("good.db")).expect("a store");
    place.write("cut.db", &good[..good.len() / 2 - 100]);
    place.write("stump.db", &good[..50]);
    place.write("text.db", "this is no database, however long its text may be".repeat(9));
    let foreign = Connection::open(place.join("foreign.db")).expect("a new database");
    foreign.execute_batch("CREATE TABLE t (x); PRAGMA user_version = 1").expect("a table");
    drop(foreign);
    place.write("newer.db", &good);
    Connection::open(place.join("newer.db"))
        .and_then(|db| db.pragma_update(None, "user_version", 99))
        .expect("a store");
    std::fs::create_dir(place.join("folder.db")).expect("a folder of our own");
    experiment(&place, "count = 8");
    let before = place.contents();
    for (name, status, says) in [
        (
            "cut.db",
            2,
            "the store cut.db is damaged or truncated; restore a backup, or copy the readable part with `iotrail list",
        ),
        (
            "stump.db",
            2,
            "the store stump.db is damaged or truncated; restore a backup, or copy the readable part with `iotrail list",
        ),
        ("text.db", 2, "text.db is not an iotrail store; specify another file with --store"),
        ("foreign.db", 2, "foreign.db is another program's database, not an iotrail store; specify another file"),
        (
            "newer.db",
            2,
            "newer.db was written by a newer iotrail (store version 99; this one supports up to 6); update iotrail",
        ),
        ("folder.db", 2, "folder.db is a directory, not a store; specify a file with --store"),
        ("/proc/none/s.db", 3, "cannot create the store's directory /proc/none: "),
        ("e.toml/s.db", 3, "cannot create the store's directory e.toml: "),
        ("/dev/null", 2, "/dev/null is not a regular file, so not a store; specify a file with --store"),
    ] {
        let mut commands = vec![
            bench(&place, &format!("--rw nop --count 8 --store {name}")),
            place.tool(["run", "e.toml", "--quick", "--store", name, "--file"]),
        ];
        commands[1].arg(file());
        if place.join(name).exists() && name != "e.toml/s.db" {
            commands.push(place.tool(["list", "--store", name]));
        }
        for mut command in commands {
            let ended = run(&mut command);
            assert_eq!(ended.status, status, "{command:?}: {}", ended.stderr);
            assert!(ended.one_line().starts_with(says), "{command:?}: {}", ended.stderr);
            assert_eq!(place.contents(), before, "{command:?}");
        }
    }
    End::Passed
}

fn unwritable() -> End {
    let place = Place::public();
    let copy = confine::public_copy(&place);
    std::fs::create_dir(place.join("closed")).expect("a folder of our own");
    std::fs::set_permissions(place.join("closed"), std::fs::Permissions::from_mode(0o555)).expect("our own folder");
    for (store, says) in [
        ("closed/s.db", "cannot open the store closed/s.db: "),
        ("closed/deeper/s.db", "cannot create the store's directory closed/deeper: "),
    ] {
        let args = ["bench", "--trace", "off", "--rw", "nop", "--count", "8", "--store", store];
        let ended = run(confine::unprivileged(&mut place.command(&copy, args)));
        assert_eq!(ended.status, 3, "{}", ended.stderr);
        let line = ended.one_line();
        assert!(line.starts_with(says) && line.ends_with("specify another file with --store"), "{line}");
    }
    assert_eq!(place.contents().len(), 2, "the copy and the closed folder");
    End::Passed
}

fn failed() -> End {
    let place = Place::new();
    experiment(&place, "count = 8");
    let before = place.contents();
    for args in [
        "bench --trace off --file missing --store new/er/s.db",
        "bench --trace off --file e.toml --bs 1g --store s.db",
        "run e.toml --file missing/x --store new/s.db",
        "run e.toml --file e.toml --store s.db",
        "run coop --resume --store new/s.db",
        "run e.toml --resume --file e.toml",
        "list --store new/s.db",
    ] {
        let ended = run(&mut place.tool(args.split(' ')));
        let expected = if args.starts_with("list") { 0 } else { 2 };
        assert_eq!(ended.status, expected, "{args}: {}", ended.stderr);
        assert_eq!(place.contents(), before, "{args}");
    }
    // An existing store is kept with its contents.
    run(&mut bench(&place, "--rw nop --count 8 --store s.db")).ok();
    let before = place.contents();
    assert_eq!(run(&mut bench(&place, "--file missing --store s.db")).status, 2);
    assert_eq!(run(&mut place.tool(["run", "e.toml", "--file", "missing/x", "--store", "s.db"])).status, 2);
    let listed = run(&mut place.tool(["list", "--store", "s.db", "--json"])).ok().json();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(place.contents().len(), before.len());
    End::Passed
}
