//! Findings of `trace` on threads that delay each other and on unusable memory, compared with `ground`'s facts.

use iotrail_schema::trace_record::TraceRecord;
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::ground::{counts, watch};
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 5] = [
        ("the_thread_that_keeps_a_submitter_off_its_cpu_is_reported", waits_for_cpu),
        ("the_submitting_and_the_waiting_thread_are_reported", reaped_elsewhere),
        ("a_waiting_thread_of_another_process_is_reported", across),
        ("an_sqpoll_thread_makes_no_detour", polled),
        ("the_first_bad_buffer_is_identified", bad_buffers),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("threads::{name}"), test)).collect()
}

/// `None` if the machine cannot run the scenario.
fn watched(scenario: &str) -> Option<(TraceRecord, Value)> {
    let (trace, truth) = watch(scenario);
    counts(&trace, &truth);
    truth["unsupported"].is_null().then_some((trace, truth))
}

fn codes(t: &TraceRecord) -> Vec<&str> {
    t.findings.iter().map(|f| f.code.as_str()).collect()
}

/// The busy threads used the CPU; without them, the same program hardly waits.
fn waits_for_cpu() -> Result<(), Failed> {
    let Some((t, _)) = watched("waiting_for_cpu") else { return Ok(()) };
    let r = t.total.stages.as_ref().and_then(|s| s.runnable.clone()).ok_or("runnable is known")?;
    assert!(r.mean_ns <= r.delivery_ns && r.completions <= t.total.ios, "{r:?}");
    let busy: f64 =
        r.by.iter().filter(|b| b.comm.as_ref().is_some_and(|c| c.starts_with("busy-"))).map(|b| b.share).sum();
    assert!(busy > 0.5, "{r:?}");
    assert!(codes(&t).contains(&"waiting_for_cpu"), "{:?}: {r:?}", codes(&t));
    let Some((alone, _)) = watched("cpu_of_its_own") else { return Ok(()) };
    let own = alone.total.stages.as_ref().and_then(|s| s.runnable.clone()).ok_or("runnable is known")?;
    assert!(own.completions >= r.completions / 2, "of nearly all of them it is known: {own:?}");
    assert!(own.long_share < r.long_share, "{own:?}, {r:?}");
    Ok(())
}

fn reaped_elsewhere() -> Result<(), Failed> {
    let Some((t, truth)) = watched("reaped_elsewhere") else { return Ok(()) };
    let of = t.rings[0].threads.as_ref().ok_or("its threads are known")?;
    let named = |name: &str| of.threads.iter().find(|t| t.comm.as_deref() == Some(name));
    let submitter = named("submitter").ok_or("the submitter has its name")?;
    assert_eq!(
        (Some(submitter.submitted), submitter.waits),
        (truth["facts"]["submitted_elsewhere"].as_u64(), 0),
        "{of:?}"
    );
    let reaper = of.threads.iter().find(|t| t.waits > 0).ok_or("one waits")?;
    let at_most = truth["facts"]["waits_at_most"].as_u64().unwrap();
    assert!(reaper.submitted == 0 && reaper.tid != submitter.tid, "{of:?}");
    // Each group of 8 is waited for at least once.
    assert!((t.total.ios / 8..=at_most).contains(&reaper.waits), "{at_most}: {of:?}");
    assert_eq!(
        (of.threads.len(), of.more, of.waiting),
        (2, 0, Some(1)),
        "who only writes to the sockets is none of them"
    );
    let detour = of.detour.as_ref().ok_or("a detour")?;
    assert_eq!((detour.threads, detour.others_delivery_ns), (1, None), "{detour:?}");
    assert!(detour.share > 0.9 && detour.vehicles[0].detail.as_deref() == Some("futex"), "{detour:?}");
    assert!(codes(&t).contains(&"reaped_elsewhere"), "{:?}", codes(&t));
    Ok(())
}

/// The child has a separate record for its use of the ring.
fn across() -> Result<(), Failed> {
    let (t, truth) = watch("reaped_by_a_child");
    let [whole, the_use] = &t.rings[..] else { return Err(format!("{} rings", t.rings.len()).into()) };
    assert_eq!((whole.use_of, the_use.use_of, the_use.requests), (None, Some(whole.ring), 0));
    assert_eq!(Some(u64::from(the_use.tgid)), truth["facts"]["child"].as_u64());
    let waits = the_use.threads.as_ref().map(|of| (of.waiting, of.threads[0].submitted, of.threads[0].waits));
    let completions = whole.completions;
    assert!(
        waits.is_some_and(|(n, submitted, waits)| n == Some(1) && submitted == 0 && waits <= completions),
        "{waits:?}"
    );
    let f = t.findings.iter().find(|f| f.code == "reaped_elsewhere").ok_or_else(|| format!("{:?}", codes(&t)))?;
    assert!(f.ring == Some(whole.ring) && f.text.contains(&format!("of process ground ({})", the_use.tgid)), "{f:?}");
    Ok(())
}

fn polled() -> Result<(), Failed> {
    let Some((t, _)) = watched("reaped_elsewhere_sqpoll") else { return Ok(()) };
    let of = t.rings[0].threads.as_ref().ok_or("its threads are known")?;
    assert_eq!((of.waiting, &of.detour), (Some(1), &None), "{of:?}");
    assert!(of.threads.iter().any(|t| t.comm.as_ref().is_some_and(|comm| comm.starts_with("iou-sqp-"))), "{of:?}");
    assert!(!codes(&t).contains(&"reaped_elsewhere"), "{:?}", codes(&t));
    Ok(())
}

fn bad_buffers() -> Result<(), Failed> {
    let Some((t, truth)) = watched("bad_buffers") else { return Ok(()) };
    for (opcode, fact) in [("read", "first_unmapped"), ("read_fixed", "first_unregistered")] {
        let o = t.total.opcodes.iter().find(|o| o.opcode == opcode).ok_or("both are there")?;
        let [e] = &o.errnos[..] else { return Err(format!("{opcode}: {:?}", o.errnos).into()) };
        assert_eq!((e.errno.as_str(), e.count), ("EFAULT", t.total.ios / 8));
        let user_data = e.user_data.as_ref().and_then(|data| u64::from_str_radix(data.strip_prefix("0x")?, 16).ok());
        // A request rejected before it counts as submitted, as in 6.1 with a buffer index, is not traced.
        let number = user_data.map(|data| data & 0xffff_ffff);
        assert!(
            number == truth["facts"][fact].as_u64() || (opcode == "read_fixed" && number.is_none()),
            "{e:?}: {truth}"
        );
    }
    assert_eq!(codes(&t), ["bad_buffers"]);
    Ok(())
}
