//! `replay` of fio's iologs without probes: its errors, its output, and that recorded files are not written to.

use serde_json::Value;

use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("replay::a_recorded_file_is_unchanged_and_the_copy_is_removed", unchanged),
    ("replay::the_json_includes_the_self_check_the_arms_and_the_limits", json),
    ("replay::an_impossible_replay_is_rejected_with_one_line", refused),
    ("replay::missing_or_truncated_files_are_reported_before_the_replay", gone),
    ("replay::an_experiment_compares_replays_by_replay_metrics", experiment),
    ("replay::advise_proposes_io_uring_for_synchronous_calls", advised),
];

/// An iolog of `n` requests on a file of 64 blocks.
fn iolog(place: &Place, action: &str, n: usize) -> String {
    let data = place.write("data", vec![7u8; 64 << 12]);
    let data = data.display();
    let lines: String = (0..n).map(|i| format!("{i} {data} {action} {} 4096\n", (i % 64) << 12)).collect();
    place.write("log", format!("fio version 3 iolog\n0 {data} add\n0 {data} open\n{lines}"));
    data.to_string()
}

/// Adds `--trace off`, because these tests need no probes.
fn replay<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["replay", "log", "--repeats", "2", "--trace", "off"], args].concat()
}

fn unchanged() -> End {
    let place = Place::new();
    iolog(&place, "write", 200);
    let ended = run(place.tool(replay(&[])).env("XDG_CACHE_HOME", place.join("cache"))).ok();
    assert!(ended.stdout.starts_with("The iolog's requests were replayed one at a time"), "{}", ended.stdout);
    assert!(ended.stdout.lines().count() <= 20, "{}", ended.stdout);
    assert!(ended.stdout.contains("(imported)"), "{}", ended.stdout);
    assert_eq!(std::fs::read(place.join("data")).expect("it is there"), vec![7u8; 64 << 12]);
    let left: Vec<_> = std::fs::read_dir(place.join("cache/iotrail")).expect("it was made").collect();
    assert!(left.is_empty(), "{left:?}");
    // A directory's map, and a file that does not exist.
    let map = format!("{}={}", place.join("data").display(), place.join("new").display());
    run(&mut place.tool(replay(&["--map", &map]))).ok();
    assert!(!place.join("new").exists());
    End::Passed
}

