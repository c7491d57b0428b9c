//! `uring-trace` on programs with known activity.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use uring_trace::{Completion, DeliveryPath, Error, Losses, Tracer};

use crate::bench::file;
use crate::beside::Beside;
use crate::ground::{ground, may_lose};
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("each_completion_of_a_command_is_passed_on_with_its_path", command),
        ("a_sample_is_passed_on_but_all_requests_are_counted", sample),
        ("a_running_process_is_traced_by_its_id", process),
        ("a_command_or_process_that_does_not_exist_is_an_error", missing),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("library::{name}"), test)).collect()
}

/// No-ops, which complete while they are submitted.
fn nops(count: u64) -> Command {
    let mut command = Command::new(ground());
    command.args(["inline_nop", "--count", &count.to_string()]).stdout(Stdio::null());
    command
}

fn command() -> Result<(), Failed> {
    let mut seen: Vec<Completion> = vec![];
    let (status, totals) = Tracer::new().command(nops(2000), |c| seen.push(c))?;
    assert!(status.success(), "{status}");
    if totals.losses.events > 0 && may_lose() {
        return Ok(());
    }
    assert_eq!((totals.requests, totals.completions, totals.traced), (2000, 2000, 2000), "{totals:?}");
    assert_eq!(totals.paths, BTreeMap::from([(DeliveryPath::Inline, 2000)]));
    assert_eq!((totals.in_flight, totals.skipped, totals.losses), (0, 0, Losses::default()));
    assert_eq!(seen.len(), 2000);
    let threads: BTreeSet<(u32, u32)> = seen.iter().map(|c| (c.pid, c.tid)).collect();
    assert_eq!(threads.len(), 1, "{threads:?}");
    for c in &seen {
        assert_eq!((c.opcode.as_str(), c.ring, c.result, c.weight), ("nop", Some(0), 0, 1), "{c:?}");
        assert_eq!((c.path, c.stages), (DeliveryPath::Inline, None), "{c:?}");
        assert_eq!(c.latency.map(|l| l.as_nanos()), Some(u128::from(c.posted.ns - c.submitted.ns)), "{c:?}");
    }
    Ok(())
}

/// The weights estimate the number of requests; for 20,000 requests at 1 in 10, its standard error is below 424.
fn sample() -> Result<(), Failed> {
    let (mut traced, mut weight) = (0, 0);
    let (_, totals) = Tracer::new().one_in(10).command(nops(20_000), |c| {
        traced += 1;
        weight += i64::from(c.weight);
    })?;
    if totals.losses.events > 0 && may_lose() {
        return Ok(());
    }
    assert_eq!((totals.requests, totals.completions, totals.traced), (20_000, 20_000, traced), "{totals:?}");
    assert_eq!(weight, traced as i64 * 10);
    assert!((weight - 20_000).abs() < 5 * 424, "{weight}");
    Ok(())
}

/// It reads at a depth of 1, so at most one request is in flight when the trace begins, and one when it ends.
fn process() -> Result<(), Failed> {
    let beside = Beside::bench(file(), "--rate 500 --depth 1")?;
    let mut seen: Vec<Completion> = vec![];
    let totals = Tracer::new().process(beside.id(), Duration::from_secs(1), |c| seen.push(c))?;
    assert!(totals.completions > 100 && !totals.losses.any(), "{totals:?}");
    assert!(totals.completions - totals.traced <= 1 && totals.traced == seen.len() as u64, "{totals:?}");
    assert!(totals.requests.abs_diff(totals.completions) <= 1, "{totals:?}");
    assert_eq!(totals.paths.values().sum::<u64>(), totals.completions);
    assert!(seen.iter().all(|c| c.pid == beside.id() && c.result == 4096 && c.requested_bytes == Some(4096)));
    let staged: Vec<&Completion> = seen.iter().filter(|c| c.stages.is_some()).collect();
    assert!(staged.len() * 10 >= seen.len() * 9, "{} of {} have stages", staged.len(), seen.len());
    for (stages, c) in staged.iter().filter_map(|c| Some((c.stages?, c))) {
        let sum = Duration::from_nanos(stages.issue_ns + stages.wait_ns + stages.delivery_ns);
        assert_eq!(Some(sum), c.latency);
    }
    Ok(())
}

fn missing() -> Result<(), Failed> {
    let none = |_: Completion| {};
    let command = Tracer::new().command(Command::new("/no/such/program"), none);
    assert!(matches!(&command, Err(Error::Command(e)) if e.kind() == std::io::ErrorKind::NotFound), "{command:?}");
    let process = Tracer::new().process(u32::MAX, Duration::ZERO, none);
    assert!(matches!(process, Err(Error::Process { pid: u32::MAX, .. })), "{process:?}");
    Ok(())
}
