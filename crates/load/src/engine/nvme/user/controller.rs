//! The controller: reset, enable, identify, queue creation; always disabled at the end.

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::device::Device;
use super::memory::{Reach, Region};
use super::prp::PAGE;
use super::queue::{Completions, Submissions, before_doorbell};
use super::registers::{Capabilities, doorbell_at};
use super::way::{Facts, way};
use crate::engine::nvme::command::{Command, admin, io as io_command};
use crate::engine::nvme::identify::{self, Namespace};
use crate::engine::nvme::status::Status;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::plain::say;
use iotrail_host::pci::Address;

/// Entries per admin queue.
const ADMIN_ENTRIES: u32 = 32;
/// Maximum wait for an admin command or a flush, like the kernel driver's timeout.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum wait for a drive to save its data before it is disabled.
const SHUTDOWN: Duration = Duration::from_secs(5);
const NUMBER_OF_QUEUES: u32 = 0x07;

/// Why one of the driver's own commands failed.
#[derive(Debug)]
pub enum Failure {
    Status(Status),
    Gone,
    TimedOut,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Status(status) => status.fmt(f),
            Failure::Gone => f.write_str("the device was removed"),
            Failure::TimedOut => write!(f, "no response within {} s", PATIENCE.as_secs()),
        }
    }
}

impl std::error::Error for Failure {}

/// An enabled drive with the requested number of I/O queues.
pub struct Controller {
    address: Address,
    pub device: Device,
    pub capabilities: Capabilities,
    pub namespace: Namespace,
    pub limits: identify::Controller,
    admin: Mutex<Pair>,
    /// Pages for Identify's results.
    answer: Mutex<Region>,
    /// Number of the next I/O queue pair.
    next_queue: AtomicU16,
}

/// A queue pair that carries one command at a time.
struct Pair {
    id: u16,
    submissions: Submissions,
    completions: Completions,
    next: u16,
    // Memory of the rings.
    _memory: [Region; 2],
}

impl Pair {
    fn new(id: u16, entries: u32, reach: &std::sync::Arc<Reach>) -> Result<Self> {
        let memory = [
            Region::contiguous(reach, entries as usize * size_of::<Command>())?,
            Region::contiguous(reach, entries as usize * 16)?,
        ];
        // SAFETY: zeroed memory for this many entries, kept as long as the rings.
        let (submissions, completions) = unsafe {
            (
                Submissions::new(memory[0].start().cast(), entries),
                super::queue::Completions::new(memory[1].start().cast(), entries),
            )
        };
        Ok(Self { id, submissions, completions, next: 0, _memory: memory })
    }

    fn addresses(&self) -> (u64, u64) {
        (self._memory[0].addresses()[0], self._memory[1].addresses()[0])
    }

