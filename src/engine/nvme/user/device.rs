//! A PCI function in our hands: its registers mapped, its configuration written, nobody else's meanwhile; let go when dropped.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::memory::Reach;
use super::registers::Registers;
use super::vfio;
use super::way::Way;
use crate::error::{Error, Result};
use crate::host::pci::{self, Address};

/// The command register of the configuration space (PCI Local Bus Specification), and its bits.
const COMMAND: u64 = 4;
const MEMORY: u16 = 1 << 1;
const BUS_MASTER: u16 = 1 << 2;
const NO_LINE_INTERRUPT: u16 = 1 << 10;

pub struct Device {
    pub registers: Registers,
    pub reach: Arc<Reach>,
    configuration: File,
    /// Where the configuration begins in its file.
    at: u64,
    /// The file of sysfs that says whether the function is switched on; `None`: VFIO sees to that.
    switch: Option<PathBuf>,
}

impl Device {
    /// Switches the function on; it may not reach memory yet. Errors: another program of ours has it, or the kernel refuses.
    pub fn open(address: &Address, way: Way) -> Result<Self> {
        let cannot = |e: io::Error| {
            Error::machine(format!("cannot open the drive {address}"), "see `iotrail check` and the kernel's log")
                .because(e)
        };
        match way {
            Way::Physical => {
                let folder = pci::folder(address);
                let open =
                    |name: &str| OpenOptions::new().read(true).write(true).open(folder.join(name)).map_err(cannot);
                let configuration = open("config")?;
                lock(&configuration).map_err(|e| match e.kind() {
                    io::ErrorKind::WouldBlock => Error::machine(
                        format!("{address} is driven by another process"),
                        "wait until that has ended, or choose another drive",
                    ),
                    _ => cannot(e),
                })?;
                // A run that was killed may have left it on.
                let switch = folder.join("enable");
                if fs::read_to_string(&switch).map_err(cannot)?.trim() == "0" {
                    fs::write(&switch, "1").map_err(cannot)?;
                }
                let off = SwitchOff(Some(switch));
                let registers = open("resource0")?;
                let bytes = registers.metadata().map_err(cannot)?.len();
                let registers = Registers::map(&registers, 0, bytes).map_err(cannot)?;
                Self::of(registers, Reach::Physical, configuration, 0, off).map_err(cannot)
            }
            Way::Vfio { group } => {
                let (container, device) = vfio::open(address, group)?;
                let bar = vfio::region(&device, vfio::BAR0).map_err(cannot)?;
                let configuration = vfio::region(&device, vfio::CONFIGURATION).map_err(cannot)?;
                let registers = Registers::map(&device, bar.offset, bar.bytes).map_err(cannot)?;
                let off = SwitchOff(None);
                Self::of(registers, Reach::Iommu(container), device, configuration.offset, off).map_err(cannot)
            }
        }
    }

    fn of(registers: Registers, reach: Reach, configuration: File, at: u64, mut off: SwitchOff) -> io::Result<Self> {
        let device = Self { registers, reach: Arc::new(reach), configuration, at, switch: off.0.take() };
        device.change(MEMORY | NO_LINE_INTERRUPT, BUS_MASTER)?;
        Ok(device)
    }

    /// Lets the function reach memory, or forbids it.
    pub fn allow_memory(&self, allowed: bool) -> io::Result<()> {
        if allowed { self.change(BUS_MASTER, 0) } else { self.change(0, BUS_MASTER) }
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
        // A device that is gone has neither.
        if self.allow_memory(false).is_ok() {
            drop(SwitchOff(self.switch.take()));
        }
    }
}

/// Switches a function off when dropped.
struct SwitchOff(Option<PathBuf>);

impl Drop for SwitchOff {
    fn drop(&mut self) {
        if let Some(switch) = &self.0
            && let Err(e) = fs::write(switch, "0")
        {
            eprintln!("warning: {} could not be set back to 0: {e}", switch.display());
        }
    }
}

/// For this process alone, until the file is closed.
fn lock(file: &File) -> io::Result<()> {
    // SAFETY: a live descriptor.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
