//! io_uring-specific options: setup flags, the SQPOLL thread, registration.

use crate::engine::capabilities::Nop;
use crate::engine::io_uring::flags::{self, Flag, Setup};
use crate::options::{LoadOptions, Rw, Wait};
use iotrail_base::error::{Error, Result};

pub fn setup(o: &LoadOptions, needs_file: bool) -> Result<Setup> {
    let refused = |r: flags::Refusal| Error::input(r.what, r.remedy);
    let setup: Setup = o.ring.parse().map_err(refused)?;
    let engine = o.engine.engine();
    if o.rw == Rw::Nop && engine.nop == Nop::Refused {
        return Err(Error::input(
            format!("--rw nop is an io_uring no-op, which --engine {} does not have", o.engine),
            "use --engine io_uring, or --engine null",
        ));
    }
    if engine.ring.is_none() {
        for (given, option) in [
            (!setup.flags.is_empty(), "--ring"),
            (!o.register.trim().is_empty(), "--register"),
            (o.sq_cpu.is_some(), "--sq-cpu"),
            (o.sq_idle.is_some(), "--sq-idle"),
            (o.force_async, "--force-async"),
            (o.min_wait.is_some(), "--min-wait"),
            (o.no_iowait, "--no-iowait"),
        ] {
            if given {
                return Err(Error::input(
                    format!("{option} needs io_uring; --engine {} has no ring", o.engine),
                    "omit it, or use --engine io_uring",
                ));
            }
        }
        return Ok(setup);
    }
    setup.check(o.depth).map_err(refused)?;
    for (given, option) in [(o.sq_cpu.is_some(), "--sq-cpu"), (o.sq_idle.is_some(), "--sq-idle")] {
        if given && !setup.has(Flag::Sqpoll) {
            return Err(Error::input(format!("{option} needs an SQPOLL thread"), "add sqpoll to --ring"));
        }
    }
    if let Some(min_wait) = o.min_wait {
        let us = min_wait.0.as_micros();
        if us == 0 || us > 1_000_000 {
            return Err(Error::input(format!("--min-wait {us} µs is out of range"), "use 1us to 1s"));
        }
        let without = [
            (o.wait == Wait::Peek, "--wait peek"),
            (o.reaper.trim() != "same", "--reaper thread"),
            (setup.has(Flag::Iopoll), "ring flag iopoll"),
            (o.commit.is_of_batch(), "--commit"),
        ];
        if let Some((_, what)) = without.iter().find(|(is, _)| *is) {
            return Err(Error::input(
                format!("--min-wait has no effect with {what}: no wait in the kernel may end with fewer completions"),
                "omit one of them",
            ));
        }
        if o.batch == 1 {
            return Err(Error::input(
                "--min-wait has no effect with --batch 1: each wait is for one completion",
                "use a larger --batch",
            ));
        }
    }
    let without_waits = [(o.wait == Wait::Peek, "--wait peek"), (setup.has(Flag::Iopoll), "ring flag iopoll")];
    let registers_waits = listed(&o.register).any(|w| w == "wait");
    for (given, option) in [(o.no_iowait, "--no-iowait"), (registers_waits, "--register wait")] {
        if given && let Some((_, what)) = without_waits.iter().find(|(is, _)| *is) {
            let what = format!("{option} has no effect with {what}: no wait sleeps in the kernel");
            return Err(Error::input(what, "omit one of them"));
        }
    }
    if setup.has(Flag::Iopoll) && o.buffered && needs_file {
        return Err(Error::input("the kernel rejects ring flag iopoll for buffered I/O", "omit --buffered"));
    }
    if setup.has(Flag::SingleIssuer) && o.reaper.trim() != "same" && listed(&o.register).any(|w| w == "ring") {
        return Err(Error::input(
            "the kernel rejects ring flag single_issuer with --reaper thread and --register ring: only the submitting thread may register",
            "remove ring from --register, or use --reaper same",
        ));
    }
    if setup.has(Flag::DeferTaskrun) && o.reaper.trim() != "same" {
        return Err(Error::input(
            "the kernel rejects ring flag defer_taskrun with --reaper thread: only the submitting thread may wait",
            "omit defer_taskrun, or use --reaper same",
        ));
    }
    Ok(setup)
}

/// The words of a comma-separated list.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|w| !w.is_empty())
}

pub fn register(o: &LoadOptions, needs_file: bool) -> Result<Vec<&str>> {
    let list: Vec<&str> = listed(&o.register).collect();
    for word in &list {
        if !["files", "buffers", "ring", "wait"].contains(word) {
            return Err(Error::input(format!("cannot register '{word}'"), "use files, buffers, ring or wait"));
        }
        if *word == "files" && !needs_file {
            return Err(Error::input("--register files: no-ops use no file", "omit files"));
        }
    }
    if list.contains(&"buffers") && o.depth > 16384 {
        return Err(Error::input(
            format!("--register buffers: the kernel allows at most 16384, one per I/O in flight, not {}", o.depth),
            "use a smaller --depth",
        ));
    }
    Ok(list)
}
