//! `compare`: runs, cells of runs and JSON files, and invalid sides.

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::measurement::check;
use crate::tool::{Place, bench, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("compare::cells_of_one_run_are_paired_and_the_control_estimates_the_noise", one_run),
    ("compare::runs_and_files_are_compared_unpaired", apart),
    ("compare::a_fulfilled_fail_on_condition_fails_the_command", conditions),
    ("compare::a_gate_that_cannot_be_evaluated_does_not_pass", gates),
    ("compare::an_invalid_side_is_rejected_with_the_remedy", refused),
    ("compare::a_measurement_specified_several_times_counts_once", named_twice),
    ("compare::an_impossible_value_is_reported_with_its_file", impossible),
];

/// Five repeats of no-ops: an arm that computes after each I/O, a control arm, two depths. In the store and in the
/// output, the values of a busy machine are replaced by those of an idle one: 1,000 IOPS, 800 for the computing arm,
/// and no warnings.
fn stored(place: &Place) -> Value {
    place.write(
        "e.toml",
        "name = \"e\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nrepeats = 5\n\n[load]\nrw = \"nop\"\ntrace = \"off\"\nwarmup = \"0\"\n\
         count = 2000\n\n[matrix]\ndepth = [1, 4]\n\n[[arm]]\nname = \"default\"\n\n[[arm]]\nname = \"slow\"\nthink = 1000\n",
    );
    let mut printed = run(&mut place.tool(["run", "e.toml", "--seed", "1", "--store", "s.db", "--json"])).ok().json();
    let db = Connection::open(place.join("s.db")).expect("an SQLite file");
    for cell in printed["cells"].as_array_mut().expect("a list") {
        let (number, arm) = (cell["cell"].as_i64(), cell["params"]["arm"].clone());
        for (m, repeat) in cell["measurements"].as_array_mut().expect("a list").iter_mut().zip(1..) {
            let noise = f64::from((repeat * 7 + i32::from(arm == "control")) % 5);
            at_rate(m, if arm == "slow" { 800.0 } else { 1000.0 } + noise);
            m["warnings"] = json!([]);
            m["circumstances"] = Value::Null;
            // A repetition of a disturbed measurement would be a reason.
            m["thrown_away"] = json!(0);
            let sql = "UPDATE measurements SET json = ?3 WHERE cell = ?1 AND repeat = ?2";
            assert_eq!(db.execute(sql, params![number, repeat, m.to_string()]).expect("one of them"), 1);
        }
    }
    printed
}

/// Measurements of the compared cells: five, plus one for each that was disturbed.
fn repeats(printed: &Value, arm: &str) -> usize {
    let cells = printed["cells"].as_array().expect("a list");
    let is_it = |cell: &&Value| cell["params"]["arm"] == arm && cell["params"]["depth"] == 4;
    let cell = cells.iter().find(is_it).expect("it was measured");
    cell["measurements"].as_array().expect("a list").len()
}

fn compare(place: &Place, args: &str) -> std::process::Command {
    place.tool(["compare", "--store", "s.db"].into_iter().chain(args.split_whitespace()))
}

const SHAPE: &str =
    "schema string, metric string, at object, a string, b string, pairs number, paired bool, ratio number?, ci95 list?,
     noise_floor number?, smallest_visible number?, p number?, p_adjusted number?, together number, equivalent_within number,
     to_show_10_percent object?, disturbed object, verdict string, reasons list";

