//! `try` without running a program: its arms, the experiment that it writes, its errors.

use std::path::Path;

use serde_json::Value;

use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("tried::the_default_and_the_specified_arms_are_planned", arms),
    ("tried::the_saved_experiment_equals_the_tried_one", saved),
    ("tried::an_arm_that_cannot_be_tried_is_rejected_with_one_line", refused),
    ("tried::cpu_waits_are_attributed_to_the_program_that_used_the_cpu", contended),
    ("tried::each_example_of_a_program_is_planned_and_described", examples),
];

fn planned(place: &Place, args: &[&str]) -> Value {
    let ended = run(&mut place.tool([&["try", "--plan", "--json", "--seed", "7"], args].concat())).ok();
    // Only the guessed direction of the metric is printed.
    let guessed = if args.contains(&"--metric") { "tps: more is better; add :less if it is not\n" } else { "" };
    assert_eq!(ended.stderr, guessed);
    serde_json::from_str(&ended.stdout).expect("JSON")
}

fn names(plan: &Value) -> Vec<&str> {
    let cells = plan["cells"].as_array().expect("cells");
    cells.iter().filter_map(|c| c["params"]["arm"].as_str()).collect()
}

fn arms() -> End {
    let place = Place::new();
    let plan = planned(&place, &["--", "true"]);
    let usual = ["as-is", "coop_taskrun,taskrun_flag", "defer_taskrun,single_issuer", "sqpoll", "control"];
    assert_eq!(names(&plan), usual);
    assert_eq!(plan["repeats"], 10);
    let several = [
        "--ring",
        "+sqpoll",
        "--ring=-defer_taskrun",
        "--sq-idle",
        "20",
        "--env-arm",
        "A=1",
        "--cpus-arm",
        "0",
        "--arm",
        "other: false",
    ];
    let plan = planned(&place, &[&several[..], &["--env", "B=2", "--", "true"]].concat());
    assert_eq!(names(&plan), ["as-is", "+sqpoll", "-defer_taskrun", "A=1", "cpus 0", "other", "control"]);
    let options = |arm: &str| {
        let cells = plan["cells"].as_array().expect("cells");
        cells.iter().find(|c| c["params"]["arm"] == arm).expect("the arm")["options"].clone()
    };
    assert_eq!((&options("+sqpoll")["sq-idle"], &options("-defer_taskrun")["sq-idle"]), (&20.into(), &Value::Null));
    assert_eq!(options("A=1")["env"], serde_json::json!(["B=2", "A=1"]));
    assert_eq!(
        (&options("other")["program"], &options("as-is")["program"]),
        (&"false".into(), &serde_json::json!(["true"]))
    );
    End::Passed
}

fn saved() -> End {
    let place = Place::new();
    let what =
        ["--metric", "tps=/tps = ([0-9.]+)/", "--ring", "sqpoll", "--repeats", "3", "--", "sh", "-c", "echo 'a \"b\"'"];
    let ended = run(&mut place.tool([&["try", "--save", "mine.toml"], &what[..]].concat())).ok();
    assert_eq!(ended.stdout, "");
    let plan = planned(&place, &what);
    let of_file = run(&mut place.tool(["run", "mine.toml", "--plan", "--json", "--seed", "7"])).ok();
    let of_file: Value = serde_json::from_str(&of_file.stdout).expect("JSON");
    assert_eq!(of_file, plan);
    // Existing files are never replaced.
    let again = run(&mut place.tool([&["try", "--save", "mine.toml"], &what[..]].concat()));
    assert_eq!(again.status, 2, "{}", again.stderr);
    assert!(again.one_line().ends_with("mine.toml already exists; specify a new file"), "{}", again.stderr);
    // The same applies to a symlink.
    std::os::unix::fs::symlink("victim", place.join("link")).expect("our own folder");
    for command in ["try", "advise"] {
        let ended = run(&mut place.tool([command, "--save", "link", "--store", "s.db", "--", "true"]));
        assert_eq!(ended.status, 2, "{}", ended.stderr);
        assert!(ended.one_line().ends_with("link already exists; specify a new file"), "{}", ended.stderr);
    }
    assert!(!place.join("victim").exists() && !place.join("s.db").exists());
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    for (args, said) in [
        (&["--ring", "coop", "--", "true"][..], "unknown setup flag 'coop'"),
        (&["--ring", "sqe128", "--", "true"], "sqe128 cannot be changed without changing the program"),
        (&["--", "/no/such/program"], "cannot run /no/such/program"),
        (&["--cpus", "900", "--", "true"], "CPU 900 does not exist"),
        (&["--ready", "port:7", "--", "true"], "--server"),
        (&["--server", "true", "--ready", "soon", "--", "true"], "is not port:N, file:PATH or log:REGEX"),
        (&["--metric", "tps", "--", "true"], "'tps' is not NAME=REGEX"),
        (&["--metric", "tps=tps = [0-9]+", "--", "true"], "'tps = [0-9]+' has no group: put the number in one"),
        (&["--metric", "elapsed=/(x)/", "--", "true"], "elapsed is a metric of iotrail"),
        (&["--arm", "threads", "--", "true"], "is not 'NAME: COMMAND'"),
        (&["--ring", "sqpoll", "--ring", "sqpoll", "--", "true"], "two entries of [[arm]] are named"),
        (&["--sq-cpu", "99", "--", "true"], "sq-cpu: CPU 99 does not exist; the online CPUs are 0"),
        (
            &["--sq-idle", "5", "--ring", "none", "--", "true"],
            "--sq-idle applies to no arm: there is no arm with sqpoll",
        ),
        (
            &["--cq-entries", "5", "--env-arm", "A=1", "--", "true"],
            "--cq-entries applies to no arm: there is no --ring arm",
        ),
        (&[], "CMD"),
    ] {
        let ended = run(&mut place.tool([&["try", "--plan"], args].concat()));
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said) && ended.stderr.trim().lines().count() == 1, "{args:?}: {}", ended.stderr);
    }
    // The error refers to the option instead of a line of the generated experiment.
    for command in ["try", "advise"] {
        let ended = run(&mut place.tool([command, "--plan", "--metric", "elapsed=/(x)/", "--", "true"]));
        let said = "'metric': elapsed is a metric of iotrail: choose another name";
        assert!(
            ended.stderr.ends_with(&format!("iotrail: {said}; see iotrail {command} --help\n")),
            "{}",
            ended.stderr
        );
    }
    let missing = "cannot run /no/such: No such file or directory (os error 2); specify an existing program\n";
    for command in ["try", "advise"] {
        let ended = run(&mut place.tool([command, "--plan", "--", "/no/such"]));
        assert_eq!((ended.status, ended.stderr), (2, format!("iotrail: {missing}")));
    }
    let arms = "[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\nprogram = [\"/no/such\"]\n";
    place.write(
        "x.toml",
        format!(
            "name = \"x\"\ntitle = \"X\"\nquestion = \"Q\"\nexpect = \"E\"\nkind = \"program\"\nrepeats = 2\n[load]\nprogram = \"true\"\n{arms}"
        ),
    );
    let ended = run(&mut place.tool(["run", "--plan", "x.toml"]));
    assert_eq!((ended.status, ended.stderr), (2, format!("iotrail: x.toml:11:1: arm b: {missing}")));
    End::Passed
}

