//! Drives an NVMe drive without the kernel: iotrail's own polling driver. An I/O causes no system call and no
//! interrupt.
//!
//! The minimum that is correct: one I/O queue pair per job, PRPs, no interrupts, no scatter-gather lists, no metadata.
//! The drive must be unused: a device bound to the kernel's driver or mounted is rejected.
//!
//! | file | responsible for |
//! |---|---|
//! | `way` | access to a drive: by physical addresses, or by VFIO |
//! | `device`, `vfio` | the PCI function: registers and configuration |
//! | `warden` | cleanup after this process is killed |
//! | `registers` | the controller's registers and doorbells; a device that vanishes |
//! | `memory` | memory that the drive accesses |
//! | `controller` | reset, admin commands, creating and deleting queues |
//! | `queue`, `prp` | rings with phase tags; pointers to data |
//!
//! **Ownership.** The drive owns a slot's buffer from the doorbell to the completion. Rings, lists and buffers stay
//! pinned until the drive has deleted its queues, or is disabled. However a job ends, dropping its halves deletes its
//! queues; dropping the [`Controller`] disables the drive and revokes its access to memory. After SIGKILL, nothing is
//! dropped: the warden revokes the drive's access to memory, and the next run resets the drive first.

mod controller;
mod device;
mod memory;
mod prp;
mod queue;
mod registers;
mod vfio;
mod warden;
mod way;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use controller::Controller;
use memory::{Pinned, Region};
use prp::{PAGE, Pointers};
use queue::{Completions, Submissions, before_doorbell};
use registers::doorbell_at;

use super::command::{self, Command, Range};
use super::status::Status;
use crate::engine::capabilities::{self, Engine, Nop, TargetKind, no_other_remedy};
use crate::engine::{Completion, Io, Memory, Op, Opened, Opening, Passage, Queued, Reaper, Submitter, Wait};
use iotrail_base::error::Result;
use iotrail_host::pci;
use iotrail_host::refusal::Refusal;

pub static ENGINE: Engine = Engine {
    name: "nvme_user",
    help: Some("An NVMe drive without the kernel"),
    fio: &[],
    target: TargetKind::Drive,
    ring: None,
    nop: Nop::Refused,
    completions: capabilities::Completions::Unseen,
    completes_in_queue: false,
    one_in_flight: None,
    // The driver enables no interrupts, so a thread must poll for completions.
    sleeps: false,
    synchronous_if_buffered: None,
    here: |_| here(),
    remedy: no_other_remedy,
};

fn here() -> std::result::Result<String, Refusal> {
    let answers: Vec<_> = pci::nvme_controllers()
        .into_iter()
        .map(|(address, _)| (way::way(&address, &way::Facts::read(&address)), address))
        .collect();
    match answers.iter().find(|(answer, _)| answer.is_ok()).or(answers.first()) {
        Some((Ok(_), address)) => Ok(format!("a drive without the kernel: {address} is free")),
        Some((Err(e), _)) => Err(Refusal { why: e.what.clone(), restore: e.remedy.clone() }),
        None => {
            Err(Refusal { why: "no NVMe controller is on the PCI bus".into(), restore: "an unused NVMe drive".into() })
        }
    }
}

/// Maximum wait for an I/O, like the kernel driver's timeout.
const PATIENCE: Duration = Duration::from_secs(30);
/// After this time without a completion, check whether the drive is still present.
const DOUBT: Duration = Duration::from_millis(10);
/// Time in which a drive removed from its bus may still complete commands.
const GRACE: Duration = Duration::from_millis(100);

/// Queue entries for `depth` I/Os in flight.
pub fn entries(depth: u32) -> u32 {
    (depth + 1).max(2)
}

/// A job's queue pair, and all memory that it refers to. Deleted from the drive when both halves are dropped.
struct Pair {
    id: u16,
    controller: Arc<Controller>,
    /// Per slot: whether the drive owns its I/O.
    flying: Box<[AtomicBool]>,
    // Released after `drop` has deleted the queues.
    _memory: (Region, Region, Option<Region>, Pinned),
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.controller.remove_queues(self.id);
    }
}