fn one_run() -> End {
    let place = Place::new();
    let printed = stored(&place);
    let c = run(&mut compare(&place, "1:arm=default,depth=4 1:arm=slow,depth=4 --json")).ok().json();
    check(&c, SHAPE);
    assert_eq!(
        (&c["schema"], &c["metric"], &c["verdict"]),
        (&json!("iotrail.comparison/2"), &json!("iops"), &json!("slower"))
    );
    let pairs = repeats(&printed, "slow");
    assert!(pairs >= 5);
    assert_eq!((&c["pairs"], &c["paired"], &c["reasons"]), (&json!(pairs), &json!(true), &json!([])));
    let (ratio, noise) =
        (c["ratio"].as_f64().expect("a number"), c["noise_floor"].as_f64().expect("there is a control"));
    assert!((ratio - 0.8).abs() < 0.001 && (0.0..0.01).contains(&noise), "{c}");
    place.write("run.json", printed.to_string());
    let same = run(&mut compare(&place, "run.json:arm=default,depth=4 run.json:arm=slow,depth=4 --json")).ok().json();
    for field in ["ratio", "ci95", "noise_floor", "smallest_visible", "pairs", "verdict"] {
        assert_eq!(same[field], c[field], "{field}");
    }
    // As in `run`, the control is not an arm.
    let all = printed["comparisons"].as_array().expect("a list");
    assert!(all.iter().all(|c| c["a"] == "default" && c["b"] == "slow"), "{all:?}");
    assert_eq!(all.len(), 4, "two metrics, two depths");
    // Two depths and two metrics are printed as a list.
    let both =
        run(&mut compare(&place, "1:arm=default 1:arm=slow --metric iops --metric latency_p50 --json")).ok().json();
    let of = |c: &Value| (c["metric"].clone(), c["at"].clone(), c["paired"].clone());
    let expected =
        ["iops", "latency_p50"].into_iter().flat_map(|m| [1, 4].map(|d| (json!(m), json!({"depth": d}), json!(true))));
    assert_eq!(both.as_array().expect("a list").iter().map(of).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let text = run(&mut compare(&place, "1:arm=default 1:arm=slow")).ok().stdout;
    assert!(text.contains("iops: 1:arm=slow against 1:arm=default") && text.contains("slower"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    End::Passed
}

fn apart() -> End {
    let place = Place::new();
    let printed = stored(&place);
    place.write("run.json", printed.to_string());
    let mut names = Vec::new();
    for i in 0..3 {
        let mut m = run(&mut bench(&place, "--rw nop --count 2000 --depth 4 --think 1000 --json")).ok().json();
        at_rate(&mut m, 800.0 + i as f64);
        (m["warnings"], m["circumstances"]) = (json!([]), Value::Null);
        names.push(format!("m{i}.json"));
        place.write(&names[i], m.to_string());
    }
    // Files of single measurements compared with a cell of a run.
    let c = run(&mut compare(&place, &format!("run.json:arm=default,depth=4 {} --json", names.join(",")))).ok().json();
    check(&c, SHAPE);
    assert_eq!((&c["pairs"], &c["paired"], &c["verdict"]), (&json!(3), &json!(false), &json!("inconclusive")));
    let reasons = c["reasons"].as_array().expect("a list");
    // The first reason may be that a measurement was disturbed.
    let with = |begin: &str| -> Vec<&str> {
        reasons.iter().filter_map(Value::as_str).filter(|reason| reason.starts_with(begin)).collect()
    };
    assert_eq!(with("measured in separate runs, 1 run per side: ").len(), 1, "{reasons:?}");
    let loads = with("the loads differ: ");
    assert!(matches!(loads[..], [one] if one.contains("think_ns 0 against 1000")), "{reasons:?}");
    // Files have no histograms: the measurements' own quantiles are compared, which is reported.
    let files = "run.json:arm=default,depth=4 run.json:arm=slow,depth=4 --metric latency_p50 --json";
    let c = run(&mut compare(&place, files)).ok().json();
    assert_eq!((&c["paired"], &c["pairs"]), (&json!(true), &json!(repeats(&printed, "slow"))));
    let own = |r: &&Value| r.as_str().is_some_and(|r| r.contains("by the medians of the measurements' own quantiles"));
    assert_eq!(c["reasons"].as_array().map(|all| all.iter().filter(own).count()), Some(1), "{c}");
    // A stored run and the same run as a file: all cells have a counterpart.
    let all = run(&mut compare(&place, "1 run.json --json")).ok();
    let list = all.json();
    assert_eq!((list.as_array().map(Vec::len), all.stderr.as_str()), (Some(4), ""));
    assert!(
        list.as_array().is_some_and(|l| l.iter().all(|c| c["ratio"] == 1.0 && c["verdict"] == "inconclusive")),
        "{list}"
    );
    // One cell has no counterpart.
    let some = run(&mut compare(&place, "1:arm=slow run.json:depth=4,arm=slow --json"));
    assert_eq!(some.status, 2, "{}", some.stdout);
    // The jobs share a CPU, so that other programs' use of the CPU is not a reason against a comparison.
    run(&mut bench(&place, "--rw nop --count 2000 --jobs 2 --cpus 0 --store s.db")).ok();
    let one = run(&mut compare(&place, "2 m0.json --json")).ok().json();
    assert_eq!((&one["verdict"], &one["ci95"], &one["pairs"]), (&json!("inconclusive"), &Value::Null, &json!(1)));
    let few = json!("1 repeat, and an interval needs at least 2 of each side: measure more");
    assert!(one["reasons"].as_array().is_some_and(|r| r.contains(&few)), "{one}");
    End::Passed
}

fn conditions() -> End {
    let place = Place::new();
    let printed = stored(&place);
    for (condition, status) in
        [("slower", 1), ("faster", 0), ("difference", 1), ("not-comparable", 0), ("faster,slower", 1)]
    {
        let ended =
            run(&mut compare(&place, &format!("1:arm=default,depth=4 1:arm=slow,depth=4 --fail-on {condition}")));
        assert_eq!(ended.status, status, "{condition}: {}{}", ended.stdout, ended.stderr);
    }
    // Measurements before a failure are not decisive.
    let db = Connection::open(place.join("s.db")).expect("an SQLite file");
    let sql = "UPDATE cells SET untestable = 'it stalled' WHERE params LIKE '%slow%' AND params LIKE '%4%'";
    assert_eq!(db.execute(sql, []).expect("one of them"), 1);
    let ended = run(&mut compare(&place, "1:arm=default,depth=4 1:arm=slow,depth=4 --fail-on slower --json"));
    assert_eq!((ended.status, ended.json()["verdict"].as_str()), (4, Some("not_comparable")), "{}", ended.stderr);
    let reasons = &ended.json()["reasons"];
    let measured = repeats(&printed, "slow");
    assert_eq!(reasons[0], format!("run 1: slow failed after {measured} measurements: it stalled"), "{reasons}");
    End::Passed
}

fn gates() -> End {
    let place = Place::new();
    stored(&place);
    for (name, think) in [("a", 0), ("b", 20_000)] {
        let json = run(&mut bench(&place, &format!("--rw nop --count 2000 --think {think} --json"))).ok().stdout;
        place.write(&format!("{name}.json"), json);
    }
    let gate = |args: &str| run(&mut compare(&place, args));
    let ended = gate("a.json b.json --json --fail-on slower");
    let c = ended.json();
    assert!(c["ratio"].as_f64().is_some_and(|r| r < 1.0) && c["ci95"].is_null(), "the estimate is there: {c}");
    assert_eq!((ended.status, &c["verdict"]), (4, &json!("inconclusive")));
    let said = "iotrail: cannot gate on slower: iops: 1 measurement per side has no interval; specify at least three runs per side";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert_eq!(gate("a.json b.json").status, 0, "without a gate it is an answer");
    assert_eq!(gate("a.json b.json --fail-on not-comparable").status, 0);
    assert_eq!(gate("a.json b.json --fail-on inconclusive").status, 1);
    assert_eq!(gate("a.json b.json --fail-on difference").status, 4);
    // With three processes per side a verdict is possible; 20 ms of computing is a clear difference.
    for (name, think) in [("c", 0), ("d", 20_000)] {
        let args = format!("--rw nop --count 2000 --jobs 2 --cpus 0 --think {think} --repeats 3 --json");
        let ended = run(&mut bench(&place, &args)).ok();
        assert_eq!(ended.json().as_array().map(Vec::len), Some(3), "{}", ended.stdout);
        place.write(&format!("{name}.json"), ended.stdout);
    }
    let c = gate("c.json d.json --metric cpu_per_io --json").ok().json();
    assert_eq!((&c["pairs"], &c["paired"]), (&json!(3), &json!(false)));
    assert!(c["p"].is_f64(), "three runs of each: {c}");
    // The result of a condition that can be evaluated takes precedence.
    let both = "1:arm=default,depth=4 1:arm=slow,depth=4 --metric iops,latency_p99_99";
    let all = gate(&format!("{both} --json")).ok().json();
    assert_eq!((&all[0]["verdict"], &all[1]["verdict"]), (&json!("slower"), &json!("inconclusive")), "{all}");
    assert_eq!(
        (gate(&format!("{both} --fail-on slower")).status, gate(&format!("{both} --fail-on faster")).status),
        (1, 4)
    );
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    let printed = stored(&place).to_string();
    place.write("run.json", &printed);
    place.write("cut.json", &printed[..printed.len() / 2]);
    place.write("text.json", "no JSON");
    place.write("other.json", "{\"schema\": \"iotrail.trace/1\"}");
    place.write("bare.json", "{}");
    place.write("empty.json", "{\"schema\": \"iotrail.run/1\"}");
    for (args, says) in [
        ("9 1", "no run 9 in s.db; `iotrail list` shows the stored runs"),
        ("1:dept=4 1", "'1:dept=4' has no parameter 'dept'; its parameters are arm, depth"),
        ("1:depth=3 1", "'1:depth=3': no cell has depth=3; values of depth are 1, 4"),
        ("1 1", "'1' and '1' are the same measurements; specify two runs, or select cells of one run: "),
        (
            "1:arm=default 1:arm=slow,depth=4",
            "'1:arm=default' has several values of depth where the other side has one; select one: ",
        ),
        ("1:deep 1", "cannot read 1:deep: "),
        ("none.json 1", "cannot read none.json: "),
        ("cut.json run.json", "cut.json is truncated: "),
        ("text.json 1", "text.json is not JSON: "),
        (
            "other.json 1",
            "other.json contains iotrail.trace/1, not a measurement or a run; specify output of `bench --json` ",
        ),
        ("bare.json 1", "bare.json contains no iotrail schema, not a measurement or a run; "),
        ("empty.json 1", "empty.json does not match its schema: "),
        ("1 run.json --metric speed", "unknown metric 'speed': the metrics are iops, "),
        ("1 run.json --fail-on worse", "invalid value 'worse' for '--fail-on <VERDICT>' "),
    ] {
        let ended = run(&mut compare(&place, args));
        assert_eq!(ended.status, 2, "{args}: {}", ended.stderr);
        assert!(ended.one_line().starts_with(says), "{args}: {}", ended.stderr);
    }
    let ended = run(&mut place.tool(["compare", "1", "2", "--store", "none.db"]));
    assert_eq!((ended.status, place.join("none.db").exists()), (2, false));
    assert_eq!(
        ended.one_line(),
        "no run 1: store none.db does not exist; specify the store with --store, or specify JSON files"
    );
    End::Passed
}

/// Sets the duration that corresponds to this rate.
fn at_rate(m: &mut Value, iops: f64) {
    let ios = m["ios"].as_f64().expect("a number");
    (m["iops"], m["elapsed_ns"]) = (json!(iops), json!((ios * 1e9 / iops) as u64));
}

/// Writes `bench` output with modified numbers.
fn files(place: &Place, names: &[&str]) -> Value {
    let made = run(&mut bench(place, "--rw nop --count 2000 --json")).ok().json();
    for (name, i) in names.iter().zip(0..) {
        let mut m = made.clone();
        at_rate(&mut m, f64::from(1000 + i));
        (m["warnings"], m["circumstances"]) = (json!([]), Value::Null);
        place.write(name, m.to_string());
    }
    made
}

fn named_twice() -> End {
    let place = Place::new();
    stored(&place);
    files(&place, &["b1.json", "b2.json", "b3.json"]);
    std::os::unix::fs::symlink(place.join("b1.json"), place.join("link.json")).expect("a link");
    std::fs::hard_link(place.join("b1.json"), place.join("other.json")).expect("a link");
    let once = "list each once: repeats must be separate measurements";
    for (args, says) in [
        ("b1.json,b1.json,b1.json b1.json,b1.json,b1.json", format!("'b1.json,b1.json,b1.json' lists b1.json twice; {once}")),
        ("b1.json b2.json,./b2.json", format!("'b2.json,./b2.json' lists one file twice, as b2.json and as ./b2.json; {once}")),
        ("b1.json,link.json b2.json", format!("'b1.json,link.json' lists one file twice, as b1.json and as link.json; {once}")),
        ("b1.json,other.json b2.json", format!("'b1.json,other.json' lists one file twice, as b1.json and as other.json; {once}")),
        ("1,1:arm=default 1:arm=slow", format!("'1,1:arm=default' lists run 1 twice; {once}")),
        (
            "b1.json,b2.json b2.json,b3.json",
            "a measurement of b2.json is on both sides, in 'b1.json,b2.json' and in 'b2.json,b3.json'; give each side ".into(),
        ),
        ("b1.json link.json", "'b1.json' and 'link.json' are the same measurements; ".into()),
        (
            "1:arm=default,depth=4 1,b1.json:arm=default,depth=4",
            "a measurement of run 1 is on both sides, in '1:arm=default,depth=4' and in '1,b1.json:arm=default,depth=4'; ".into(),
        ),
    ] {
        let ended = run(&mut compare(&place, args));
        assert_eq!(ended.status, 2, "{args}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.one_line().starts_with(&says), "{args}: {}", ended.stderr);
    }
    let c = run(&mut compare(&place, "b1.json,b2.json b3.json --json")).ok().json();
    assert_eq!(c["pairs"], 1, "files of their own are compared");
    End::Passed
}

fn impossible() -> End {
    let place = Place::new();
    let made = files(&place, &["good.json"]);
    let written = |name: &str, set: &dyn Fn(&mut Value)| {
        let mut m = made.clone();
        set(&mut m);
        place.write(name, m.to_string());
    };
    written("iops.json", &|m| m["iops"] = json!(-5.0));
    written("rate.json", &|m| m["iops"] = json!(m["iops"].as_f64().expect("a rate") * 1.02));
    written("p50.json", &|m| m["latency_ns"]["p50"] = json!(-1));
    written("large.json", &|m| m["iops"] = json!("HERE"));
    let large = std::fs::read_to_string(place.join("large.json")).expect("written").replace("\"HERE\"", "1e999");
    place.write("large.json", large);
    for (file, says) in [
        ("iops.json", "iops.json: iops is -5.0, but measurements have no negative values; create the file again "),
        (
            "p50.json",
            "p50.json: latency_ns.p50 is -1, but measurements have no negative values; create the file again ",
        ),
        ("rate.json", "rate.json: iops is "),
        ("large.json", "large.json has a number in iops that is not finite: "),
    ] {
        let ended = run(&mut compare(&place, &format!("good.json {file}")));
        assert_eq!(ended.status, 2, "{file}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.one_line().starts_with(says), "{file}: {}", ended.stderr);
    }
    End::Passed
}