/// On one CPU: one thread next to three other programs, then four threads. Asserts ratios, because tests run
/// concurrently.
fn contended() -> End {
    let place = Place::new();
    let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let waits = |command: &str| {
        let how = ["--json", "--watch", "none", "--repeats", "2", "--env-arm", "A=1", "--cpus", "0", "--store", "s.db"];
        let ended = run(&mut place.tool([&["try"], &how[..], &["--", "sh", "-c", command]].concat())).ok().json();
        let all: Vec<Value> = ended["cells"]
            .as_array()
            .expect("cells")
            .iter()
            .flat_map(|c| c["measurements"].as_array().expect("a list").clone())
            .collect();
        let sum = |of: &str| all.iter().filter_map(|m| m["circumstances"][of].as_f64()).sum::<f64>();
        let warned = |m: &Value| m["warnings"].as_array().expect("a list").iter().any(|w| w["code"] == "cpu_contended");
        (sum("run_queue_wait_ns"), sum("others_had_cpu_ns"), all.iter().filter(|m| warned(m)).count())
    };
    let (waited, others, _) = waits(&format!("for k in 1 2 3 4; do ({spin}) & done; wait"));
    assert!(waited > 1e8 && others < waited / 3.0, "{others} of {waited}");
    let neighbour = || {
        let mut command = std::process::Command::new("timeout");
        command.args(["50", "taskset", "-c", "0", "sh", "-c", "while :; do :; done"]).spawn().expect("a shell")
    };
    let mut neighbours = [neighbour(), neighbour(), neighbour()];
    let (waited, others, disturbed) = waits(spin);
    for one in &mut neighbours {
        crate::tool::kill(one.id(), libc::SIGTERM);
        one.wait().expect("our own child");
    }
    assert!(waited > 1e8 && others > waited * 0.8 && disturbed >= 3, "{others} of {waited}, {disturbed} warnings");
    End::Passed
}

/// The experiments in experiments/programs whose programs are installed.
fn examples() -> End {
    let place = Place::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/programs");
    let page = std::fs::read_to_string(folder.join("README.md")).expect("a page");
    let files = std::fs::read_dir(&folder).expect("a folder").map(|f| f.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    let arms = |path: &Path| {
        let path = path.to_str().expect("UTF-8");
        let ended = run(&mut place.tool(["run", path, "--plan", "--json", "--seed", "7"])).ok();
        let plan: Value = serde_json::from_str(&ended.stdout).expect("JSON");
        assert_eq!((&plan["repeats"], ended.stderr.as_str()), (&10.into(), ""), "{path}");
        assert!(plan["cells"].as_array().expect("cells").iter().all(|c| c["untestable"].is_null()), "{plan}");
        let arms = names(&plan);
        assert_eq!((arms.first(), arms.last()), (Some(&"as-is"), Some(&"control")), "{path}");
        arms.len()
    };
    let stem = |path: &Path| path.file_stem().and_then(|s| s.to_str()).expect("UTF-8").to_owned();
    let seen: Vec<(String, usize)> = files.iter().map(|path| (stem(path), arms(path))).collect();
    let known = [
        ("fio-cached", 5),
        ("fio-direct", 5),
        ("mariadb", 6),
        ("net", 5),
        ("node", 6),
        ("postgres", 5),
        ("qemu", 6),
        ("rocksdb", 5),
    ];
    assert_eq!(seen, known.map(|(name, arms)| (name.to_owned(), arms)));
    for (name, _) in &seen {
        assert!(page.contains(&format!("[{name}]({name}.toml)")), "the README does not name {name}");
        let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).expect("a file");
        assert!(text.starts_with(&format!("name = \"{name}\"\n")), "{name}");
    }
    End::Passed
}
