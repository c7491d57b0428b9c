//! Several files with known shares, accessed by descriptor and by index, one of them deleted; from a thread whose name
//! differs from its process's.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use io_uring::{opcode, squeue, types};

use crate::ring::Ring;
use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[Scenario {
    name: "files",
    about: "cached reads of two files, one by its index, writes of one that is deleted, reads of an eventfd",
    finding: None,
    allowed: &["punted", "one_per_enter", "overlapping_buffers"],
    count: 4_000,
    run: files,
}];

/// Requests of this kind in every 20, and bytes per request.
const READS: (u32, usize) = (12, 4096);
const FIXED: (u32, usize) = (4, 1000);
const WRITES: (u32, usize) = (2, 512);
const EVENTS: (u32, usize) = (1, 8);

const FILE_BYTES: usize = 1 << 20;
/// Sets a colour, and appears to start a new line.
pub const NAME: &str = "read\n\x1b[31mme";

/// Index of the registered file.
const INDEX: u32 = 2;

fn files(run: &mut Run) -> Result<()> {
    let folder = run.folder()?;
    let make = |name: &str| -> Result<File> {
        let path = folder.join(name);
        File::create(&path)?.write_all(&vec![7; FILE_BYTES]).context("writing a file to read from")?;
        Ok(OpenOptions::new().read(true).write(true).open(&path)?)
    };
    let (named, fixed, gone) = (make(NAME)?, make("by_index")?, make("deleted")?);
    std::fs::remove_file(folder.join("deleted"))?;
    // SAFETY: no pointers; a new descriptor without another owner.
    let events = unsafe { OwnedFd::from_raw_fd(libc::eventfd(u32::MAX - 1, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE)) };
    let rounds = run.count / 20;
    let ring = std::thread::scope(|scope| -> Result<Ring> {
        let run = &mut *run;
        let named = &named;
        let worker = std::thread::Builder::new().name("one_connection".into());
        let done = worker.spawn_scoped(scope, move || -> Result<Ring> {
            let mut ring = Ring::open(32, &[])?;
            let slots = [-1, -1, fixed.as_raw_fd()];
            ring.uring.submitter().register_files(&slots).context("registering files")?;
            drop(fixed);
            run.start()?;
            let mut memory = vec![0_u8; 4096];
            let memory = memory.as_mut_ptr();
            let read = |fd: i32, bytes: usize| opcode::Read::new(types::Fd(fd), memory, bytes as u32).build();
            let by_index = || opcode::Read::new(types::Fixed(INDEX), memory, FIXED.1 as u32).build();
            let write = || opcode::Write::new(types::Fd(gone.as_raw_fd()), memory, WRITES.1 as u32).build();
            for _ in 0..rounds {
                let mut push = |(n, bytes): (u32, usize), entry: &dyn Fn() -> squeue::Entry| {
                    (0..n).for_each(|_| ring.push(entry(), bytes as u32));
                };
                push(READS, &|| read(named.as_raw_fd(), READS.1));
                push(FIXED, &by_index);
                push(WRITES, &write);
                push(EVENTS, &|| read(events.as_raw_fd(), EVENTS.1));
                push((1, 0), &|| opcode::Nop::new().build());
                ring.enter(20, 20)?;
                ring.wait(20)?;
            }
            run.pause();
            Ok(ring)
        })?;
        done.join().expect("it does not panic")
    })?;
    run.finish(ring);
    let completed = run.report.completions();
    ensure!(completed == u64::from(rounds * 20), "{completed} completions of {rounds} rounds");
    for (name, (n, bytes)) in [("read", READS), ("by_index", FIXED), ("deleted", WRITES), ("eventfd", EVENTS)] {
        run.fact(name, u64::from(n * rounds));
        run.fact(Box::leak(format!("{name}_bytes").into_boxed_str()), u64::from(n * rounds) * bytes as u64);
    }
    run.report.mostly("inline", 0.0);
    Ok(())
}
