//! Guest architecture: its names in Debian, QEMU and the kernel, and its machine type.

use std::fmt;

/// Architectures that the lab can boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// This machine's architecture.
    pub fn host() -> Self {
        if cfg!(target_arch = "aarch64") { Arch::Arm64 } else { Arch::Amd64 }
    }

    /// Debian's name, with which its kernel releases end.
    pub fn debian(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// Architecture of a release; if ambiguous, this machine's.
    pub(super) fn of_release(release: &str) -> Self {
        let named = |arch: &Arch| release.split('-').any(|part| part == arch.debian());
        [Arch::Amd64, Arch::Arm64].into_iter().find(named).unwrap_or(Self::host())
    }

    /// Debian's library directory, and the dynamic loader in it.
    pub(super) fn libraries(self) -> (&'static str, &'static str) {
        match self {
            Arch::Amd64 => ("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
            Arch::Arm64 => ("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
        }
    }

    /// The emulator and its package.
    pub(super) fn qemu(self) -> (&'static str, &'static str) {
        match self {
            Arch::Amd64 => ("qemu-system-x86_64", "qemu-system-x86"),
            Arch::Arm64 => ("qemu-system-aarch64", "qemu-system-arm"),
        }
    }

    pub(super) fn machine(self) -> &'static str {
        match self {
            Arch::Amd64 => "q35",
            Arch::Arm64 => "virt,gic-version=3",
        }
    }

    /// CPU model for emulation. Five-level page tables, and pointer authentication with the architected algorithm,
    /// would cost emulation time without benefit.
    pub(super) fn emulated(self) -> &'static str {
        match self {
            Arch::Amd64 => "max,la57=off",
            Arch::Arm64 => "max,pauth-impdef=on",
        }
    }

    /// Kernel parameters. On x86 the emulated clock is as stable as the host's, and the kernel's timer check would fail
    /// if the host is too busy to tick in time.
    pub(super) fn parameters(self) -> &'static str {
        match self {
            Arch::Amd64 => {
                "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check"
            }
            Arch::Arm64 => "console=ttyAMA0 quiet loglevel=4 panic=-1 mitigations=off nokaslr",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.debian())
    }
}