/// The submitting half.
pub struct Submit {
    pair: Arc<Pair>,
    submissions: Submissions,
    doorbell: usize,
    /// Pointers to each slot's buffer.
    pointers: Vec<Pointers>,
    memory: Memory,
    queued: u32,
}

/// The reaping half.
pub struct Reap {
    pair: Arc<Pair>,
    completions: Completions,
    doorbell: usize,
    block_bytes: i32,
    /// When polling began to find no completion although some were awaited.
    quiet_since: Option<Instant>,
    gone_since: Option<Instant>,
}

/// Creates a queue pair for the job.
pub fn open(at: &Opening) -> Result<Opened<Submit, Reap>> {
    let Some(Passage::Own(controller)) = at.passage else { return Err(at.no_target()) };
    let memory = at.job.memory;
    let reach = &controller.device.reach;
    let buffers = reach.pin(memory.base, memory.stride * memory.slots as usize)?;
    let (pointers, lists) = pointers(controller, &memory, &buffers)?;
    let entries = entries(memory.slots);
    let of_submissions = Region::contiguous(reach, entries as usize * size_of::<Command>())?;
    let of_completions = Region::contiguous(reach, entries as usize * size_of::<command::Completed>())?;
    // SAFETY: zeroed memory for this many entries, which the pair keeps until the drive has deleted the queue.
    let (submissions, completions) = unsafe {
        (
            Submissions::new(of_submissions.start().cast(), entries),
            Completions::new(of_completions.start().cast(), entries),
        )
    };
    let id = controller.make_queues(entries, of_submissions.addresses()[0], of_completions.addresses()[0])?;
    let stride = controller.capabilities.stride();
    let pair = Arc::new(Pair {
        id,
        controller: Arc::clone(controller),
        flying: (0..memory.slots).map(|_| AtomicBool::new(false)).collect(),
        _memory: (of_submissions, of_completions, lists, buffers),
    });
    let submit = Submit {
        pair: Arc::clone(&pair),
        submissions,
        doorbell: doorbell_at(id, false, stride),
        pointers,
        memory,
        queued: 0,
    };
    let reap = Reap {
        pair,
        completions,
        doorbell: doorbell_at(id, true, stride),
        block_bytes: memory.block_bytes as i32,
        quiet_since: None,
        gone_since: None,
    };
    Ok(Opened::ringless(submit, reap))
}

/// The pointers to each slot's buffer, which never change, and the lists that some of them need.
fn pointers(controller: &Controller, memory: &Memory, buffers: &Pinned) -> Result<(Vec<Pointers>, Option<Region>)> {
    let pages = (memory.block_bytes as usize).div_ceil(PAGE);
    let each = prp::lists_needed(pages);
    let slots = memory.slots as usize;
    let lists = if each > 0 { Some(Region::pages(&controller.device.reach, each * slots)?) } else { None };
    let mut filled = Vec::new();
    let pointers = (0..slots)
        .map(|slot| {
            let first = slot * (memory.stride / PAGE);
            let of_lists = lists.as_ref().map_or(&[][..], |l| &l.addresses()[slot * each..][..each]);
            prp::point(&buffers.pages[first..first + pages], of_lists, &mut filled)
        })
        .collect();
    if let Some(lists) = &lists {
        // SAFETY: a region with as many pages as were filled, which the drive does not use yet.
        unsafe { std::ptr::copy_nonoverlapping(filled.as_ptr(), lists.start().cast().as_ptr(), filled.len()) };
    }
    Ok((pointers, lists))
}

impl Submitter for Submit {
    #[inline]
    fn queue(&mut self, io: &Io) -> Queued {
        let opcode = match io.op {
            Op::Read => command::io::READ,
            Op::Write => command::io::WRITE,
            Op::Nop => return Queued::Completed(-libc::EOPNOTSUPP),
        };
        let namespace = &self.pair.controller.namespace;
        let Pointers { prp1, prp2 } = self.pointers[io.slot as usize];
        let Range { cdw10, cdw11, cdw12 } = Range::new(io.offset, self.memory.block_bytes, namespace.block_shift);
        // Relaxed: the reaping half learns of the slot from the drive, or from a caller that synchronises both halves.
        self.pair.flying[io.slot as usize].store(true, Ordering::Relaxed);
        self.submissions.push(Command {
            opcode,
            // `resolve` allows fewer slots than command IDs.
            id: io.slot as u16,
            nsid: namespace.id,
            prp1,
            prp2,
            cdw10,
            cdw11,
            cdw12,
            ..Command::default()
        });
        self.queued += 1;
        Queued::Queued
    }

