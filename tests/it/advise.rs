//! `advise`: its candidates, a search over no-ops from start to confirmation, its errors.

use serde_json::Value;

use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("advise::the_candidates_of_a_load_and_of_a_program_are_listed", candidates),
    ("advise::the_best_candidate_is_confirmed_in_a_stored_run_of_fresh_blocks", confirmed),
    ("advise::a_front_of_two_objectives_is_confirmed", of_two),
    ("advise::an_impossible_search_is_rejected_with_one_line", refused),
    ("advise::a_budget_that_is_too_short_is_rejected_with_a_sufficient_one", budget),
];

fn names(place: &Place, args: &[&str]) -> Vec<String> {
    let ended = run(&mut place.tool([&["advise", "--plan", "--json"], args].concat())).ok();
    let plan: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let cells = plan["cells"].as_array().expect("cells").iter();
    cells.filter_map(|c| c["params"]["arm"].as_str()).map(str::to_owned).collect()
}

/// `None` if there is a single CPU, which leaves none for a polling thread.
fn last_cpu() -> Option<u32> {
    let online = iotrail_host::cpu::online().expect("the CPUs that are online");
    online.last().copied().filter(|_| online.len() > 1)
}

fn candidates() -> End {
    let place = Place::new();
    let load = names(&place, &["--rw", "nop", "--depth", "16"]);
    let expected = ["as-is", "coop_taskrun,taskrun_flag", "single_issuer", "defer_taskrun,single_issuer", "sqpoll"];
    assert_eq!(load[..5], expected);
    let bound = last_cpu().map(|cpu| format!("sqpoll sq-cpu {cpu}"));
    let lines = ["batch 8", "defer_taskrun,single_issuer · batch 8"].map(str::to_owned);
    assert_eq!(load[5..], bound.into_iter().chain(lines).collect::<Vec<_>>());
    // Specified options are kept.
    let load = names(&place, &["--rw", "nop", "--depth", "2", "--ring", "sqpoll", "--wait", "peek"]);
    assert_eq!(load.iter().filter(|n| *n == "sqpoll").count(), 0);
    assert!(load.contains(&"wait block".to_owned()) && !load.iter().any(|n| n.contains("batch")), "{load:?}");
    let program = names(&place, &["--cpus", "0", "--", "true"]);
    assert_eq!(program[..5], expected);
    // Other engines do the same I/O on a file; without the option, the host is not changed.
    let file = names(&place, &["--file", "f", "--size", "1m", "--depth", "8", "--cpus", "0"]);
    assert_eq!(file[file.len() - 3..], ["engine libaio", "engine posix_aio", "engine sync · jobs 8"]);
    let plan = ["advise", "--plan", "--file", "f", "--size", "1m", "--depth", "8", "--cpus", "0"];
    let text = run(&mut place.tool(plan)).ok().stdout;
    assert!(text.contains("\nexcluded     scheduler, nr-requests: they affect all users of the disk"), "{text}");
    assert!(!text.contains("\nchanges") && text.contains("engine libaio (a redesign)"), "{text}");
    End::Passed
}

