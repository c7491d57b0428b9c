//! The text and JSON of `check` and `list`.

use crate::measurement::check as fields;
use crate::tool::{Place, file, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("json::check_json_describes_the_host_and_the_target", check),
    ("json::list_json_includes_all_experiments_and_an_empty_store", list),
];

fn check() -> End {
    let place = Place::new();
    let c = run(place.tool(["check", "--json", "--file"]).arg(file())).ok().json();
    fields(
        &c,
        "schema string, version string, host.kernel string, host.target.path string, cpus.online list, items list,
         items[].name string, items[].state string",
    );
    let path = file().canonicalize().expect("the file is there");
    assert_eq!(c["host"]["target"]["path"], path.to_str().expect("UTF-8"));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("procfs");
    assert_eq!(c["host"]["kernel"], release.trim());
    let text = run(&mut place.tool(["check"])).ok();
    assert!(text.stdout.contains("io_uring") && !text.stdout.contains('\u{1b}'), "no colour where nobody sees it");
    assert_eq!(text.stderr, "");
    assert_eq!(place.contents().len(), 0, "check leaves nothing behind");
    End::Passed
}

fn list() -> End {
    let place = Place::new();
    let l = run(&mut place.tool(["list", "--json", "--store", "s.db"])).ok().json();
    assert_eq!((l["schema"].as_str(), l["store"].as_str()), (Some("iotrail.list/1"), Some("s.db")));
    assert_eq!(l["runs"].as_array().map(Vec::len), Some(0));
    let names: Vec<_> =
        l["experiments"].as_array().expect("a list").iter().filter_map(|e| e["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "async-punt",
            "commit",
            "coop",
            "coop-worse",
            "copy-cost",
            "depth-kicks",
            "getevents",
            "interfaces",
            "irq-placement",
            "net-engines",
            "polling",
            "registered",
            "sqpoll-idle",
            "tw-order"
        ]
    );
    // Every listed name can be planned.
    for name in names {
        let plan = run(&mut place.tool(["run", name, "--plan", "--json", "--file", "t", "--size", "1g"])).ok().json();
        fields(
            &plan,
            "schema string, seed number, repeats number, cells[].cell number, cells[].params object, order[].repeat number",
        );
        assert!(plan["cells"].as_array().is_some_and(|c| c.len() > 1), "{name}");
        let text = run(&mut place.tool(["run", name, "--plan", "--file", "t", "--size", "1g"])).ok();
        assert!(text.stdout.contains("\ncells\n") && text.stdout.contains("\norder (seed "), "{}", text.stdout);
    }
    assert_eq!(place.contents().len(), 0, "neither list nor --plan makes a file");
    End::Passed
}
