//! `run` with an experiment file: planned, measured, stored, printed.

use serde_json::{Value, json};

use crate::measurement::check;
use crate::options::sound;
use crate::tool::{Place, file, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("run::a_small_experiment_is_planned_measured_stored_and_printed", small),
    ("run::equal_seeds_produce_the_same_order", seeds),
    ("run::an_existing_file_is_overwritten_only_with_allow_write", leave),
    ("run::data_corruption_ends_a_run_and_is_reported_first", corruption),
];

/// Two cells with two repeats, on the file specified by --file.
pub fn experiment(place: &Place, load: &str) {
    place.write(
        "e.toml",
        format!(
            "name = \"tiny\"\ntitle = \"Two depths\"\nquestion = \"Does it run?\"\nexpect = \"Yes.\"\nrepeats = 2\ncontrol = false\n\n\
             [load]\ntrace = \"off\"\nwarmup = \"0\"\n{load}\n\n[matrix]\ndepth = [1, 4]\n\n\
             [[arm]]\nname = \"default\"\n\n[[arm]]\nname = \"coop\"\nring = \"coop_taskrun\"\n\n\
             [quick]\n[quick.matrix]\ndepth = [4]\n"
        ),
    );
}

/// Two files, one with a modified byte: measurements of the other file are kept.
fn corruption() -> End {
    let place = Place::new();
    for name in ["good", "bad"] {
        let write = format!("bench --trace off --warmup 0 --rw write --verify --count 64 --size 256k --file {name}");
        run(&mut place.tool(write.split(' '))).ok();
    }
    let mut bytes = std::fs::read(place.join("bad")).expect("the file just made");
    bytes[5 * 4096 + 1024 + 77] ^= 1;
    place.write("bad", bytes);
    place.write(
        "e.toml",
        "name = \"e\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nrepeats = 3\ncontrol = false\n\n[load]\ntrace = \"off\"\n\
         warmup = \"0\"\nrw = \"read\"\nverify = true\nbuffered = true\ncount = 64\n\n\
         [[arm]]\nname = \"good\"\nfile = \"good\"\n\n[[arm]]\nname = \"bad\"\nfile = \"bad\"\n",
    );
    // The seed determines a block's order; both orders occur.
    let mut kept = [false; 2];
    for seed in 1..=6 {
        let args = ["run", "e.toml", "--store", "s.db", "--seed", &seed.to_string()].map(str::to_owned);
        let ended = run(&mut place.tool(&args));
        assert_eq!(ended.status, 5, "{}", ended.stderr);
        let said = "DATA CORRUPTION in bad: 1 block wrong; first at offset 21504: expected";
        assert!(ended.stdout.starts_with(said), "{}", ended.stdout);
        let report = run(&mut place.tool(["report", "last", "--store", "s.db"])).ok();
        assert!(report.stdout.starts_with(said), "{}", report.stdout);
        let list = run(&mut place.tool(["list", "--store", "s.db", "--json"])).ok().json();
        let last = list["runs"].as_array().and_then(|runs| runs.last().cloned()).expect("it is stored");
        assert_eq!((&last["corruption"]["offset"], &last["planned"]), (&json!(21504), &json!(6)));
        kept[last["done"].as_u64().expect("a number") as usize] = true;
        let lines = run(&mut place.tool(["list", "--store", "s.db"])).ok().stdout;
        assert!(lines.contains(&format!("run {seed}: DATA CORRUPTION in bad")), "{lines}");
    }
    assert_eq!(kept, [true, true], "none or one was measured before");
    End::Passed
}

fn leave() -> End {
    let place = Place::new();
    experiment(&place, "count = 16\nrw = \"write\"\nallow-write = true");
    let victim = vec![7; 64 << 10];
    place.write("victim", &victim);
    let with = |more: &str| {
        let args = format!("run e.toml --quick --store s.db {more}");
        run(&mut place.tool(args.split_whitespace()))
    };
    let refused = with("--file victim --plan");
    assert_eq!(refused.status, 2, "a plan that cannot be run");
    let plan = refused.stdout;
    let path = place.join("victim").display().to_string();
    let said = format!("{path}, which exists: 4 measurements would overwrite up to 64.0 KiB; needs --allow-write");
    assert!(plan.split_whitespace().collect::<Vec<_>>().join(" ").contains(&said), "{plan}");
    let writes = |more: &str| with(&format!("{more} --plan --json")).json()["writes"].take();
    let of =
        |allowed: bool| json!([{"path": path, "exists": true, "bytes": 65536, "overwrites": 4, "allowed": allowed}]);
    assert_eq!((writes("--file victim"), writes("--file victim --allow-write")), (of(false), of(true)));
    let ended = with("--file victim");
    assert_eq!(ended.status, 2);
    assert_eq!(
        ended.one_line(),
        format!(
            "'tiny' would overwrite {path}, which exists (allow-write in the experiment file does not suffice); add --allow-write to the command to overwrite its contents, or specify a file that does not exist, with --size"
        )
    );
    assert!(!place.join("s.db").exists());
    assert!(std::fs::read(place.join("victim")).unwrap() == victim);
    with("--file victim --allow-write").ok();
    assert!(std::fs::read(place.join("victim")).unwrap() != victim);
    // Later cells write to a file that the run created.
    let new = json!([{"path": place.join("new"), "exists": false, "bytes": 65536, "overwrites": 4, "allowed": false}]);
    assert_eq!(writes("--file new --size 64k"), new);
    let cells = with("--file new --size 64k --json").ok().json()["cells"].take();
    let done = cells.as_array().expect("a list").iter().map(|c| c["measurements"].as_array().map(Vec::len));
    assert_eq!(done.collect::<Vec<_>>(), [Some(2), Some(2)]);
    assert_eq!(with("--file new").status, 2);
    End::Passed
}

