//! `reproduce`: the studies, a part that is measured and compared, the same from the store, and its errors.

use std::path::Path;

use crate::measurement::check as fields;
use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("reproduce::studies_are_listed_and_an_unknown_one_is_rejected", listed),
    ("reproduce::a_part_of_a_study_is_measured_and_judged_again_from_the_store", measured),
    ("reproduce::a_part_that_needs_an_nvme_drive_is_reported_as_untestable", untestable),
];

fn listed() -> End {
    let place = Place::new();
    let l = run(&mut place.tool(["reproduce", "--json"])).ok().json();
    fields(
        &l,
        "schema string, studies[].study string, studies[].title string, studies[].parts list, studies[].figures number",
    );
    let names: Vec<&str> =
        l["studies"].as_array().expect("a list").iter().filter_map(|s| s["study"].as_str()).collect();
    assert_eq!(names, ["vldb26", "thesis", "systor22"]);
    let text = run(&mut place.tool(["reproduce"])).ok().stdout;
    assert!(text.contains("iotrail reproduce thesis") && text.contains("parts: kicks, reaper, async"), "{text}");
    for (args, said) in [
        (
            &["reproduce", "vldb25"][..],
            "unknown study 'vldb25'; did you mean vldb26? available: vldb26, thesis, systor22",
        ),
        (&["reproduce", "thesis", "--only", "nop"], "thesis has no part 'nop'; choose among kicks, reaper, async"),
        (
            &["reproduce", "thesis", "--stored", "--store", "none.db"],
            "store none.db does not exist; measure: iotrail reproduce",
        ),
    ] {
        let refused = run(&mut place.tool(args));
        assert_eq!(refused.status, 2, "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{args:?}: {}", refused.stderr);
    }
    assert_eq!(place.contents().len(), 0, "nothing is made");
    End::Passed
}

fn measured() -> End {
    let place = Place::new();
    let worker = ["reproduce", "vldb26", "--quick", "--only", "worker", "--store", "s.db"];
    let made = run(&mut place.tool([&worker[..], &["--repeats", "3", "--json"]].concat())).ok();
    assert!(made.stderr.contains("vldb26: 1 part, about "), "{}", made.stderr);
    let r = made.json();
    fields(
        &r,
        "schema string, study string, title string, machine string, quick bool, parts[].experiment string, parts[].run number,
         lines[].says string, lines[].source string, lines[].published string, lines[].published_value number, lines[].outcome string,
         tally.agree number",
    );
    let lines = r["lines"].as_array().expect("a list");
    assert_eq!((r["parts"][0]["experiment"].as_str(), lines.len()), (Some("vldb26-worker"), 4));
    // A request through an io-wq worker takes longer on every machine.
    let slower = &lines[0];
    assert!(slower["measured_value"].as_f64().is_some_and(|x| x < 0.8), "{slower}");
    assert!((slower["published_value"].as_f64().expect("a number") - 0.1406).abs() < 1e-3, "{slower}");
    let cpus = std::thread::available_parallelism().expect("a number").get();
    if cpus < 3 {
        assert_eq!(lines[3]["outcome"], "cannot_be_tested");
        assert!(lines[3]["reason"].as_str().is_some_and(|why| why.starts_with("it needs 3 CPUs")), "{}", lines[3]);
    }
    let again = run(&mut place.tool([&worker[..], &["--stored", "--json"]].concat())).ok().json();
    assert_eq!(again, r, "the store has all that it was judged by");
    let listed = run(&mut place.tool(["list", "--json", "--store", "s.db"])).ok().json();
    assert_eq!(listed["runs"][0]["experiment"], "vldb26-worker");
    let text = run(&mut place.tool([&worker[..], &["--stored"]].concat())).ok().stdout;
    assert!(text.starts_with("vldb26: ") && text.lines().count() <= 20, "{text}");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("iotrail reproduce vldb26 --quick --only worker --stored --store s.db --full"), "{text}");
    let full = run(&mut place.tool([&worker[..], &["--stored", "--full"]].concat())).ok().stdout;
    assert!(full.contains("bench_async_tw.csv") && full.contains("worker: "), "{full}");
    // The full form has a different load, and was not run.
    let other =
        run(&mut place.tool(["reproduce", "vldb26", "--only", "worker", "--stored", "--json", "--store", "s.db"]));
    let other = other.ok().json();
    assert_eq!(other["tally"]["cannot_be_tested"], 4);
    let why = other["lines"][0]["reason"].as_str().expect("a reason");
    assert_eq!(why, "no finished run is stored: iotrail reproduce vldb26 --only worker --store s.db");
    End::Passed
}

fn untestable() -> End {
    if Path::new("/dev/nvme0n1").exists() {
        return End::Skipped("this machine has an NVMe drive, which the part would read".into());
    }
    let place = Place::new();
    let ended = run(&mut place.tool(["reproduce", "vldb26", "--quick", "--only", "nvme", "--store", "s.db"])).ok();
    let text = ended.stdout;
    assert!(text.starts_with("vldb26: none of 3 published figures can be tested here\n"), "{text}");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("iotrail lab run --nvme queues=2,poll=1 -- iotrail reproduce vldb26 --only nvme"), "{text}");
    assert_eq!(place.contents().len(), 0, "nothing was measured, and no store made");
    End::Passed
}
