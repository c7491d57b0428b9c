//! A PCI function controlled by this process: registers mapped, configuration written, locked; released on drop.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::memory::Reach;
use super::registers::Registers;
use super::vfio;
use super::warden::{BUS_MASTER, COMMAND, ResetGuard};
use super::way::DriveAccess;
use iotrail_base::error::{Error, Result};
use iotrail_base::plain::say;
use iotrail_host::pci::{self, Address};

/// Bits of the command register (PCI Local Bus Specification).
const MEMORY: u16 = 1 << 1;
const NO_LINE_INTERRUPT: u16 = 1 << 10;

pub struct Device {
    pub registers: Registers,
    pub reach: Arc<Reach>,
    configuration: File,
    /// Offset of the configuration space in its file.
    at: u64,
    // With VFIO, the kernel releases the function.
    _off: Option<SwitchOff>,
    warden: Option<ResetGuard>,
}

impl Device {
    /// Enables the function without access to memory. Fails if another iotrail process uses it, or if the kernel
    /// refuses.
    pub fn open(address: &Address, way: DriveAccess) -> Result<Self> {
        let cannot = |e: io::Error| {
            Error::machine(format!("cannot open the drive {address}"), "see `iotrail check` and the kernel log")
                .because(e)
        };
        match way {
            DriveAccess::Physical => {
                let folder = pci::folder(address);
                let open =
                    |name: &str| OpenOptions::new().read(true).write(true).open(folder.join(name)).map_err(cannot);
                let configuration = open("config")?;
                lock(&configuration).map_err(|e| match e.kind() {
                    io::ErrorKind::WouldBlock => Error::machine(
                        format!("{address} is in use by another process"),
                        "wait until it exits, or choose another drive",
                    ),
                    _ => cannot(e),
                })?;
                // A killed run may have left it enabled.
                let switch = folder.join("enable");
                if fs::read_to_string(&switch).map_err(cannot)?.trim() == "0" {
                    fs::write(&switch, "1").map_err(cannot)?;
                }
                let off = Some(SwitchOff(switch));
                let registers = open("resource0")?;
                let bytes = registers.metadata().map_err(cannot)?.len();
                let registers = Registers::map(&registers, 0, bytes).map_err(cannot)?;
                let warden = Some(ResetGuard::post(&configuration).map_err(cannot)?);
                let device =
                    Self { registers, reach: Arc::new(Reach::Physical), configuration, at: 0, _off: off, warden };
                device.quiet().map_err(cannot)
            }
            DriveAccess::Vfio { group } => {
                let (container, device) = vfio::open(address, group)?;
                let bar = vfio::region(&device, vfio::BAR0).map_err(cannot)?;
                let at = vfio::region(&device, vfio::CONFIGURATION).map_err(cannot)?.offset;
                let registers = Registers::map(&device, bar.offset, bar.bytes).map_err(cannot)?;
                let reach = Arc::new(Reach::Iommu(container));
                let device = Self { registers, reach, configuration: device, at, _off: None, warden: None };
                device.quiet().map_err(cannot)
            }
        }
    }

    /// Keeps the registers accessible, but disables DMA and interrupts.
    fn quiet(self) -> io::Result<Self> {
        self.change(MEMORY | NO_LINE_INTERRUPT, BUS_MASTER)?;
        Ok(self)
    }

    /// Whether the kernel has removed the function from its bus. It may still respond.
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.warden.as_ref().is_some_and(ResetGuard::is_gone)
    }

    pub fn let_at_memory(&self) -> io::Result<()> {
        self.change(BUS_MASTER, 0)
    }

    pub fn keep_from_memory(&self) {
        if let Err(e) = self.change(0, BUS_MASTER)
            && !is_gone(&e)
        {
            say(&format!("warning: cannot revoke a drive's access to memory: {e}"));
        }
    }

    fn change(&self, set: u16, clear: u16) -> io::Result<()> {
        let mut word = [0; 2];
        self.configuration.read_exact_at(&mut word, self.at + COMMAND)?;
        let wanted = (u16::from_le_bytes(word) | set) & !clear;
        self.configuration.write_all_at(&wanted.to_le_bytes(), self.at + COMMAND)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.keep_from_memory();
    }
}

/// Disables a function on drop.
struct SwitchOff(PathBuf);

impl Drop for SwitchOff {
    fn drop(&mut self) {
        if let Err(e) = fs::write(&self.0, "0")
            && !is_gone(&e)
        {
            say(&format!("warning: cannot reset {} to 0: {e}", self.0.display()));
        }
    }
}

/// Whether the function no longer exists.
fn is_gone(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ENOENT | libc::ENXIO))
}

/// Locks the file exclusively until it is closed. After a kill, the warden of that run holds the lock slightly longer.
fn lock(file: &File) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if began.elapsed() <= Duration::from_millis(500) => {}
            Err(e) => return Err(e.into()),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
