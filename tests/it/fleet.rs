//! `fleet`: synthetic stores of several machines with known effects, one of which has the opposite sign.

use rusqlite::{Connection, params};

use crate::run::experiment;
use crate::tool::{Place, file, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("fleet::stores_of_several_machines_are_combined", several),
    ("fleet::two_fleets_are_compared_machine_by_machine", compared),
    ("fleet::a_usage_error_is_one_line", wrong_use),
];

/// Blocks per machine.
const BLOCKS: i64 = 6;

/// A store with one run of this machine.
fn first(place: &Place) {
    one(place, "c1.db");
}

fn one(place: &Place, store: &str) {
    experiment(place, "count = 8");
    let args = ["run", "e.toml", "--repeats", "6", "--store", store, "--file"];
    run(place.tool(args).arg(file())).ok();
}

/// Turns a store into another machine's: its name, its kernel, and the second arm's speed; blocks differ by 2 %.
fn turned(place: &Place, store: &str, host: &str, kernel: &str, ratio: f64) {
    let db = Connection::open(place.join(store)).expect("a store");
    let sql = "UPDATE measurements SET hostname = ?1, kernel = ?2, json = json_set(json, '$.host.hostname', ?1, '$.host.kernel', ?2,
        '$.warnings', json('[]'), '$.circumstances', json('null'),
        '$.iops', (SELECT CASE WHEN c.params LIKE '%coop%' THEN ?3 ELSE 1.0 END FROM cells c WHERE c.run = measurements.run AND c.cell = measurements.cell)
            * (1000.0 + 10.0 * ((repeat * 7 + cell * 3) % 3)))";
    db.execute(sql, params![host, kernel, ratio]).expect("measurements");
    db.execute("UPDATE measured_by SET hostname = ?1, kernel = ?2", params![host, kernel]).expect("a summary");
}

fn several() -> End {
    let place = Place::new();
    first(&place);
    for i in 2..=6 {
        std::fs::copy(place.join("c1.db"), place.join(&format!("c{i}.db"))).expect("a copy");
    }
    let ratios = [1.30, 1.31, 1.29, 1.32, 1.28, 0.7];
    for (i, ratio) in ratios.into_iter().enumerate() {
        let kernel = if i == 5 { "6.1.0" } else { "6.18.0" };
        turned(&place, &format!("c{}.db", i + 1), &format!("c{}", i + 1), kernel, ratio);
    }
    let fleet = |more: &[&str]| {
        let args = ["fleet", "rack", "1", "c2.db", "c3.db", "c4.db:1", "five=c5.db", "c6.db", "--store", "c1.db"];
        run(&mut place.tool([&args[..], more].concat()))
    };
    let a = fleet(&["--json"]).ok().json();
    assert_eq!((a["schema"].as_str(), a["fleet"]["fleet"].as_i64()), (Some("iotrail.fleet_answer/1"), Some(1)));
    let nodes: Vec<&str> =
        a["fleet"]["nodes"].as_array().expect("a list").iter().filter_map(|n| n["node"].as_str()).collect();
    assert_eq!(nodes, ["c1", "c2", "c3", "c4", "five", "c6"]);
    let effects = a["effects"].as_array().expect("a list");
    let of_iops: Vec<_> = effects.iter().filter(|e| e["metric"] == "iops").collect();
    assert_eq!(of_iops.len(), 2, "two depths: {effects:?}");
    for e in &of_iops {
        assert_eq!((e["machines"].as_u64(), e["on"][5]["stands"].as_str()), (Some(6), Some("turns_around")), "{e}");
        assert_eq!(e["on"].as_array().map(Vec::len), Some(6));
        let apart = &e["apart"][0];
        assert_eq!((apart["node"].as_str(), apart["with"][0].as_str()), (Some("c6"), Some("kernel 6.1.0")), "{e}");
    }
    assert_eq!(a["machines"][0]["measurements"].as_i64(), Some(4 * BLOCKS));

    // Copies of the same run are detected.
    let text = fleet(&[]).ok().stdout;
    assert!(text.lines().count() <= 20, "{text}");
    assert!(text.contains("changes sign on c6: there the kernel is 6.1.0"), "{text}");
    assert!(text.contains("details: iotrail report f2 --store c1.db --full"), "{text}");
    let list = run(&mut place.tool(["list", "--json", "--store", "c1.db"])).ok().json();
    assert_eq!((list["runs"].as_array().map(Vec::len), list["fleets"].as_array().map(Vec::len)), (Some(6), Some(2)));
    let list = run(&mut place.tool(["list", "--store", "c1.db"])).ok().stdout;
    assert!(list.contains("f1") && list.contains("rack") && list.contains("all done"), "{list}");

    let report = |more: &[&str]| run(&mut place.tool([&["report", "f1", "--store", "c1.db"][..], more].concat()));
    assert_eq!(report(&["--json"]).ok().json()["effects"], a["effects"]);
    let full = report(&["--full"]).ok().stdout;
    assert!(full.contains("differences between the machines") && full.contains("- 0.700"), "{full}");
    report(&["-o", "fleet.html"]).ok();
    let page = std::fs::read_to_string(place.path().join("fleet.html")).expect("the page");
    assert_eq!(page.matches("<rect class=\"tile ").count() % 12, 0, "six machines in two situations, each metric");
    assert!(page.contains("Machines × situations: iops, coop against default") && page.contains(">−30 %<"), "{page}");
    End::Passed
}

