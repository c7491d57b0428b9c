//! How completions are delivered, configuration by configuration, where the kernel's code leaves one way.

use iotrail::measurement::Measurement;
use iotrail::path::vehicle::Vehicle;
use libtest_mimic::{Failed, Trial};

use crate::bench::{assert_share, run, share, watched, watched_until};

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 15] = [
        ("peek_default_is_carried_by_kicks", peek_default),
        ("peek_coop_waits_for_the_tick", peek_coop),
        ("peek_coop_with_taskrun_flag_enters", peek_taskrun_flag),
        ("defer_taskrun_enters", defer_taskrun),
        ("blocking_sleeps_and_names_its_waker", blocking),
        ("peek_on_the_interrupts_cpu_is_carried_by_it", peek_irq_cpu),
        ("sqpoll_is_carried_by_its_thread", sqpoll),
        ("force_async_is_carried_by_workers", force_async),
        ("nop_is_inline", nop),
        ("cached_reads_are_inline", cached),
        ("libaio_completes_in_interrupt_context", libaio),
        ("posix_aio_completes_in_a_thread", posix_aio),
        ("sync_is_inline", sync),
        ("a_reaper_thread_leaves_the_counts_exact", reaper),
        ("depth_and_jobs_leave_the_counts_exact", deep),
    ];
    tests.into_iter().map(|(name, test)| Trial::test(format!("vehicles::{name}"), test)).collect()
}

fn peek_default() -> Result<(), Failed> {
    let m = watched_until("--depth 1 --cpus non-irq --wait peek --runtime 2s", Vehicle::ReschedIpi, 0.95);
    let kicks = m.per_io.kicks.expect("ipi_send_cpu is there");
    assert!((0.9..=1.1).contains(&kicks), "{kicks} kicks per I/O");
    Ok(())
}

fn peek_coop() -> Result<(), Failed> {
    let m = watched_until(
        "--ring coop_taskrun --depth 1 --cpus non-irq --wait peek --runtime 2s",
        Vehicle::TimerTick,
        0.95,
    );
    assert!(m.per_io.kicks.expect("ipi_send_cpu is there") < 0.02);
    // Where the job has the CPU to itself that is the kernel's tick rate; beside others, its own part of the ticks.
    let ticks = m.interrupts.iter().find(|i| i.vector == "LOC" && i.cpu == m.load.cpus[0]).expect("ticks are counted");
    let per_tick = m.ios as f64 / ticks.on_watched as f64;
    assert!((0.8..=1.1).contains(&per_tick), "{} I/Os in {} ticks over the job", m.ios, ticks.on_watched);
    let hz = f64::from(iotrail::host::clock::tick_hz().expect("the coarse clock has a resolution"));
    // Up to 5 % may have come otherwise, and other timers than the tick use its vector.
    assert!(m.iops <= 1.25 * hz, "{} IOPS at {hz} ticks per second", m.iops);
    Ok(())
}

fn peek_taskrun_flag() -> Result<(), Failed> {
    let options = "--ring coop_taskrun,taskrun_flag --depth 1 --cpus non-irq --wait peek --runtime 1s";
    watched_until(options, Vehicle::Enter, 0.95);
    Ok(())
}

fn defer_taskrun() -> Result<(), Failed> {
    for wait in ["peek", "block"] {
        let ring = "--ring defer_taskrun,single_issuer";
        let m =
            watched_until(&format!("{ring} --depth 1 --cpus non-irq --wait {wait} --runtime 1s"), Vehicle::Enter, 0.95);
        assert_eq!(m.load.ring.granted, ["defer_taskrun", "single_issuer"]);
    }
    Ok(())
}

/// Completions of a vehicle whose detail begins so.
fn detailed(m: &Measurement, vehicle: Vehicle, detail: &str) -> f64 {
    let of = |v: &&iotrail::measurement::VehicleCount| {
        v.vehicle == vehicle && v.detail.as_deref().is_some_and(|d| d.starts_with(detail))
    };
    m.vehicles.iter().filter(of).map(|v| v.completions).sum::<u64>() as f64 / m.ios as f64
}

