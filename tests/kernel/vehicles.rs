//! The delivery path of completions, for each configuration in which the kernel's code permits only one.

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::Measurement;
use libtest_mimic::{Failed, Trial};

use crate::bench::{assert_share, detailed, early, exact, file, rule, run, share, until, watched, watched_until};
use crate::ground::is_emulated;
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 16] = [
        ("peek_default_is_delivered_by_kicks", peek_default),
        ("peek_with_coop_taskrun_is_delivered_by_the_timer_tick", peek_coop),
        ("peek_with_taskrun_flag_is_delivered_by_entering_the_kernel", peek_taskrun_flag),
        ("defer_taskrun_is_delivered_by_entering_the_kernel", defer_taskrun),
        ("blocking_waits_are_reported_with_their_waker", blocking),
        ("peek_on_the_interrupt_cpu_is_delivered_by_the_interrupt", peek_irq_cpu),
        ("sqpoll_is_delivered_by_the_sqpoll_thread", sqpoll),
        ("force_async_is_delivered_by_io_wq_workers", force_async),
        ("no_ops_complete_inline", nop),
        ("cached_reads_complete_inline", cached),
        ("libaio_completes_in_interrupt_context", libaio),
        ("posix_aio_completes_in_a_helper_thread", posix_aio),
        ("sync_requests_complete_inline", sync),
        ("counts_stay_exact_with_a_reaper_thread", reaper),
        ("counts_stay_exact_with_depth_and_several_jobs", deep),
        ("counts_stay_exact_while_all_requests_are_traced", followed),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("vehicles::{name}"), test)).collect()
}

fn peek_default() -> Result<(), Failed> {
    until(
        || watched("--depth 1 --cpus non-irq --wait peek --runtime 2s"),
        |m| {
            rule(m, DeliveryPath::ReschedIpi)?;
            // Completions posted by the submitting call need no kick.
            let (kicks, carried) = (m.per_io.kicks.expect("ipi_send_cpu is there"), share(m, DeliveryPath::ReschedIpi));
            let so = (0.9 * carried..=1.1).contains(&kicks);
            so.then_some(()).ok_or(format!("{kicks} kicks per I/O, and {carried} of them carried by one"))
        },
    );
    Ok(())
}

fn peek_coop() -> Result<(), Failed> {
    let tick_ns = 1e9 / f64::from(iotrail_host::clock::tick_hz().expect("the coarse clock has a resolution"));
    let disk = run(&format!("--file {} --depth 1 --cpus non-irq --count 2000 --trace off", file().display()));
    // In that case, an I/O submitted after a tick is ready at the next one.
    let quick = disk.latency_ns.p99.is_some_and(|ns| (ns as f64) < tick_ns / 2.0);
    until(
        || {
            let m = watched("--ring coop_taskrun --depth 1 --cpus non-irq --wait peek --runtime 2s");
            assert!(m.per_io.kicks.expect("ipi_send_cpu is there") < 0.02);
            m
        },
        |m| {
            // No interrupt is sent for them. Interrupts of other programs on that CPU deliver them too, at most one
            // completion each.
            let others = [DeliveryPath::ReschedIpi, DeliveryPath::OtherIrq, DeliveryPath::DeviceIrq]
                .map(|v| share(m, v))
                .iter()
                .sum::<f64>();
            let here = || m.interrupts.iter().filter(|i| i.cpu == m.load.cpus[0]);
            let arrived: u64 = here().filter(|i| i.vector != "LOC").map(|i| i.on_watched).sum();
            let tick = share(m, DeliveryPath::TimerTick);
            if tick < 0.5 * (1.0 - early(m))
                || tick < 0.95 * (1.0 - early(m) - others)
                || others * m.ios.unwrap() as f64 > arrived as f64 + 5.0
            {
                return Err(format!("{others} by {arrived} interrupts for others: {:?}", m.vehicles));
            }
            // If the job has the CPU to itself, this is the kernel's tick rate; otherwise, its own share of the ticks.
            let carried = tick * m.ios.unwrap() as f64;
            let ticks = here().find(|i| i.vector == "LOC").expect("ticks are counted").on_watched;
            let per_tick = carried / ticks as f64;
            // Other timers use the tick's vector, and interrupts of other programs may have left no I/O for the tick.
            let at_least = if quick { 0.8 * tick } else { 0.0 };
            if !(at_least..=1.05).contains(&per_tick) {
                return Err(format!("{carried} I/Os in {ticks} ticks over the job"));
            }
            let expected = m.elapsed_ns as f64 / tick_ns;
            // Other timers use the tick's vector too; those of Linux 7 that end a time slice fire often on an emulated
            // CPU.
            if carried > 1.25 * expected && !is_emulated() {
                return Err(format!("{carried} I/Os in the time of {expected} ticks"));
            }
            Ok(())
        },
    );
    Ok(())
}