    #[inline]
    fn submit(&mut self) -> io::Result<()> {
        if self.queued > 0 {
            before_doorbell();
            self.pair.controller.device.registers.ring(self.doorbell, self.submissions.tail());
            self.queued = 0;
        }
        Ok(())
    }

    fn pending(&self) -> u32 {
        self.queued
    }

    fn syscalls(&self) -> Option<u64> {
        Some(0)
    }
}

impl Reap {
    /// Appends completed I/Os to `out`.
    #[inline]
    fn take(&mut self, out: &mut Vec<Completion>) -> io::Result<u32> {
        let mut count = 0;
        while out.len() < out.capacity()
            && let Some(done) = self.completions.take()
        {
            let slot = u32::from(done.id);
            let ours = self.pair.flying.get(slot as usize).is_some_and(|f| f.swap(false, Ordering::Relaxed));
            if !ours {
                return Err(io::Error::other(format!("the drive completed a command ({slot}) that was not submitted")));
            }
            let result = done.failed().map_or(self.block_bytes, Status::result);
            out.push(Completion { slot, result });
            count += 1;
        }
        Ok(count)
    }

    /// Fails the I/Os of a drive that has vanished.
    fn give_up(&mut self, out: &mut Vec<Completion>) -> u32 {
        let mut count = 0;
        for (slot, flying) in self.pair.flying.iter().enumerate() {
            if out.len() < out.capacity() && flying.swap(false, Ordering::Relaxed) {
                out.push(Completion { slot: slot as u32, result: -libc::ENODEV });
                count += 1;
            }
        }
        count
    }

    /// Called occasionally while no completions arrive, to check whether the drive is still present. `Ok(true)`: it has
    /// vanished and will complete nothing more.
    #[cold]
    fn doubt(&mut self) -> io::Result<bool> {
        let now = Instant::now();
        let quiet = now - *self.quiet_since.get_or_insert(now);
        if quiet < DOUBT && self.gone_since.is_none() {
            return Ok(false);
        }
        let state = self.pair.controller.device.registers.state();
        if state.gone() || self.gone_since.is_some() {
            return Ok(now - *self.gone_since.get_or_insert(now) > GRACE);
        }
        if state.fatal() {
            return Err(io::Error::other("the controller reports a fatal error"));
        }
        if quiet > PATIENCE {
            return Err(io::Error::other(format!("the drive completed no command for {} s", PATIENCE.as_secs())));
        }
        Ok(false)
    }
}

impl Reaper for Reap {
    #[inline]
    fn poll(&mut self, min: u32, _: Wait, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()> {
        let device = &self.pair.controller.device;
        if device.is_taken() && self.gone_since.is_none() {
            // The drive may still be running and has to stop: without an IOMMU, only the drive itself can stop its
            // memory accesses.
            device.registers.disable();
            self.gone_since = Some(Instant::now());
        }
        let (mut found, mut looks) = (self.take(out)?, 0u32);
        while found < min {
            std::hint::spin_loop();
            let more = self.take(out)?;
            found += more;
            if more > 0 {
                self.quiet_since = None;
            }
            looks = looks.wrapping_add(1);
            // Reading the time in every iteration would slow down polling.
            if looks.is_multiple_of(8) && found < min {
                if deadline.is_some_and(|d| Instant::now() >= d) {
                    break;
                }
                if looks.is_multiple_of(256) && self.doubt()? {
                    found += self.give_up(out);
                }
            }
        }
        if found > 0 {
            self.quiet_since = None;
        }
        Ok(())
    }

    #[inline]
    fn clear(&mut self) {
        self.pair.controller.device.registers.ring(self.doorbell, self.completions.head());
    }

    fn syscalls(&self) -> Option<u64> {
        Some(0)
    }
}
