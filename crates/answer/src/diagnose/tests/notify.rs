//! Findings about how a thread learns of completions, and on which CPU.

use super::*;
use iotrail_schema::account::{Account, ThreadAccount};

#[test]
fn waiting_for_cpu_names_the_thread_that_ran_on_the_cpu() {
    let f = only(&waiting_for_cpu(), "waiting_for_cpu");
    assert_eq!(
        (f.warns(), f.ring, f.evidence["share_of_delivery"], f.evidence["p99_ns"]),
        (true, Some(0), 0.75, 4.1e6)
    );
    assert!(
        f.text.contains("The CPU was running postgres (99) 90 % and unknown 10 %. Basis: 80.0 k traced"),
        "{}",
        f.text
    );
    let with = |change: fn(&mut Runnable)| {
        let mut t = waiting_for_cpu();
        change(t.rings[0].stages.as_mut().unwrap().runnable.as_mut().unwrap());
        codes(&t)
    };
    assert_eq!(with(|r| r.long_share = 0.04), Vec::<String>::new(), "the rare one");
    let mut own = waiting_for_cpu();
    let stages = own.rings[0].stages.as_mut().unwrap();
    (stages.delivery_ns, stages.issue_ns, stages.wait_ns) = (stages.total_ns * 0.8, 0.0, stages.total_ns * 0.2);
    stages.runnable.as_mut().unwrap().long_share = 0.04;
    assert_eq!(codes(&own), Vec::<String>::new(), "another program had the CPU");
    let thread = ThreadAccount { tid: 99, tgid: 1234, ..ThreadAccount::default() };
    own.account = Some(Account { threads: vec![thread], more_threads: 0, requests: None, iowait: None });
    own.total.elapsed_ns = 0;
    let share = only(&own, "waiting_for_cpu").bound.unwrap().share;
    assert!((share - 0.6).abs() < 1e-9, "{share}: three quarters of the delivery");
    assert_eq!(with(|r| r.long = 19), Vec::<String>::new(), "no habit");
    assert_eq!(with(|r| r.delivery_ns = 2e6), Vec::<String>::new(), "delivery takes its time elsewhere");
    // Rings with few completions each, such as those of many backends, are evaluated together.
    let mut t = waiting_for_cpu();
    t.total.stages = t.rings[0].stages.clone();
    t.rings[0].stages.as_mut().unwrap().runnable.as_mut().unwrap().completions = 9;
    assert_eq!(only(&t, "waiting_for_cpu").ring, None);
}

#[test]
fn completions_reaped_by_another_thread_are_reported_with_both_threads() {
    let f = only(&reaped_elsewhere(), "reaped_elsewhere");
    assert_eq!((f.warns(), f.ring, f.evidence["waits"]), (true, Some(0), 60_000.0));
    assert!(
        f.text.starts_with(
            "100 % of completions belong to requests submitted by ib_writer (1235) and awaited in io_uring_enter by \
             ib_reaper (1236). "
        ),
        "{}",
        f.text
    );
    assert!(f.text.contains("took 900 µs on average. Delivery paths: syscall_exit (futex) 100 %"), "{}", f.text);
    let with = |change: fn(&mut RingRecord)| {
        let mut t = reaped_elsewhere();
        change(&mut t.rings[0]);
        codes(&t)
    };
    assert_eq!(with(|r| r.flags = vec!["sqpoll".into()]), Vec::<String>::new());
    assert_eq!(with(|r| r.threads.as_mut().unwrap().threads[1].waits = 3), Vec::<String>::new());
    assert_eq!(with(|r| r.threads.as_mut().unwrap().detour.as_mut().unwrap().share = 0.01), Vec::<String>::new());
    // Only one thread of a pool is named.
    let mut pool = reaped_elsewhere();
    let threads = pool.rings[0].threads.as_mut().unwrap();
    let writer = threads.threads[0].clone();
    threads.threads.extend((0..4).map(|i| ThreadRecord { tid: 2000 + i, ..writer.clone() }));
    threads.detour.as_mut().unwrap().threads = 5;
    let f = only(&pool, "reaped_elsewhere");
    assert!(f.text.contains("submitted by ib_writer (1235) and 4 other threads and awaited"), "{}", f.text);
    // If another process waits, its use of the ring has a separate record.
    let mut t = reaped_elsewhere();
    let reaper = t.rings[0].threads.as_mut().unwrap().threads.remove(1);
    let mut other =
        RingRecord { use_of: Some(0), tgid: 77, comm: "cat".into(), requests: 0, completions: 0, ..ring(1) };
    other.threads = Some(RingThreads { threads: vec![reaper], waiting: Some(1), ..RingThreads::default() });
    t.rings.push(other);
    let f = only(&t, "reaped_elsewhere");
    assert!(f.text.contains("by ib_reaper (1236) of process cat (77)."), "{}", f.text);
    // The cost is negligible if submitters enter the kernel soon.
    let mut soon = reaped_elsewhere();
    soon.rings[0].threads.as_mut().unwrap().detour.as_mut().unwrap().delivery_ns = Some(4_000.0);
    assert!(!only(&soon, "reaped_elsewhere").warns());
}