fn peek_taskrun_flag() -> Result<(), Failed> {
    let options = "--ring coop_taskrun,taskrun_flag --depth 1 --cpus non-irq --wait peek --runtime 1s";
    watched_until(options, DeliveryPath::Enter);
    Ok(())
}

fn defer_taskrun() -> Result<(), Failed> {
    for wait in ["peek", "block"] {
        let ring = "--ring defer_taskrun,single_issuer";
        let m =
            watched_until(&format!("{ring} --depth 1 --cpus non-irq --wait {wait} --runtime 1s"), DeliveryPath::Enter);
        assert_eq!(m.load.ring.granted, ["defer_taskrun", "single_issuer"]);
    }
    Ok(())
}

/// The target's interrupt lines, formatted like a detail: `36 virtio1-req.0`.
fn lines(m: &Measurement) -> Vec<String> {
    let target = m.host.target.as_ref().expect("a file has a target");
    target.interrupts.iter().map(|i| format!("{} {}", i.irq, i.name)).collect()
}

fn blocking() -> Result<(), Failed> {
    let options = "--depth 1 --cpus non-irq --runtime 1s";
    until(
        || watched(options),
        |m| {
            rule(m, DeliveryPath::Enter)?;
            let slept = detailed(m, DeliveryPath::Enter, "slept");
            let by_disk: f64 =
                lines(m).iter().map(|l| detailed(m, DeliveryPath::Enter, &format!("slept, woken by irq {l} "))).sum();
            let so = slept >= 0.8 * (1.0 - early(m)) && by_disk >= 0.9 * slept;
            so.then_some(()).ok_or(format!("{slept} slept, the disk woke {by_disk}: {:?}", m.vehicles))
        },
    );
    Ok(())
}

fn peek_irq_cpu() -> Result<(), Failed> {
    until(
        || watched("--depth 1 --cpus irq --wait peek --runtime 1s"),
        |m| {
            rule(m, DeliveryPath::DeviceIrq)?;
            let named: f64 = lines(m).iter().map(|l| detailed(m, DeliveryPath::DeviceIrq, l)).sum();
            let so = named >= 0.95 * share(m, DeliveryPath::DeviceIrq);
            so.then_some(()).ok_or(format!("{named} by the disk's: {:?}", m.vehicles))
        },
    );
    Ok(())
}

fn sqpoll() -> Result<(), Failed> {
    let m = watched("--ring sqpoll --depth 4 --wait peek --runtime 1s");
    assert_share(&m, DeliveryPath::Sqpoll, 0.99);
    assert!(m.cpu.sqpoll_ns.expect("the thread's CPU time can be read") > 0);
    Ok(())
}

fn force_async() -> Result<(), Failed> {
    let m = watched("--force-async --buffered --depth 4 --runtime 1s");
    assert_share(&m, DeliveryPath::Iowq, 0.99);
    Ok(())
}

fn nop() -> Result<(), Failed> {
    let m = run("--rw nop --depth 32 --batch 32 --runtime 1s --trace on");
    exact(&m);
    assert_share(&m, DeliveryPath::Inline, 1.0);
    Ok(())
}

fn cached() -> Result<(), Failed> {
    // The first pass brings the file into the page cache.
    run(&format!("--file {} --rw read --buffered --bs 64k --count 1024 --trace off", file().display()));
    let m = watched("--buffered --depth 8 --batch 8 --runtime 1s");
    assert_share(&m, DeliveryPath::Inline, 0.99);
    Ok(())
}