fn json() -> End {
    let place = Place::new();
    iolog(&place, "read", 300);
    let ended = run(&mut place.tool(replay(&["--engine", "sync", "--json"]))).ok();
    let json: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&json["schema"], &json["ios"], &json["pairs"]), (&"iotrail.replay/1".into(), &300.into(), &2.into()));
    for figure in ["iops", "latency_p50", "latency_p99", "in_flight", "calls_per_io"] {
        assert_eq!(json["fidelity"][figure]["recorded"], Value::Null, "an iolog does not have it: {figure}");
        assert!(json["fidelity"][figure].get("ci95").is_some());
    }
    assert_eq!((&json["fidelity"]["iops"]["replayed"], &json["capture_slowdown"]), (&Value::Null, &Value::Null));
    let once = run(&mut place.tool(["replay", "log", "--once", "--json"])).ok();
    let once: Value = serde_json::from_str(&once.stdout).expect("JSON");
    assert_eq!((&once["ios"], &once["per_io"]["syscalls"]), (&300.into(), &1.0.into()));
    assert!(once["head"]["answer"].is_string(), "{once}");
    let latencies = once["latency_histogram"].as_array().expect("a histogram");
    assert_eq!(latencies.iter().map(|of| of[1].as_u64().expect("a count")).sum::<u64>(), 300);
    let arms = json["arms"].as_array().expect("arms");
    let names: Vec<_> = arms.iter().map(|arm| arm["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["unchanged", "--engine sync"]);
    assert_eq!((&arms[1]["counts"]["ios"], &arms[1]["counts"]["calls_per_io"]), (&300.into(), &1.0.into()));
    let metrics: Vec<_> = arms[1]["comparisons"].as_array().expect("some").iter().map(|c| &c["metric"]).collect();
    assert_eq!(metrics.len(), 6, "{metrics:?}");
    let codes: Vec<_> = json["limits"].as_array().expect("limits").iter().map(|l| &l["code"]).collect();
    assert_eq!(codes, ["imported"]);
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    let data = iolog(&place, "write", 10);
    place.write("none", "nothing");
    let data_twice = format!("{data}={data}");
    let other = format!("{data}={}", place.write("other", "x").display());
    let cases: &[(&[&str], &str)] = &[
        (&["replay", "missing"], "cannot open missing: "),
        (&["replay", "none"], "none is not an iotrail recording; "),
        (&["replay", "log", "--rings", "shared"], "invalid value 'shared' for '--rings <RINGS>'"),
        (&["replay", "log", "--map", "x"], "invalid value 'x' for '--map <OLD=NEW>': 'x' is not OLD=NEW; "),
        (
            &["replay", "log", "--map", &data_twice],
            &format!("--map: {data} is a recorded file, and a replay never writes"),
        ),
        (&["replay", "log", "--map", &data_twice, "--allow-write"], &format!("--map: {data} is a recorded file, and")),
        (&["replay", "log", "--map", &other], "the replay would overwrite "),
        (&["replay", "log", "--engine", "sync", "--ring", "none"], "--ring and --register apply only to io_uring; "),
        (&["replay", "log", "--engine", "sync", "--depth", "4"], "synchronous calls have no --depth and no --batch; "),
        (&["replay", "log", "--ring", "coop_taskrun"], "the recorded program has no ring: its calls are synchronous; "),
        (&["replay", "log", "--engine", "io_uring", "--ring", "sqpoll"], "a replay has no SQPOLL thread; "),
        (&["replay", "log", "--engine", "io_uring", "--register", "ring"], "cannot register 'ring'; "),
    ];
    for (args, begins) in cases {
        let ended = run(&mut place.tool(*args));
        assert_eq!(ended.status, 2, "{args:?}: {}", ended.stderr);
        assert!(ended.one_line().starts_with(begins), "{args:?}: {}", ended.stderr);
    }
    place.write("log", "fio version 3 iolog\n1 /data read zero 4096\n");
    let ended = run(&mut place.tool(["replay", "log"]));
    assert!(ended.one_line().starts_with("log:2: no number: "), "{}", ended.stderr);
    End::Passed
}

fn gone() -> End {
    let place = Place::new();
    let data = iolog(&place, "read", 100);
    place.write("data", "short");
    let ended = run(&mut place.tool(replay(&[])));
    assert_eq!(ended.status, 2);
    let said = format!("cannot replay on these files: {data} has 5 bytes, but the recording reads up to 262144; ");
    assert!(ended.one_line().starts_with(&said), "{}", ended.stderr);
    std::fs::remove_file(&data).expect("it is there");
    let ended = run(&mut place.tool(replay(&[])));
    assert!(
        ended.one_line().starts_with(&format!("cannot replay on these files: {data} no longer exists; ")),
        "{}",
        ended.stderr
    );
    End::Passed
}

const EXPERIMENT: &str = r#"
name = "replays"
title = "Replays"
question = "Which interface?"
expect = ""
kind = "program"
repeats = 2
metrics = ["iops", "latency_p99", "cpu_per_io"]
control = false

[load]
replay = "log"
watch = "none"

[[arm]]
name = "as recorded"

[[arm]]
name = "overlapped"
engine = "io_uring"
depth = 4
"#;

fn experiment() -> End {
    let place = Place::new();
    iolog(&place, "read", 300);
    place.write("e.toml", EXPERIMENT);
    let ended = run(&mut place.tool(["run", "e.toml", "--json"])).ok();
    let json: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let cells = json["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    for m in cells.iter().flat_map(|cell| cell["measurements"].as_array().expect("measurements")) {
        assert_eq!((&m["ios"], &m["errors"], &m["latency_ns"]["count"]), (&300.into(), &0.into(), &300.into()));
    }
    let compared: Vec<_> = json["comparisons"].as_array().expect("comparisons").iter().collect();
    assert!(compared.iter().all(|c| c["ratio"].is_number()) && compared.len() == 3, "{compared:?}");
    for (bad, refusal) in [
        ("replay = \"gone\"", "cannot read the recording gone"),
        ("replay = \"log\"\nprogram = \"true\"", "'program' and 'replay' cannot be combined"),
        ("program = \"true\"", "'engine' is a replay option"),
    ] {
        place.write("bad.toml", EXPERIMENT.replace("replay = \"log\"", bad));
        let ended = run(&mut place.tool(["run", "bad.toml"]));
        assert!(ended.status == 2 && ended.one_line().contains(refusal), "{}", ended.stderr);
    }
    End::Passed
}

fn advised() -> End {
    let place = Place::new();
    iolog(&place, "read", 300);
    let ended = run(&mut place.tool(["advise", "--replay", "log", "--plan"])).ok();
    for candidate in ["as-is", "engine io_uring · depth 1", "engine io_uring · depth 16", "engine libaio · depth 16"]
    {
        assert!(ended.stdout.contains(candidate), "{candidate}: {}", ended.stdout);
    }
    assert!(ended.stdout.contains("compared     iops, latency_p99, cpu_per_io"), "{}", ended.stdout);
    End::Passed
}