#[test]
fn tick_delivery_is_explained_by_the_ring_flags() {
    let f = only(&stranded(), "stranded");
    assert_eq!(
        f.text,
        "98 % of completions waited for the timer tick (median 2.00 ms after ready). With COOP_TASKRUN the \
         kernel sends no interrupt for them, and the thread makes no system call while it polls the CQ ring. Their task work \
         waits for the next kernel entry, which is the tick. Basis: 500 completions"
    );
    assert!(f.remedy.starts_with("set `taskrun_flag`"));
    assert!(
        f.remedy.ends_with("or run the thread on CPU 1, where the interrupts of nvme0q2 would deliver the completions")
    );
    assert_eq!((f.evidence["delay_p50_ns"], f.evidence["interrupt_cpu"], f.ring), (2e6, 1.0, Some(0)));
    // The tick delivers completions shortly after they become ready, so none waited for it.
    let mut soon = stranded();
    soon.rings[0].vehicles[0].delay_ns.as_mut().unwrap().p50 = Some(4_000);
    assert_eq!(codes(&soon), Vec::<String>::new());
}

#[test]
fn a_kick_storm_is_reported_with_its_rate_and_its_ring() {
    let f = only(&kick_storm(), "kick_storm");
    assert!(f.text.starts_with("0.980 kicks per I/O, 39.2 k per second while the rings were in use. "), "{}", f.text);
    assert_eq!((f.warns(), f.ring), (true, Some(0)));
    let mut slow = kick_storm();
    slow.rings[0].active_ns = Some(100_000_000_000);
    slow.total.elapsed_ns = 100_000_000_000;
    assert_eq!(codes(&slow), Vec::<String>::new());
    // The ring was in use for less than a tick, so its time is unknown: over the traced time, there were 87 kicks per
    // second.
    let mut short = kick_storm();
    (short.rings[0].active_ns, short.total.elapsed_ns) = (None, 900_000_000_000);
    assert_eq!(codes(&short), Vec::<String>::new());
    // Not each of a hundred I/Os caused a kick, and fewer than a hundred kicks are not a storm.
    let mut few = kick_storm();
    (few.total.ios, few.rings[0].active_ns, few.total.elapsed_ns) = (101, Some(1_000_000), 1_000_000);
    assert_eq!(codes(&few), Vec::<String>::new());
}

#[test]
fn the_recommended_cpu_is_the_one_that_takes_the_drives_interrupts() {
    let f = only(&wrong_core(), "wrong_core");
    assert!(
        f.text.starts_with("98.8 % of completions became ready on CPU 1") || f.text.starts_with("99 %"),
        "{}",
        f.text
    );
    assert!(
        f.text.contains(
            "nvme0q2 (36), and were posted on CPU 0, where the thread runs. CPU 1 notified CPU 0 0.988 times"
        )
    );
    assert!(f.remedy.starts_with("run the thread on CPU 1 (`taskset -c 1`)"));
    // The wait for the CPU that other threads have remains on any CPU.
    let mut busy = wrong_core();
    let whole = only(&busy, "wrong_core").bound.unwrap().share;
    busy.total.stages.as_mut().unwrap().runnable = waiting_for_cpu().rings[0].stages.as_ref().unwrap().runnable.clone();
    assert!((only(&busy, "wrong_core").bound.unwrap().share - whole / 4.0).abs() < 1e-9);
    // In batches, one cross-CPU interrupt covers many completions.
    let mut batches = wrong_core();
    batches.total.ipis[0].count = 5_000;
    assert_eq!(codes(&batches), Vec::<String>::new());
    // A polling idle CPU is notified without an interrupt, but the thread is still woken.
    batches.total.per_io.context_switches = Some(1.0);
    assert_eq!(codes(&batches), ["wrong_core"]);
    // No device interrupts that CPU, so another thread made the completions ready.
    let mut no_device = wrong_core();
    no_device.total.interrupts[0] =
        Interrupt { vector: "LOC".into(), credited: None, ..no_device.total.interrupts[0].clone() };
    assert_eq!(codes(&no_device), Vec::<String>::new());
    let mut idle_device = wrong_core();
    idle_device.total.interrupts[0].credited = Some(900);
    assert_eq!(codes(&idle_device), Vec::<String>::new());
    // Interrupts for other programs do not count, and neither do interrupts without a known program.
    for credited in [Some(0), None] {
        let mut others = wrong_core();
        (others.total.interrupts[0].count, others.total.interrupts[0].credited) = (1_000_000, credited);
        assert_eq!(codes(&others), Vec::<String>::new());
    }
    // With threads on every CPU, no CPU is the right one for all.
    let mut many = wrong_core();
    many.total.cpu_pairs = (0..4)
        .map(|cpu| CpuPair { ready_cpu: 1, posted_cpu: cpu, completions: 20_000, estimated: None, threads: Some(1) })
        .collect();
    assert_eq!(codes(&many), Vec::<String>::new());
}

/// Four busy database backends should not share a CPU.
#[test]
fn several_busy_threads_are_not_advised_to_share_one_cpu() {
    let mut t = wrong_core();
    let alone = only(&t, "wrong_core");
    assert!(alone.remedy.contains("`taskset -c 1`") && alone.text.contains("where the thread runs. CPU 1 notified"));
    t.total.cpu_pairs[0].threads = Some(4);
    let f = only(&t, "wrong_core");
    assert!(f.text.contains("posted on CPU 0, where the 4 threads that submit run. CPU 1 notified"), "{}", f.text);
    assert!(f.remedy.starts_with("give the device an interrupt on each CPU") && !f.remedy.contains("taskset"));
    assert_eq!(f.evidence["threads"], 4.0);
    let mut stranded = stranded();
    stranded.total.interrupts[0].credited = Some(500);
    assert!(only(&stranded, "stranded").remedy.contains("run the thread on CPU 1"));
    stranded.total.cpu_pairs[0].threads = Some(4);
    assert!(!only(&stranded, "stranded").remedy.contains("run the thread"));
}