fn confirmed() -> End {
    let place = Place::new();
    let file = place.join("found.toml");
    let store = place.join("s.db");
    let (file_name, store_name) = (file.to_str().expect("UTF-8"), store.to_str().expect("UTF-8"));
    // One eighth of the system calls is a large difference on every machine.
    let options = ["--rw", "nop", "--depth", "16", "--runtime", "40ms", "--warmup", "5ms", "--budget", "50s"];
    let own = ["advise", "--json", "--save", file_name, "--store", store_name];
    let ended = run(&mut place.tool([&own[..], &options].concat())).ok();
    let said: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let (search, confirmation) = (&said["search"], &said["confirmation"]);
    assert_eq!(search["search"]["objective"], "iops");
    assert_eq!(search["search"]["candidates"].as_array().map(Vec::len), Some(7 + usize::from(last_cpu().is_some())));
    let arms = confirmation["arms"].as_array().expect("arms");
    let chosen = arms[1].as_str().expect("a name");
    assert!(arms.len() == 2 && arms[0] == "as-is" && chosen.ends_with("batch 8"), "{arms:?}");
    let found = &confirmation["search"]["found"];
    assert_eq!(found["run"], search["run"]);
    assert!(found["set"].as_array().expect("a set").iter().any(|name| name == chosen), "{found}");
    // A removed candidate is not measured again; a remaining one is measured in every block.
    let cells = search["cells"].as_array().expect("cells");
    let count = |name: &str| {
        let cell = cells.iter().find(|c| c["params"]["arm"] == name).expect("a cell");
        cell["measurements"].as_array().expect("measurements").len()
    };
    assert!(count("sqpoll") < 40 && count("as-is") <= count(chosen), "{} {}", count("as-is"), count(chosen));
    let answer = said["head"]["answer"].as_str().expect("an answer");
    assert!(answer.starts_with(&format!("{chosen}: ")) && answer.contains(" more IOPS"), "{answer}");
    assert!(answer.contains(" than as-is") && answer.ends_with(" fresh blocks"), "{answer}");
    // The stored run has the same head, and the file runs as an experiment.
    let report = |run_of: &Value| {
        let n = run_of["run"].to_string();
        run(&mut place.tool(["report", &n, "--store", store_name])).ok().stdout
    };
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat(&report(confirmation)).starts_with(answer), "{}", report(confirmation));
    let of_search = flat(&report(search));
    assert!(
        of_search.contains("not confirmed in fresh blocks") || of_search.contains("indistinguishable from the best"),
        "{of_search}"
    );
    let plan = run(&mut place.tool(["run", file_name, "--plan", "--json"])).ok();
    let plan: Value = serde_json::from_str(&plan.stdout).expect("JSON");
    assert_eq!((&plan["repeats"], plan["cells"].as_array().map(Vec::len)), (&12.into(), Some(4)));
    End::Passed
}

fn of_two() -> End {
    let place = Place::new();
    let (file, store) = (place.join("found.toml"), place.join("s.db"));
    let (file_name, store_name) = (file.to_str().expect("UTF-8"), store.to_str().expect("UTF-8"));
    let options = ["--rw", "nop", "--depth", "16", "--runtime", "40ms", "--warmup", "5ms", "--budget", "50s"];
    let own = ["advise", "--json", "--objective", "iops,cpu", "--save", file_name, "--store", store_name];
    let ended = run(&mut place.tool([&own[..], &options].concat())).ok();
    let said: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let of = &said["search"]["search"];
    assert_eq!((&of["objective"], &of["second"]), (&"iops".into(), &"cpu_per_io".into()));
    let arms = said["confirmation"]["arms"].as_array().expect("arms");
    assert!((2..=4).contains(&arms.len()) && arms[0] == "as-is", "{arms:?}");
    // Eight requests per system call: more I/Os, each with less CPU time.
    let front = &said["head"]["front"];
    assert_eq!(front["objectives"], serde_json::json!(["IOPS", "CPU time per I/O"]));
    let members = front["members"].as_array().expect("members");
    let names: Vec<&Value> = members.iter().map(|m| &m["candidate"]).collect();
    assert_eq!(names, arms.iter().collect::<Vec<_>>());
    assert_eq!((&members[0]["figures"], &members[0]["on_front"]), (&serde_json::json!([]), &false.into()));
    let best = members.iter().find(|m| m["candidate"].as_str().is_some_and(|name| name.ends_with("batch 8")));
    let best = best.expect("batch 8 is confirmed");
    let verdicts = [0, 1].map(|o| best["figures"][o]["verdict"].as_str());
    assert_eq!(verdicts, [Some("faster"); 2], "{front}");
    let answer = said["head"]["answer"].as_str().expect("an answer");
    assert!(answer.contains(" more IOPS") && answer.contains(" less CPU time per I/O"), "{answer}");
    assert!(
        answer.contains("batch 8: ") && answer.contains(" than as-is, in ") && answer.ends_with(" fresh blocks"),
        "{answer}"
    );
    // The table on the terminal, the same lines on the page, and the experiment with all candidates.
    let page = place.join("r.html");
    let n = said["confirmation"]["run"].to_string();
    let shown = run(&mut place.tool(["report", &n, "--store", store_name])).ok().stdout;
    assert!(
        shown.contains("  as-is (beaten)\n") && shown.contains("each compared with as-is, with its 95 % CI"),
        "{shown}"
    );
    run(&mut place.tool(["report", &n, "--store", store_name, "-o", page.to_str().expect("UTF-8")])).ok();
    let html = std::fs::read_to_string(page).expect("a page");
    assert!(html.contains("each compared with as-is, with its 95 % CI") && html.contains("CPU time per I/O ▲ ÷"));
    let plan = run(&mut place.tool(["run", file_name, "--plan", "--json"])).ok();
    let plan: Value = serde_json::from_str(&plan.stdout).expect("JSON");
    assert_eq!(plan["cells"].as_array().map(Vec::len), Some(2 * arms.len()));
    End::Passed
}

