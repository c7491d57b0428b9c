//! `run`'s comparisons: the control, the stopping rule, expectations, conditions of the host, a fio job as the load.

use serde_json::{Value, json};

use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("compared::the_first_arm_has_a_control_and_an_expectation_is_judged", control),
    ("compared::a_run_stops_where_its_intervals_are_narrow_or_its_budget_is_spent", stops),
    ("compared::a_fio_job_is_the_load", fio),
    ("compared::a_condition_that_the_host_cannot_have_is_said_at_planning", conditions),
];

const HEAD: &str = "name = \"x\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\n";
/// A second of thinking for a thousand no-ops cannot be missed.
const ARMS: &str = "[load]\nrw = \"nop\"\ndepth = 1\ntrace = \"off\"\nwarmup = \"0\"\ncount = 1000\n\
                    [[arm]]\nname = \"quick\"\n[[arm]]\nname = \"slow\"\nthink = 20000\n";

fn list(v: &Value) -> &Vec<Value> {
    v.as_array().unwrap_or_else(|| panic!("a list: {v}"))
}

fn control() -> End {
    let place = Place::new();
    let expectation = "[[expectation]]\nmetric = \"iops\"\narm = \"slow\"\nis = \"slower\"\nat-most = 0.5\n";
    place.write("e.toml", format!("{HEAD}repeats = 5\nmetrics = [\"iops\"]\n{ARMS}{expectation}"));
    let r = run(&mut place.tool(["run", "e.toml", "--store", "s.db", "--json", "--fail-on-unmet"])).ok().json();
    let arms: Vec<&Value> = list(&r["cells"]).iter().map(|c| &c["params"]["arm"]).collect();
    assert_eq!(arms, ["quick", "slow", "control"]);
    assert_eq!((&r["arms"], &r["metrics"]), (&json!(["quick", "slow"]), &json!(["iops"])));
    let [c] = &list(&r["comparisons"])[..] else { panic!("{}", r["comparisons"]) };
    assert_eq!(
        (&c["schema"], &c["metric"], &c["a"], &c["b"], &c["pairs"], &c["paired"], &c["verdict"]),
        (
            &json!("iotrail.comparison/1"),
            &json!("iops"),
            &json!("quick"),
            &json!("slow"),
            &json!(5),
            &json!(true),
            &json!("slower")
        )
    );
    // 20 µs of thinking for each of them, and a no-op takes less than that.
    let ratio = c["ratio"].as_f64().expect("a ratio");
    let (lo, hi) = (c["ci95"][0].as_f64().expect("an end"), c["ci95"][1].as_f64().expect("an end"));
    assert!(lo <= ratio && ratio <= hi && hi < 0.5, "{c}");
    assert!(c["noise_floor"].as_f64().is_some_and(|n| n > 0.0) && c["smallest_visible"].as_f64().is_some(), "{c}");
    assert_eq!(list(&r["judged"]).iter().map(|j| &j["outcome"]).collect::<Vec<_>>(), ["met"]);

    place.write(
        "e.toml",
        format!(
            "{HEAD}repeats = 5\nmetrics = [\"iops\"]\n{ARMS}{}",
            expectation.replace("slower", "faster").replace("at-most", "at-least")
        ),
    );
    let ended = run(&mut place.tool(["run", "e.toml", "--store", "s.db", "--fail-on-unmet"]));
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    assert!(ended.stdout.contains("NOT MET"), "{}", ended.stdout);
    let ended = run(&mut place.tool(["run", "e.toml", "--store", "s.db"]));
    assert_eq!(ended.status, 0, "nobody asked to fail: {}", ended.stderr);
    End::Passed
}

fn stops() -> End {
    let place = Place::new();
    let done = |stop: &str| {
        place.write("e.toml", format!("{HEAD}metrics = [\"iops\"]\n{ARMS}[stop]\n{stop}"));
        let r = run(&mut place.tool(["run", "e.toml", "--store", "s.db", "--json"])).ok().json();
        assert!(r["finished_unix_s"].is_u64());
        let blocks: Vec<usize> = list(&r["cells"]).iter().map(|c| list(&c["measurements"]).len()).collect();
        assert!(blocks.iter().all(|n| *n == blocks[0]), "whole blocks: {blocks:?}");
        blocks[0]
    };
    // As narrow as asked for from the first look on; never so narrow; and no time for more than a few.
    assert_eq!(done("within = 0.99\nat-least = 6\nat-most = 40\n"), 6);
    assert_eq!(done("within = 0.000001\nat-least = 2\nat-most = 7\n"), 7);
    let n = done("within = 0.000001\nat-least = 3\nat-most = 5000\nbudget = \"2s\"\n");
    assert!((3..1000).contains(&n), "{n}");
    let listed = run(&mut place.tool(["list", "--store", "s.db", "--json"])).ok().json();
    let runs: Vec<(&Value, &Value)> = list(&listed["runs"]).iter().map(|r| (&r["done"], &r["planned"])).collect();
    assert!(runs.iter().all(|(done, planned)| done == planned), "{runs:?}");
    End::Passed
}

fn fio() -> End {
    let place = Place::new();
    place.write("job.fio", "[global]\nioengine=psync\nrw=randread\nbs=512\ndirect=0\nnumber_ios=200\nlockmem=1g\n[job]\nfilename=data\nsize=1m\n");
    place.write("data", vec![0u8; 1 << 20]);
    let arms = "[[arm]]\nname = \"one\"\n[[arm]]\nname = \"two\"\njobs = 2\n";
    place.write(
        "e.toml",
        format!("{HEAD}repeats = 2\nfio = \"job.fio\"\n[load]\ntrace = \"off\"\nwarmup = \"0\"\n{arms}"),
    );
    let plan = run(&mut place.tool(["run", "e.toml", "--plan", "--json"])).ok().json();
    assert!(
        list(&plan["unmapped"]).iter().any(|l| l.as_str().is_some_and(|l| l.contains("job.fio:7: lockmem"))),
        "{plan}"
    );
    let r = run(&mut place.tool(["run", "e.toml", "--store", "s.db", "--json"])).ok().json();
    let loads: Vec<&Value> = list(&r["cells"]).iter().map(|c| &c["measurements"][0]["load"]).collect();
    for load in &loads {
        assert_eq!((&load["engine"], &load["bs"], &load["direct"]), (&json!("sync"), &json!(512), &json!(false)));
    }
    assert_eq!(loads.iter().map(|l| l["jobs"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2), Some(1)]);
    End::Passed
}

fn conditions() -> End {
    let place = Place::new();
    let arms =
        "[load]\nrw = \"nop\"\ncount = 10\n[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\ngovernor = \"no-such\"\n";
    place.write("e.toml", format!("{HEAD}repeats = 2\n{arms}"));
    let plan = run(&mut place.tool(["run", "e.toml", "--plan", "--json"])).ok().json();
    let reasons: Vec<Option<&str>> = list(&plan["cells"]).iter().map(|c| c["untestable"].as_str()).collect();
    assert!(reasons[0].is_none() && reasons[1].is_some() && reasons[2].is_none(), "{reasons:?}");
    place.write("e.toml", format!("{HEAD}repeats = 2\n[host]\ngovernor = \"no-such\"\n[load]\nrw = \"nop\"\n[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\ndepth = 1\n"));
    let ended = run(&mut place.tool(["run", "e.toml", "--store", "s.db"]));
    assert_eq!(ended.status, 3, "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    End::Passed
}
