//! `top` next to a load that reports its own counts.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iotrail_schema::measurement::Measurement;
use iotrail_schema::top_record::{SCHEMA, TopRecord};
use libtest_mimic::{Failed, Trial};

use crate::bench::{file, until};
use crate::beside::Beside;
use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("top::completions_per_second_agree_with_the_load", completions),
        trial::test("top::top_exits_with_status_0_when_its_output_pipe_is_closed", reader_goes),
        trial::test("top::two_signals_restore_the_terminal", terminal_is_put_back),
    ]
}

fn completions() -> Result<(), Failed> {
    let attempt = || -> Result<(Measurement, Vec<TopRecord>), Failed> {
        // A steady load without disk I/O, at the same rate in every second.
        let load = Beside::bench(file(), "--depth 4 --rate 4000 --buffered")?;
        let tgid = load.id();
        let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
            .args(["top", "-n", "2", "--json", "--one-in", "1", "-p", &tgid.to_string()])
            .output()?;
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let lines: Vec<TopRecord> =
            String::from_utf8(out.stdout)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        assert_eq!(lines.iter().map(|t| t.interval).collect::<Vec<_>>(), [1, 2]);
        for t in &lines {
            assert_eq!((t.schema.as_str(), t.total.lost, t.rings.len(), t.processes.len()), (SCHEMA, 0, 1, 1));
            assert_eq!((t.rings[0].tgid, t.rings[0].opcodes.len()), (tgid, 1));
            let time = t.processes[0].threads.as_ref().ok_or("its threads")?;
            let sum: u64 = time.rows.iter().map(|row| row.ns).sum();
            assert!(sum.abs_diff(time.wall_ns) <= time.wall_ns / 100 && time.threads > 0, "{time:?}");
        }
        Ok((load.stop()?, lines))
    };
    let (m, lines) = until(
        || attempt().expect("both can be run"),
        |(m, lines)| {
            let near = |what: &str, ours: f64, theirs: f64| {
                let so = (ours - theirs).abs() <= 0.1 * theirs;
                so.then_some(()).ok_or(format!("{what}: {ours} against {theirs}"))
            };
            for t in lines {
                near("all", t.total.rates.completions_per_s, m.iops.unwrap())?;
                near("the ring's", t.rings[0].rates.completions_per_s, m.iops.unwrap())?;
                near("the process's", t.processes[0].rates.completions_per_s, m.iops.unwrap())?;
                near("bytes", t.rings[0].rates.bytes_per_s, m.iops.unwrap() * m.load.bs as f64)?;
                let carried: u64 = t.rings[0].rates.vehicles.iter().map(|v| v.completions).sum();
                near("carried", carried as f64 * 1e9 / t.elapsed_ns as f64, m.iops.unwrap())?;
                near(
                    "followed",
                    t.rings[0].rates.latency_ns.count as f64 * 1e9 / t.elapsed_ns as f64,
                    m.iops.unwrap(),
                )?;
            }
            Ok(())
        },
    );
    assert!(m.ios > Some(0) && lines[1].rings[0].rates.latency_ns.p99.is_some());
    Ok(())
}

fn reader_goes() -> Result<(), Failed> {
    // The shell exits with the tool's status: head exits after the first line.
    let tool = env!("CARGO_BIN_EXE_iotrail");
    let script = format!("{{ {tool} top -i 0.2 --json; echo status $? >&2; }} | head -1");
    let out = Command::new("sh").args(["-c", &script]).output()?;
    assert_eq!(String::from_utf8_lossy(&out.stderr), "status 0\n");
    assert_eq!(String::from_utf8(out.stdout)?.lines().count(), 1);
    Ok(())
}

/// An 80×24 pseudo-terminal: the master and the program's side.
fn terminal() -> (File, OwnedFd) {
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut outer, mut inner) = (-1, -1);
    // SAFETY: two addresses for descriptors and a live size; the other arguments are null. This process then owns both
    // descriptors.
    unsafe {
        let none = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut outer, &mut inner, none, std::ptr::null(), &size), 0);
        (File::from_raw_fd(outer), OwnedFd::from_raw_fd(inner))
    }
}

fn modes(terminal: &OwnedFd) -> libc::tcflag_t {
    // SAFETY: a plain C structure, valid when zero, which the call fills.
    let mut modes: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: an open terminal, and an address for its modes.
    assert_eq!(unsafe { libc::tcgetattr(terminal.as_raw_fd(), &mut modes) }, 0);
    modes.c_lflag
}

fn terminal_is_put_back() -> Result<(), Failed> {
    let (mut outer, inner) = terminal();
    let before = modes(&inner);
    let side = || inner.try_clone().map(Stdio::from);
    let mut top = Command::new(env!("CARGO_BIN_EXE_iotrail"))
        .args(["top", "-i", "0.2"])
        .env("TERM", "xterm")
        .stdin(side()?)
        .stdout(side()?)
        .stderr(side()?)
        .spawn()?;
    let mut shown = vec![];
    let mut look = |until: &[u8]| {
        let began = Instant::now();
        let mut part = [0; 4096];
        while !shown.windows(until.len()).any(|w| w == until) {
            assert!(began.elapsed() < Duration::from_secs(30), "not shown: {}", String::from_utf8_lossy(until));
            let n = outer.read(&mut part).expect("the other side is open here too");
            shown.extend_from_slice(&part[..n]);
        }
    };
    look(b"\x1b[?1049h");
    assert_ne!(modes(&inner), before, "the screen takes every key");
    for _ in 0..2 {
        // SAFETY: a signal to an unreaped child; the call does not access memory.
        assert_eq!(unsafe { libc::kill(top.id() as libc::pid_t, libc::SIGINT) }, 0);
        std::thread::sleep(Duration::from_millis(3));
    }
    assert_eq!(top.wait()?.code(), Some(0), "it ends by itself");
    assert_eq!(modes(&inner), before);
    look(b"\x1b[?1049l");
    Ok(())
}