fn budget() -> End {
    let place = Place::new();
    let with = |budget: &str| {
        let load = "advise --rw nop --depth 4 --runtime 5ms --warmup 0 --store s.db --json --budget";
        run(&mut place.tool(load.split(' ').chain([budget])))
    };
    let before = place.contents();
    let least = |budget: &str| {
        let ended = with(budget);
        assert_eq!(ended.status, 2, "{}", ended.stderr);
        let line = ended.one_line().to_owned();
        assert!(line.contains(" is too short for "), "{line}");
        let (_, least) = line.split_once("; use --budget ").expect("it is named");
        least.strip_suffix("s or longer").expect("seconds").parse::<u64>().expect("a number")
    };
    for short in ["0", "1ms", "1s"] {
        let named = least(short);
        assert!((2..60).contains(&named), "{named}");
    }
    assert_eq!(place.contents(), before, "nothing was run");
    let named = least("1s");
    assert_eq!(with(&format!("{}s", named / 2)).status, 2);
    let ended = with(&format!("{named}s")).ok();
    let said: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(said["search"]["search"]["budget_s"].as_f64(), Some(named as f64));
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    for (args, status, what) in [
        (&["advise"][..], 2, "no program or load is specified"),
        (&["advise", "--depth", "4", "--", "true"], 2, "--depth describes a load, but a program is its own load"),
        (&["advise", "--rw", "nop", "--objective", "speed"], 2, "unknown metric 'speed'"),
        (&["advise", "--rw", "nop", "--objective", "cpus"], 2, "--objective cpus is a share of the machine"),
        (&["advise", "--rw", "nop", "--objective", "iops,cpus"], 2, "--objective cpus is a share of the machine"),
        (&["advise", "--rw", "nop", "--objective", "iops,p99,cpu"], 2, "iops,p99,cpu: at most two objectives"),
        (&["advise", "--rw", "nop", "--objective", "iops,iops"], 2, "iops,iops names the same metric twice"),
        (&["advise", "--rw", "nop", "--objective", "iops,"], 2, "unknown metric ''"),
        (&["advise", "--rw", "nop", "--constraint", "p99<2"], 2, "has no unit"),
        (&["advise", "--rw", "nop", "--constraint", "p99"], 2, "is not NAME<LIMIT"),
        (&["advise", "--constraint", "p99<2ms", "--", "true"], 2, "p99 is not measured in a program's timed runs"),
        (&["advise", "--objective", "iops", "--", "true"], 2, "iops is not measured in a program's timed runs"),
        (&["advise", "--rw", "nop", "--resume"], 2, "no unfinished run of "),
        (&["advise", "--rw", "nop", "--save", "/"], 2, "/ is a directory"),
    ] {
        let ended = run(&mut place.tool(args));
        assert_eq!(ended.status, status, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(what), "{args:?}: {}", ended.stderr);
    }
    End::Passed
}