fn blocking() -> Result<(), Failed> {
    let m = watched_until("--depth 1 --cpus non-irq --runtime 1s", Vehicle::Enter, 0.95);
    let irq = &m.host.target.as_ref().expect("a file has a target").interrupts[0];
    let woken = detailed(&m, Vehicle::Enter, &format!("slept, woken by irq {} ", irq.irq));
    assert!(woken >= 0.9, "{woken}: {:?}", m.vehicles);
    Ok(())
}

fn peek_irq_cpu() -> Result<(), Failed> {
    let m = watched_until("--depth 1 --cpus irq --wait peek --runtime 1s", Vehicle::DeviceIrq, 0.95);
    let irq = &m.host.target.as_ref().expect("a file has a target").interrupts[0];
    let named = detailed(&m, Vehicle::DeviceIrq, &format!("{} {}", irq.irq, irq.name));
    assert!(named >= 0.95, "{named}: {:?}", m.vehicles);
    Ok(())
}

fn sqpoll() -> Result<(), Failed> {
    let m = watched("--ring sqpoll --depth 4 --wait peek --runtime 1s");
    assert_share(&m, Vehicle::Sqpoll, 0.99);
    assert!(m.cpu.sqpoll_ns.expect("the thread's CPU time can be read") > 0);
    Ok(())
}

fn force_async() -> Result<(), Failed> {
    let m = watched("--force-async --buffered --depth 4 --runtime 1s");
    assert_share(&m, Vehicle::Iowq, 0.99);
    Ok(())
}

fn nop() -> Result<(), Failed> {
    let m = run("--rw nop --depth 32 --batch 32 --runtime 1s --trace on");
    crate::bench::exact(&m);
    assert_share(&m, Vehicle::Inline, 1.0);
    Ok(())
}

fn cached() -> Result<(), Failed> {
    // The first pass brings the file into the page cache.
    run(&format!("--file {} --rw read --buffered --bs 64k --count 1024 --trace off", crate::bench::file().display()));
    let m = watched("--buffered --depth 8 --batch 8 --runtime 1s");
    assert_share(&m, Vehicle::Inline, 0.99);
    Ok(())
}

fn libaio() -> Result<(), Failed> {
    // Its completions happen in interrupts, of which some can escape the probes (see `interrupts_missed`).
    let m =
        run(&format!("--file {} --engine libaio --depth 4 --runtime 1s --trace on", crate::bench::file().display()));
    let sum: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    assert_eq!(Some(sum), m.probe.completions_seen);
    assert_eq!(Some(m.ios - sum), m.probe.untracked);
    assert!(share(&m, Vehicle::IrqDirect) >= 0.98, "{:?}", m.vehicles);
    Ok(())
}

fn posix_aio() -> Result<(), Failed> {
    let m = watched("--engine posix_aio --depth 4 --runtime 1s");
    assert_share(&m, Vehicle::Thread, 0.99);
    Ok(())
}

fn sync() -> Result<(), Failed> {
    let m = watched("--engine sync --depth 1 --runtime 1s");
    assert_share(&m, Vehicle::Inline, 1.0);
    Ok(())
}

fn reaper() -> Result<(), Failed> {
    for wait in ["peek", "block"] {
        watched(&format!("--depth 8 --reaper thread --wait {wait} --runtime 1s"));
    }
    Ok(())
}

fn deep() -> Result<(), Failed> {
    let rings = ["", "--ring coop_taskrun", "--ring defer_taskrun,single_issuer", "--ring sqpoll", "--ring submit_all"];
    for ring in rings {
        watched(&format!("{ring} --depth 64 --batch 8 --jobs 2 --count 20000 --register files,buffers"));
    }
    Ok(())
}
