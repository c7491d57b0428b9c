//! The files of a program's requests, compared with the ground program's facts.

use iotrail_schema::trace_record::{Estimate, FileRecord, TraceRecord};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::ground::watch_with;
use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("files::file_counts_are_exact_if_all_requests_are_traced", exact),
        trial::test("files::intervals_of_a_sample_cover_the_true_counts", sampled),
        trial::test("files::a_ring_has_the_name_of_its_process", names),
    ]
}

const NAME: &str = "read\n\x1b[31mme";

fn of<'t>(trace: &'t TraceRecord, name: &str) -> &'t FileRecord {
    let is = |f: &&FileRecord| f.path.as_deref().map_or(f.kind.name() == name, |p| p.rsplit('/').next() == Some(name));
    let mut found = trace.total.files.iter().filter(is);
    let one = found.next().unwrap_or_else(|| panic!("{name:?} is not among {:#?}", trace.total.files));
    assert!(found.next().is_none(), "{name:?} is there twice");
    one
}

fn fact(truth: &Value, name: &str) -> f64 {
    truth["facts"][name].as_f64().unwrap_or_else(|| panic!("{name}: {truth}"))
}

fn known(e: Option<Estimate>) -> Option<f64> {
    e.map(|e| e.total)
}

/// Names of a file, and of its facts.
const FILES: [(&str, &str); 4] =
    [(NAME, "read"), ("by_index", "by_index"), ("deleted", "deleted"), ("eventfd", "eventfd")];

fn exact() -> Result<(), Failed> {
    // Full paths can be read only while the process is alive; afterwards, only the last components.
    for options in [&["--count", "4000", "--pause-ms", "300"][..], &["--count", "40"]] {
        let (trace, truth) = watch_with("files", options);
        assert_eq!(trace.total.files.len(), FILES.len(), "{:#?}", trace.total.files);
        assert_eq!(trace.total.other_files, None);
        for (name, facts) in FILES {
            let f = of(&trace, name);
            let (moved, none) = if facts == "deleted" { (f.writes, f.reads) } else { (f.reads, f.writes) };
            let moved = moved.unwrap_or_else(|| panic!("{f:?}"));
            let bytes = fact(&truth, &format!("{facts}_bytes"));
            assert_eq!((moved.requests.total, known(moved.bytes)), (fact(&truth, facts), Some(bytes)), "{f:?}");
            assert_eq!(moved.requests.ci95, [moved.requests.total; 2]);
            assert!(none.is_none() && f.others.is_none(), "{f:?}");
            assert_eq!((f.deleted, f.processes), (facts == "deleted", 1), "{f:?}");
            assert_eq!(f.tgid.map(u64::from), truth["tgid"].as_u64());
            assert_eq!(f.descriptors.len(), 1, "{f:?}");
            assert_eq!(f.descriptors[0] == "fixed 2", facts == "by_index", "{f:?}");
            assert!(f.latency_ns.mean.is_some_and(|ns| ns > 0.0), "{f:?}");
        }
        if options.contains(&"--pause-ms") {
            for (name, _) in &FILES[..3] {
                let f = of(&trace, name);
                assert!(f.path_is_whole && f.path.as_ref().is_some_and(|p| p.starts_with('/')), "{f:?}");
            }
        }
    }
    Ok(())
}

/// 400,000 requests, of which 1 in 100 is traced. 95 of 100 intervals contain the true value, so of eight, two may not.
fn sampled() -> Result<(), Failed> {
    let (mut held, mut all) = (0, 0);
    for _ in 0..3 {
        let (trace, truth) = crate::ground::watch_one_in("files", 100, &["--count", "400000"]);
        assert!(trace.total.followed.sampled_from.is_some_and(|n| n > 100_000), "{:?}", trace.total.followed);
        for (name, facts) in FILES {
            let f = of(&trace, name);
            let moved = if facts == "deleted" { f.writes } else { f.reads }.expect("some were followed");
            let bytes = fact(&truth, &format!("{facts}_bytes"));
            for (e, truly) in [(moved.requests, fact(&truth, facts)), (moved.bytes.expect("they move some"), bytes)] {
                let holds = e.ci95[0] <= truly && truly <= e.ci95[1];
                // No estimate is off by more than its interval's width.
                let width = e.ci95[1] - e.ci95[0];
                assert!((e.total - truly).abs() < 2.0 * width, "{name:?}: {truly} {e:?}");
                (held, all) = (held + u32::from(holds), all + 1);
            }
        }
    }
    assert!(held * 100 >= all * 80, "{held} of {all} intervals");
    Ok(())
}

fn names() -> Result<(), Failed> {
    // A thread named `one_connection` creates and uses the ring.
    let (trace, _) = watch_with("files", &["--count", "400"]);
    assert_eq!(trace.rings[0].comm, "ground");
    let processes: Vec<&str> = trace.total.processes.iter().map(|p| p.comm.as_str()).collect();
    assert_eq!(processes, ["ground"]);
    Ok(())
}