    /// Runs a command to completion.
    fn run(&mut self, device: &Device, stride: usize, mut command: Command) -> std::result::Result<u32, Failure> {
        command.id = self.next;
        self.next = self.next.wrapping_add(1);
        self.submissions.push(command);
        before_doorbell();
        device.registers.ring(doorbell_at(self.id, false, stride), self.submissions.tail());
        let began = Instant::now();
        loop {
            while let Some(done) = self.completions.take() {
                device.registers.ring(doorbell_at(self.id, true, stride), self.completions.head());
                // A command that timed out earlier may still complete.
                if done.id == command.id {
                    return done.failed().map_or(Ok(done.result), |status| Err(Failure::Status(status)));
                }
            }
            if device.registers.state().gone() || device.is_taken() {
                return Err(Failure::Gone);
            }
            if began.elapsed() > PATIENCE {
                return Err(Failure::TimedOut);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Controller {
    /// Takes control of the drive at `address` and prepares it for `queues` queue pairs with `entries` entries.
    /// `wanted`: the namespace's number; `None` for the first.
    pub fn open(address: &Address, wanted: Option<u32>, queues: u32, entries: u32) -> Result<Self> {
        let how = way(address, &Facts::read(address))?;
        let device = Device::open(address, how)?;
        let capabilities = device.registers.capabilities();
        if device.registers.state().gone() {
            return Err(trouble(address, "does not respond", io::Error::other("its registers read as all ones")));
        }
        if !capabilities.nvm() || capabilities.least_page_shift() > 12 {
            let what = if capabilities.nvm() { "pages of 4 KiB" } else { "the NVM command set" };
            return Err(Error::machine(format!("the drive {address} does not have {what}"), "choose another drive"));
        }
        if entries > capabilities.queue_entries() {
            return Err(Error::input(
                format!("the queues of drive {address} have at most {} entries", capabilities.queue_entries()),
                format!("use a --depth of at most {}", capabilities.queue_entries() - 1),
            ));
        }
        // First of all: commands left by a killed run must no longer access memory.
        device.registers.disable();
        until(&device, capabilities, |s| !s.ready()).map_err(|e| trouble(address, "cannot be reset", e))?;
        let admin = Pair::new(0, ADMIN_ENTRIES, &device.reach)?;
        let answer = Region::pages(&device.reach, 1)?;
        let (submissions, completions) = admin.addresses();
        device.registers.mask_interrupts();
        device.registers.set_admin_queues(ADMIN_ENTRIES, submissions, completions);
        device.let_at_memory().map_err(|e| trouble(address, "cannot be granted access to memory", e))?;
        device.registers.enable();
        let mut controller = Self {
            address: address.clone(),
            device,
            capabilities,
            namespace: Namespace { id: 0, blocks: 0, block_shift: 9, metadata_bytes: 0 },
            limits: identify::Controller { mdts: 0, volatile_cache: false },
            admin: Mutex::new(admin),
            answer: Mutex::new(answer),
            next_queue: AtomicU16::new(1),
        };
        until(&controller.device, capabilities, |s| s.ready())
            .map_err(|e| trouble(address, "does not become ready", e))?;
        controller.ask(wanted)?;
        controller.reserve_queues(queues)?;
        Ok(controller)
    }

    /// Reads the drive's Identify data.
    fn ask(&mut self, wanted: Option<u32>) -> Result<()> {
        let page = self.identify(0, identify::CONTROLLER)?;
        if !identify::Controller::entries_fit(&page) {
            return Err(Error::machine(
                format!("the drive {} requires non-standard NVMe queue entry sizes", self.address),
                "choose another drive",
            ));
        }
        self.limits = identify::Controller::parse(&page);
        let there = identify::namespaces(&self.identify(0, identify::NAMESPACES)?);
        let listed = || there.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let id = match (wanted, there.first()) {
            (_, None) => {
                return Err(Error::machine(
                    format!("the drive {} has no namespace", self.address),
                    "create one: nvme create-ns",
                ));
            }
            (Some(id), _) if !there.contains(&id) => {
                return Err(Error::input(
                    format!("the drive {} has no namespace {id}", self.address),
                    format!("it has {}: specify it with --file {}/N", listed(), self.address),
                ));
            }
            (Some(id), _) => id,
            (None, Some(&first)) => first,
        };
        let page = self.identify(id, identify::NAMESPACE)?;
        self.namespace = Namespace::parse(id, &page).or_machine(
            format_args!("the drive {} reports no format for namespace {id}", self.address),
            "choose another one",
        )?;
        Ok(())
    }

    fn identify(&self, nsid: u32, what: u32) -> Result<[u8; identify::PAGE]> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let command =
            Command { opcode: admin::IDENTIFY, nsid, prp1: answer.addresses()[0], cdw10: what, ..Command::default() };
        self.run(command).map_err(|e| trouble(&self.address, "cannot be identified", e))?;
        const { assert!(identify::PAGE == PAGE) };
        let page: NonNull<[u8; PAGE]> = answer.start().cast();
        // SAFETY: an owned page that the drive has written and does not write again.
        Ok(unsafe { page.read_volatile() })
    }

    fn reserve_queues(&self, queues: u32) -> Result<()> {
        let refused = |e: Failure| trouble(&self.address, "provides no I/O queues", e);
        let asked = (queues - 1) << 16 | (queues - 1);
        let command =
            Command { opcode: admin::SET_FEATURES, cdw10: NUMBER_OF_QUEUES, cdw11: asked, ..Command::default() };
        let (submissions, completions) = identify::queues_granted(self.run(command).map_err(refused)?);
        let granted = submissions.min(completions);
        let last = u16::try_from(queues).unwrap_or(u16::MAX);
        if granted < queues || !self.device.registers.has_doorbells(last, self.capabilities.stride()) {
            return Err(Error::machine(
                format!("the drive {} provides only {granted} of the {queues} I/O queue pairs needed", self.address),
                format!("use --jobs {granted} or fewer"),
            ));
        }
        Ok(())
    }

    fn run(&self, command: Command) -> std::result::Result<u32, Failure> {
        let mut admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        admin.run(&self.device, self.capabilities.stride(), command)
    }

    /// Creates an I/O queue pair with `entries` entries at these addresses, without interrupts. Returns its number.
    pub fn make_queues(&self, entries: u32, submissions: u64, completions: u64) -> Result<u16> {
        let id = self.next_queue.fetch_add(1, Ordering::Relaxed);
        let refused = |e: Failure| trouble(&self.address, &format!("rejects a queue of {entries} entries"), e);
        let size = (entries - 1) << 16 | u32::from(id);
        const IN_ONE_PIECE: u32 = 1;
        let of_completions = Command {
            opcode: admin::CREATE_CQ,
            prp1: completions,
            cdw10: size,
            cdw11: IN_ONE_PIECE,
            ..Command::default()
        };
        self.run(of_completions).map_err(refused)?;
        let of_submissions = Command {
            opcode: admin::CREATE_SQ,
            prp1: submissions,
            cdw10: size,
            cdw11: u32::from(id) << 16 | IN_ONE_PIECE,
            ..Command::default()
        };
        if let Err(e) = self.run(of_submissions) {
            self.run(delete(admin::DELETE_CQ, id)).map_err(refused)?;
            return Err(refused(e));
        }
        Ok(id)
    }

    /// Deletes an I/O queue pair. Afterwards, the drive accesses neither its memory nor that of its commands. A drive
    /// that does not respond is disabled.
    pub fn remove_queues(&self, id: u16) {
        let removed = self.run(delete(admin::DELETE_SQ, id)).and_then(|_| self.run(delete(admin::DELETE_CQ, id)));
        match removed {
            Ok(_) | Err(Failure::Gone) => {}
            Err(_) => self.stop(),
        }
    }

    /// Flushes the drive's volatile cache.
    pub fn flush(&self) -> Result<()> {
        if !self.limits.volatile_cache {
            return Ok(());
        }
        let mut pair = Pair::new(0, 2, &self.device.reach)?;
        let (submissions, completions) = pair.addresses();
        // The jobs' queue pairs are deleted, so their numbers are free.
        self.next_queue.store(1, Ordering::Relaxed);
        pair.id = self.make_queues(2, submissions, completions)?;
        let command = Command { opcode: io_command::FLUSH, nsid: self.namespace.id, ..Command::default() };
        let flushed = pair.run(&self.device, self.capabilities.stride(), command);
        self.remove_queues(pair.id);
        flushed.map(drop).map_err(|e| trouble(&self.address, "cannot be flushed", e))
    }

    /// Stops all activity of the drive, and revokes its access to memory.
    fn stop(&self) {
        let registers = &self.device.registers;
        if !registers.state().gone() {
            registers.disable();
            if let Err(e) = until(&self.device, self.capabilities, |s| !s.ready()) {
                say(&format!("warning: the drive {} does not stop: {e}", self.address));
            }
        }
        self.device.keep_from_memory();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let registers = &self.device.registers;
        let state = registers.state();
        if state.ready() && !state.gone() && registers.enabled() {
            registers.shut_down();
            let began = Instant::now();
            while !registers.state().shut_down() && began.elapsed() < SHUTDOWN {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.stop();
    }
}

fn delete(opcode: u8, id: u16) -> Command {
    Command { opcode, cdw10: id.into(), ..Command::default() }
}

fn trouble(address: &Address, what: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::machine(format!("the drive {address} {what}"), "check the kernel log, or choose another drive")
        .because(cause)
}

/// Waits until the controller reaches a state, at most for the time that it specifies.
fn until(device: &Device, capabilities: Capabilities, is: impl Fn(super::registers::State) -> bool) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let state = device.registers.state();
        if state.gone() {
            return Err(io::Error::other("the device was removed"));
        }
        if is(state) {
            return Ok(());
        }
        if state.fatal() && device.registers.enabled() {
            return Err(io::Error::other("the controller reports a fatal error"));
        }
        if began.elapsed() > capabilities.patience() + Duration::from_secs(1) {
            return Err(io::Error::other(format!(
                "not within the {} ms that it reports as its limit",
                capabilities.patience().as_millis()
            )));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
