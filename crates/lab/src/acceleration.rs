//! Whether the processor runs the guest's instructions, or software does.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use iotrail_base::error::{Error, Result};

/// How the guest's instructions are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceleration {
    /// By the processor.
    Kvm,
    /// By QEMU: what takes how long then means nothing.
    Emulation,
}

impl Acceleration {
    /// KVM where it works: the device opens, and makes a machine.
    pub fn found() -> Self {
        match kvm_works() {
            Ok(()) => Acceleration::Kvm,
            Err(_) => Acceleration::Emulation,
        }
    }

    /// KVM, or why not.
    pub fn kvm() -> Result<Self> {
        kvm_works().map(|()| Acceleration::Kvm).map_err(|e| {
            Error::machine("KVM does not work here", "leave --accel out: the lab then emulates the processor")
                .because(e)
        })
    }
}

/// `_IO(0xae, 0x01)` of linux/kvm.h.
const KVM_CREATE_VM: libc::Ioctl = 0xae01;

fn kvm_works() -> io::Result<()> {
    let kvm = File::options().read(true).write(true).open("/dev/kvm")?;
    // SAFETY: takes a number (the default kind of machine) and gives a new descriptor or -1.
    let machine = unsafe { libc::ioctl(kvm.as_raw_fd(), KVM_CREATE_VM, 0) };
    if machine < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the call has just made for us.
    drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(machine) });
    Ok(())
}
