//! SQPOLL threads that spin without work, or that fall asleep between requests.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::load::BLOCK;
use crate::ring::{Flag, Ring};
use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "sqpoll_spinning",
        about: "SQPOLL with an idle time of 2 s and a read every 50 ms: its thread spins for nothing",
        finding: Some("sqpoll_spinning"),
        allowed: &["left_lying"],
        count: 40,
        run: sqpoll_spinning,
    },
    Scenario {
        name: "sqpoll_spinning_briefly",
        about: "the same for 150 ms: its thread has ended before anybody looks at it a second time",
        finding: Some("sqpoll_spinning"),
        allowed: &[],
        count: 3,
        run: sqpoll_spinning,
    },
    Scenario {
        name: "sqpoll_napping",
        about: "SQPOLL with an idle time of 1 ms and a read every 25 ms: each one has to wake its thread",
        finding: Some("sqpoll_napping"),
        allowed: &["left_lying"],
        count: 100,
        run: sqpoll_napping,
    },
];

fn sqpoll_spinning(run: &mut Run) -> Result<()> {
    now_and_then(run, 2_000, Duration::from_millis(50))
}

fn sqpoll_napping(run: &mut Run) -> Result<()> {
    now_and_then(run, 1, Duration::from_millis(25))
}

fn now_and_then(run: &mut Run, idle_ms: u32, every: Duration) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.direct()?;
    let mut ring = Ring::open(4, &[Flag::Sqpoll(idle_ms, None)])?;
    run.start()?;
    let before = thread_cpu_ms()?;
    for _ in 0..run.count {
        let read = target.read();
        ring.push(read, BLOCK as u32);
        ring.submit()?;
        std::thread::sleep(every);
        ring.wait(1)?;
    }
    let cpu = thread_cpu_ms()? - before;
    run.finish(ring);
    let wakeups = run.report.rings[0].sq_wakeups;
    run.fact("sqpoll_cpu_ms", cpu);
    run.fact("wakeups", wakeups);
    run.report.all("sqpoll");
    Ok(())
}

/// CPU time of this process's SQPOLL thread. Retries because the thread sets its name only after it has started.
fn thread_cpu_ms() -> Result<u64> {
    for _ in 0..1_000 {
        for task in std::fs::read_dir("/proc/self/task")? {
            let task = task?.path();
            if std::fs::read_to_string(task.join("comm"))?.starts_with("iou-sqp-") {
                // The first field is the time on a CPU in ns.
                let text = std::fs::read_to_string(task.join("schedstat"))?;
                let on_cpu = text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
                return Ok(on_cpu.context("/proc/self/task/*/schedstat")? / 1_000_000);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("no submission-queue thread")
}
