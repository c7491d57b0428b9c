//! `restore`, and the notice about a killed run's changes. Uses synthetic journals that refer to the test's files.

use std::path::Path;

use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("restore::restore_without_changes_reports_so_and_creates_no_files", nothing),
    ("restore::commands_report_settings_of_a_killed_run_until_they_are_restored", put_back),
    ("restore::a_setting_changed_by_another_program_needs_force", changed_since),
    ("restore::a_damaged_journal_is_reported_and_kept", damaged),
];

const JOURNAL: &str = "home/.local/state/iotrail/settings.journal";

/// Records changes of a process that exited during this boot of this machine: files that contained `old` and were set
/// to `new`.
fn leave(place: &Place, changes: &[(&str, &str, &str)]) {
    let kernel = |name: &str| std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).expect("its text");
    let (boot, host) = (kernel("random/boot_id"), kernel("hostname"));
    // No process can have the machine's maximum PID.
    let mut text = format!(
        "{{\"schema\":\"iotrail.settings/1\",\"tgid\":4194304,\"started_ticks\":1,\"boot_id\":\"{}\",\"hostname\":\"{}\"}}\n",
        boot.trim(),
        host.trim()
    );
    for (file, old, new) in changes {
        let path = place.join(file);
        let change = serde_json::json!({"change": {"kind": "value", "path": path, "old": old, "new": new}});
        text.push_str(&format!("{change}\n"));
    }
    std::fs::create_dir_all(place.join(JOURNAL).parent().expect("its folder")).expect("a folder of our own");
    place.write(JOURNAL, text + "{\"change\":{\"kind\":\"val");
}

fn read(place: &Place, file: &str) -> String {
    std::fs::read_to_string(place.join(file)).expect("a file of our own")
}

fn nothing() -> End {
    let place = Place::new();
    let ended = run(&mut place.tool(["restore"])).ok();
    assert_eq!(ended.stdout, "nothing to restore: no run has left settings changed\n");
    let json = run(&mut place.tool(["restore", "--json"])).ok().json();
    assert_eq!((json["schema"].as_str(), json["tgid"].as_u64()), (Some("iotrail.restore/1"), None));
    assert_eq!(json["settings"].as_array().map(Vec::len), Some(0));
    assert!(place.contents().is_empty());
    let ended = run(place.tool(["restore"]).env_remove("HOME"));
    assert_eq!(ended.status, 2);
    assert!(ended.one_line().ends_with("set one of them to a directory"), "{}", ended.stderr);
    End::Passed
}

fn put_back() -> End {
    let place = Place::new();
    place.write("a", "64\n");
    place.write("b", "1\n");
    leave(&place, &[("a", "256", "64"), ("b", "1", "0"), ("gone", "x", "y")]);
    let notice =
        "iotrail: settings changed by a killed run (process 4194304) are still in place: run iotrail restore\n";
    let ended = run(&mut place.tool(["list", "--json"])).ok();
    assert_eq!(ended.stderr, notice);
    ended.json();
    assert_eq!(run(&mut place.tool(["bench", "--trace", "off", "--rw", "nop", "--count", "8"])).ok().stderr, notice);
    let json = run(&mut place.tool(["restore", "--json"])).ok().json();
    assert_eq!(json["tgid"], 4194304);
    let outcomes: Vec<_> = json["settings"].as_array().expect("a list").iter().map(|s| s["outcome"].clone()).collect();
    assert_eq!(outcomes, ["gone", "as_before", "put_back"], "from the last to the first");
    assert_eq!((json["settings"][2]["from"].as_str(), json["settings"][2]["to"].as_str()), (Some("64"), Some("256")));
    assert_eq!((read(&place, "a").as_str(), read(&place, "b").as_str()), ("256", "1\n"));
    assert!(!place.join(JOURNAL).exists());
    assert_eq!(run(&mut place.tool(["list", "--json"])).ok().stderr, "");
    End::Passed
}

fn changed_since() -> End {
    let place = Place::new();
    place.write("a", "128\n");
    place.write("b", "0\n");
    leave(&place, &[("a", "256", "64"), ("b", "1", "0")]);
    let ended = run(&mut place.tool(["restore"]));
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let (a, b, journal) = (place.join("a"), place.join("b"), place.join(JOURNAL));
    assert_eq!(
        ended.stdout,
        format!(
            "{}: restored to 1 (it was 0)\n\
             {}: is 128 now, changed by another program since it was set to 64; it is not modified; \
             `iotrail restore --force` restores 256\n\
             1 of 2 changes are not restored yet; {} records them, and removing it keeps the current settings\n",
            b.display(),
            a.display(),
            journal.display()
        )
    );
    assert_eq!((read(&place, "a").as_str(), read(&place, "b").as_str()), ("128\n", "1"));
    let ended = run(&mut place.tool(["restore", "--force"])).ok();
    assert!(ended.stdout.ends_with("all changes of process 4194304 are restored\n"), "{}", ended.stdout);
    assert_eq!(read(&place, "a"), "256");
    End::Passed
}

fn damaged() -> End {
    let place = Place::new();
    leave(&place, &[]);
    let text = read(&place, JOURNAL).replace("{\"change\"", "what is this\n{\"change\"");
    place.write(JOURNAL, &text);
    let ended = run(&mut place.tool(["restore"]));
    assert_eq!(ended.status, 2);
    let line = ended.one_line();
    assert!(
        line.contains("settings.journal is damaged at line 2: ") && line.ends_with("then remove the file"),
        "{line}"
    );
    assert_eq!(read(&place, JOURNAL), text);
    End::Passed
}
