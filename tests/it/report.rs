//! `report` on a terminal repeats the screen of `run`; invalid runs. tests/browser checks the pages.

use serde_json::json;

use crate::tool::{Place, bench, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("report::report_prints_the_same_screen_as_the_run", again),
    ("report::a_missing_run_is_rejected_with_the_remedy", refused),
];

const EXPERIMENT: &str = "name = \"x\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nrepeats = 2\n[load]\nrw = \"nop\"\ntrace = \"off\"\n\
                          warmup = \"0\"\ncount = 1000\n[[arm]]\nname = \"one\"\n[[arm]]\nname = \"two\"\nbatch = 2\n";

fn again() -> End {
    let place = Place::new();
    place.write("x.toml", EXPERIMENT);
    let screen = run(&mut place.tool(["run", "x.toml", "--store", "s.db"])).ok().stdout;
    for which in ["1", "last"] {
        let told = run(&mut place.tool(["report", which, "--store", "s.db"])).ok();
        assert_eq!((told.stdout.as_str(), told.stderr.as_str()), (screen.as_str(), ""));
    }
    let record = run(&mut place.tool(["report", "last", "--store", "s.db", "--json"])).ok();
    assert_eq!(record.json()["schema"], json!("iotrail.run/1"));
    place.write("run.json", &record.stdout);
    let of_a_file = run(&mut place.tool(["report", "run.json"])).ok().stdout;
    let without_how = |text: &str| text.split("\ndetails: ").next().unwrap_or_default().to_owned();
    assert_eq!(without_how(&of_a_file), without_how(&screen));
    assert!(screen.contains("details: iotrail report 1 --store s.db --full"), "{screen}");
    assert!(screen.starts_with("two against one: ") && screen.lines().count() <= 20, "{screen}");
    let full = run(&mut place.tool(["report", "1", "--store", "s.db", "--full"])).ok().stdout;
    assert!(full.starts_with(&without_how(&screen)) && full.contains("conclusion"), "{full}");
    // A single measurement is printed as by `bench`.
    let m = run(&mut bench(&place, "--rw nop --count 1000 --json")).ok();
    place.write("m.json", &m.stdout);
    let told = run(&mut place.tool(["report", "m.json"])).ok().stdout;
    assert!(told.contains("throughput") && told.contains("1000 I/Os"), "{told}");
    let page = run(&mut place.tool(["report", "m.json", "-o", "m.html"])).ok();
    assert_eq!((page.stdout.as_str(), page.stderr.as_str()), ("", "report: m.html\n"));
    let page = std::fs::read_to_string(place.join("m.html")).expect("it was written");
    assert!(
        page.contains("<svg") && page.trim_end().ends_with("</html>") && page.len() < 1 << 20,
        "{} bytes",
        page.len()
    );
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    place.write("x.toml", EXPERIMENT);
    let line = |args: &[&str]| {
        let ended = run(place.tool(args).arg("--store").arg("s.db"));
        assert_eq!(ended.status, 2, "{}", ended.stderr);
        ended.one_line().to_owned()
    };
    assert_eq!(
        line(&["report", "last"]),
        "no run: store s.db does not exist; specify the store with --store, or specify JSON files"
    );
    assert_eq!(
        line(&["report", "nothing.json", "-o", "p.html"]),
        "cannot read nothing.json: No such file or directory (os error 2); specify a stored run's number (`iotrail list`) or a JSON file"
    );
    run(&mut place.tool(["run", "x.toml", "--store", "s.db"])).ok();
    assert_eq!(line(&["report", "7"]), "no run 7 in s.db; `iotrail list` shows the stored runs");
    assert!(line(&["report", "1", "1", "-o", "p.html"]).starts_with("'1' and '1' are the same measurements"));
    assert!(line(&["report", "1", "1"]).contains("--output"), "two runs are a page");
    assert!(!place.join("p.html").exists());
    End::Passed
}
