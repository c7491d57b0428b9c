//! Whether the guest runs on the CPU (KVM) or is emulated.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use super::cache::{Cache, cannot_write};
use iotrail_base::error::{OrFail, Result};
use iotrail_host::{cpu, kernel};

/// How guest instructions are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceleration {
    /// By the CPU.
    Kvm,
    /// By QEMU; times are not meaningful.
    Emulation,
}

impl Acceleration {
    /// KVM if it works, which means that the device opens and can create a VM.
    pub fn found() -> Self {
        match kvm_works() {
            Ok(()) => Acceleration::Kvm,
            Err(_) => Acceleration::Emulation,
        }
    }

    /// KVM, or an error with the reason why it does not work.
    pub fn kvm() -> Result<Self> {
        kvm_works()
            .map(|()| Acceleration::Kvm)
            .or_machine("KVM does not work here", "omit --accel; the lab then emulates the processor")
    }
}

/// Remembers a guest kernel that KVM failed to run on this host: a cache file that contains the reason.
pub(crate) struct Failure(PathBuf);

impl Failure {
    /// Another host kernel, CPU or guest kernel may behave differently, so the name contains all three.
    pub(crate) fn of(cache: &Cache, vmlinux: &Path) -> Self {
        let guest = vmlinux.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let parts = [kernel::release(), cpu::model(), guest].map(Option::unwrap_or_default).join("_");
        let name = parts.replace(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c), "-");
        Failure(cache.root().join("kvm-failures").join(name))
    }

    pub(crate) fn reason(&self) -> Option<String> {
        std::fs::read_to_string(&self.0).ok().map(|text| text.trim().to_owned())
    }

    pub(crate) fn remember(&self, reason: &str) -> Result<()> {
        let folder = self.0.parent().unwrap_or(&self.0);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&self.0, format!("{reason}\n")));
        written.map_err(|e| cannot_write(&self.0, e))
    }

    pub(crate) fn forget(&self) -> Result<()> {
        match std::fs::remove_file(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(cannot_write(&self.0, e)),
            _ => Ok(()),
        }
    }
}

/// `_IO(0xae, 0x01)` of linux/kvm.h.
const KVM_CREATE_VM: libc::Ioctl = 0xae01;

fn kvm_works() -> io::Result<()> {
    let kvm = File::options().read(true).write(true).open("/dev/kvm")?;
    // SAFETY: takes an integer (the default machine type) and returns a new descriptor or -1.
    let machine = unsafe { libc::ioctl(kvm.as_raw_fd(), KVM_CREATE_VM, 0) };
    if machine < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just created this descriptor for this process.
    drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(machine) });
    Ok(())
}