fn small() -> End {
    let place = Place::new();
    experiment(&place, "count = 200");
    let before = place.contents();
    let plan = run(place.tool(["run", "e.toml", "--quick", "--plan", "--json", "--seed", "7", "--file"]).arg(file()))
        .ok()
        .json();
    assert_eq!(plan["schema"], "iotrail.plan/1");
    assert_eq!((&plan["seed"], &plan["repeats"], &plan["estimated_without_ios"]), (&json!(7), &json!(2), &json!(800)));
    let planned: Vec<&Value> = plan["cells"].as_array().expect("a list").iter().map(|c| &c["params"]).collect();
    assert_eq!(planned, [&json!({"depth": 4, "arm": "default"}), &json!({"depth": 4, "arm": "coop"})]);
    assert_eq!(plan["order"].as_array().map(Vec::len), Some(4));
    assert_eq!(place.contents(), before, "--plan makes nothing");

    let args = ["run", "e.toml", "--quick", "--seed", "7", "--store", "s.db", "--json", "--file"];
    let ended = run(place.tool(args).arg(file())).ok();
    assert_eq!(ended.stderr, "", "no progress where no terminal is");
    let r = ended.json();
    check(
        &r,
        "schema string, run number, experiment string, title string, question string, expect string, quick bool, seed number,
         repeats number, axes list, arms list, started_unix_s number, finished_unix_s number, cells list, cells[].params object,
         cells[].untestable string?, cells[].measurements list, comparisons list, conclusions list, conclusions[].about string,
         conclusions[].sentences list",
    );
    assert_eq!((&r["schema"], &r["run"], &r["quick"]), (&json!("iotrail.run/1"), &json!(1), &json!(true)));
    assert_eq!((&r["axes"], &r["arms"]), (&json!(["depth", "arm"]), &json!(["default", "coop"])));
    let cells = r["cells"].as_array().expect("a list");
    assert_eq!(cells.len(), 2);
    for (cell, flags) in cells.iter().zip([json!([]), json!(["coop_taskrun"])]) {
        let measurements = cell["measurements"].as_array().expect("a list");
        assert_eq!(measurements.len(), 2);
        for m in measurements {
            sound(m);
            assert_eq!(
                (&m["ios"], &m["load"]["depth"], &m["load"]["ring"]["granted"]),
                (&json!(200), &json!(4), &flags)
            );
        }
    }
    let listed = run(&mut place.tool(["list", "--store", "s.db", "--json"])).ok().json();
    let runs = listed["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 1);
    assert_eq!((&runs[0]["done"], &runs[0]["planned"], &runs[0]["experiment"]), (&json!(4), &json!(4), &json!("tiny")));
    // The same as text.
    let text = run(place.tool(["run", "e.toml", "--store", "s.db", "--full", "--file"]).arg(file())).ok();
    assert!(text.stdout.contains("Does it run?") && text.stdout.contains("coop"), "{}", text.stdout);
    End::Passed
}

fn seeds() -> End {
    let place = Place::new();
    experiment(&place, "count = 8");
    let order = |seed: &str| {
        let plan =
            run(&mut place.tool(["run", "e.toml", "--plan", "--json", "--file", "x", "--seed", seed])).ok().json();
        let slot = |s: &Value| (s["repeat"].as_u64(), s["cell"].as_u64());
        plan["order"].as_array().expect("a list").iter().map(slot).collect::<Vec<_>>()
    };
    assert_eq!(order("3"), order("3"));
    assert!((0..20).any(|n| order(&n.to_string()) != order("3")), "other seeds give other orders");
    let mut all = order("3");
    all.sort_unstable();
    let expected: Vec<_> = (1..=2).flat_map(|r| (1..=4).map(move |c| (Some(r), Some(c)))).collect();
    assert_eq!(all, expected, "every repeat holds every cell once");
    End::Passed
}