/// The second arm has become slower on the three machines that both fleets contain. Each fleet has one further machine.
fn compared() -> End {
    let place = Place::new();
    for (first, ratio) in [("b", 1.3), ("a", 1.3 * 0.8)] {
        one(&place, &format!("{first}1.db"));
        for i in 1..=4 {
            let store = format!("{first}{i}.db");
            if i > 1 {
                std::fs::copy(place.join(&format!("{first}1.db")), place.join(&store)).expect("a copy");
            }
            let host = if i == 4 { format!("{first}4") } else { format!("c{i}") };
            turned(&place, &store, &host, "6.18.0", ratio);
        }
        let stores = (1..=4).map(|i| format!("{first}{i}.db"));
        run(place.tool(["fleet", first, "--store", "s.db"]).args(stores)).ok();
    }
    let compare =
        |more: &[&str]| run(&mut place.tool([&["compare", "f1", "f2", "--store", "s.db"][..], more].concat()));
    let answer = compare(&["--json"]).ok().json();
    assert_eq!((&answer["fleet"]["fleet"], &answer["against"]["fleet"]), (&2.into(), &1.into()), "{answer}");
    let effects = answer["effects"].as_array().expect("a list");
    assert_eq!(effects.len(), 4, "two arms at two depths: {effects:?}");
    for e in effects {
        let (ratio, verdict) = match e["at"]["arm"].as_str() {
            Some("coop") => (0.8, "slower"),
            _ => (1.0, "equivalent"),
        };
        assert!((e["ratio"].as_f64().expect("a ratio") - ratio).abs() < 0.02, "{e}");
        assert_eq!((&e["verdict"], &e["holds"], &e["machines"]), (&verdict.into(), &3.into(), &3.into()), "{e}");
        assert_eq!((&e["a"], &e["b"]), (&"f1".into(), &"f2".into()));
    }
    let shown = compare(&[]).ok().stdout;
    assert!(shown.starts_with("f2 against f1: ") && shown.contains("only in f1, and not compared: b4"), "{shown}");
    assert!(shown.contains("details: iotrail compare f1 f2 --store s.db --full"), "{shown}");
    assert_eq!(compare(&["--fail-on", "slower"]).status, 1);
    assert_eq!(compare(&["--fail-on", "faster,inconclusive"]).status, 0);
    let none = run(&mut place.tool(["compare", "f1", "f1", "--store", "s.db"]));
    assert_eq!(none.status, 2);
    assert!(none.one_line().contains("f1 and f1 have 0 machines to compare"), "{}", none.stderr);

    // A cell that a machine cannot test in either fleet is `cannot_test`, with the reason.
    let of = |fleet: &str| answer[fleet]["nodes"][0]["run"].as_i64().expect("a run");
    let db = Connection::open(place.join("s.db")).expect("a store");
    for (run, depth, why) in [(of("against"), 1, "no room"), (of("fleet"), 4, "no memory")] {
        let like = format!("%\"depth\":{depth}%");
        let sql = "UPDATE cells SET untestable = ?3 WHERE run = ?1 AND params LIKE '%coop%' AND params LIKE ?2";
        assert_eq!(db.execute(sql, params![run, like, why]).expect("cells"), 1);
    }
    db.execute(
        "DELETE FROM measurements WHERE cell IN (SELECT cell FROM cells c WHERE c.run = measurements.run AND untestable IS NOT NULL)",
        [],
    )
    .expect("measurements");
    let answer = compare(&["--json"]).ok().json();
    for (depth, why) in [(1, "in f1: no room"), (4, "no memory")] {
        let effects = answer["effects"].as_array().expect("a list");
        let is_it = |e: &&serde_json::Value| e["at"]["arm"] == "coop" && e["at"]["depth"] == depth;
        let on = &effects.iter().find(is_it).expect("two machines have it")["on"][0];
        assert_eq!((&on["stands"], &on["reason"]), (&"cannot_test".into(), &why.into()), "{on}");
    }
    End::Passed
}

fn wrong_use() -> End {
    let place = Place::new();
    first(&place);
    experiment(&place, "count = 8");
    let other = std::fs::read_to_string(place.join("e.toml")).expect("ours").replace("tiny", "other");
    place.write("o.toml", other);
    run(place.tool(["run", "o.toml", "--quick", "--store", "c1.db", "--file"]).arg(file())).ok();
    for (args, said) in [
        ("fleet x 1", "a fleet needs at least two machines, but only 1 machine is specified"),
        ("fleet x 1 b=2", "run 1 is of tiny, but run 2 is of other; specify runs of the same experiment"),
        ("fleet x 1 1", "give each machine its own name: NAME=1"),
        ("fleet x 1 b=99", "no run 99 in c1.db"),
        ("fleet x 1 none.db", "none.db is neither a run nor a store"),
        ("fleet x 1 c1.db:two", "'two' is not a run number; write PATH:12"),
        ("report f7", "no fleet f7 in c1.db; `iotrail list` lists the stored fleets"),
        ("report f7 1 -o x.html", "f7 is a fleet, but a run is expected"),
        ("compare f7 1", "f7 is a fleet, but a run is expected"),
        ("compare f7 f8", "no fleet f7 in c1.db"),
        ("export f7 --csv -", "f7 is a fleet, but a run is expected"),
    ] {
        let ended = run(place.tool(args.split(' ')).args(["--store", "c1.db"]));
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{args}: {}", ended.stderr);
        assert!(ended.one_line().contains(said), "{args}: {}", ended.stderr);
    }
    assert!(!place.join("x.html").exists());
    End::Passed
}