fn libaio() -> Result<(), Failed> {
    until(
        || {
            let m = run(&format!("--file {} --engine libaio --depth 4 --runtime 1s --trace on", file().display()));
            let sum: u64 = m.vehicles.iter().map(|v| v.completions).sum();
            assert_eq!(Some(sum), m.probe.completions_seen);
            assert_eq!(Some(m.ios.unwrap() - sum), m.probe.untracked);
            m
        },
        |m| {
            // The submitter posts I/Os that the device completes before io_submit returns, because it drops the last
            // reference.
            let (interrupt, inline) = (share(m, DeliveryPath::IrqDirect), share(m, DeliveryPath::Inline));
            let of_disk: f64 =
                lines(m).iter().map(|l| detailed(m, DeliveryPath::IrqDirect, &format!("irq {l} "))).sum();
            // Some interrupts, with their completions, escape the probes (see `interrupts_missed`).
            let so = interrupt + inline >= 0.99 && interrupt > 0.0 && (interrupt - of_disk).abs() < 1e-9;
            so.then_some(()).ok_or(format!("{interrupt}, {of_disk} of the disk, {inline} inline: {:?}", m.vehicles))
        },
    );
    Ok(())
}

fn posix_aio() -> Result<(), Failed> {
    let m = watched("--engine posix_aio --depth 4 --runtime 1s");
    assert_share(&m, DeliveryPath::Thread, 0.99);
    Ok(())
}

fn sync() -> Result<(), Failed> {
    let m = watched("--engine sync --depth 1 --runtime 1s");
    assert_share(&m, DeliveryPath::Inline, 1.0);
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

/// With PREEMPT_RT, or with a boot parameter.
fn interrupts_are_threads() -> bool {
    let asked = std::fs::read_to_string("/proc/cmdline").is_ok_and(|line| line.contains("threadirqs"));
    asked || rustix::system::uname().version().to_string_lossy().contains("PREEMPT_RT")
}

fn followed() -> Result<(), Failed> {
    let of_disk = [
        "--depth 4 --cpus non-irq --runtime 1s --profile",
        "--depth 16 --batch 4 --jobs 2 --ring coop_taskrun --runtime 1s",
        "--depth 8 --reaper thread --runtime 1s",
        "--depth 4 --ring sqpoll --wait peek --runtime 1s",
        "--depth 4 --force-async --count 5000",
    ];
    let of_nothing = "--rw nop --depth 32 --batch 32 --count 50000 --trace on --follow 1";
    let all = of_disk.iter().map(|options| watched(&format!("{options} --follow 1"))).chain([run(of_nothing)]);
    for m in all {
        exact(&m);
        let f = m.followed.as_ref().expect("requests are followed");
        assert_eq!(f.completions + f.no_room + f.ring_buffer_full, m.ios.unwrap(), "{f:?}");
        assert_eq!((f.one_in, f.unfinished, f.no_completion), (1, 0, 0));
        let delays: u64 = m.vehicles.iter().filter_map(|v| v.delay_ns.as_ref()?.count).sum();
        assert!(delays >= f.with_stages && delays <= f.completions, "{delays} of {f:?}");
        if let Some(stages) = &m.stages {
            assert_eq!(stages.delivery_delay_ns.count, f.with_stages);
            let latency = m.latency_ns.mean.expect("I/Os were measured");
            assert!(stages.total_ns < 1.02 * latency, "{} is a part of {latency}", stages.total_ns);
        }
        let asked = if m.load.force_async { m.ios } else { Some(0) };
        assert_eq!(m.punts.map(|p| p.asked), asked);
        assert_eq!(m.order.as_ref().map(|o| o.completions), Some(f.completions));
        let timed = m.interrupts.iter().filter(|i| i.spent_ns.is_some_and(|ns| ns > 0)).count();
        let sampled = m.cpu_samples.is_some() && !interrupts_are_threads();
        assert_eq!(timed > 0, sampled, "interrupts are timed where the CPU is sampled, and no thread does their work");
    }
    // Interfaces other than io_uring cannot be traced end to end.
    let m = watched("--engine sync --depth 1 --count 100 --follow 1");
    assert!(m.followed.is_none() && m.warnings.iter().any(|w| w.code == "not_followed"));
    Ok(())
}
