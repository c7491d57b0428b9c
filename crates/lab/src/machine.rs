//! The virtual machine: QEMU's command line, process and exit.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::acceleration::Acceleration;
use super::arch::Arch;
use super::drive::{Drive, escaped};
use super::guest::{PORTS, Ports};
use super::tools::Program;
use iotrail_base::error::{Error, Result};

/// Configuration of the machine.
#[derive(Debug)]
pub struct Parts<'a> {
    pub qemu: &'a Program,
    pub arch: Arch,
    pub acceleration: Acceleration,
    pub cpus: u32,
    /// CPUs in different sockets share no cache.
    pub sockets: u32,
    pub memory_bytes: u64,
    pub drives: &'a [Drive],
    pub kernel: &'a Path,
    /// Directory of files that the guest sees.
    pub root: &'a Path,
    /// Kernel module directory, if not below `root`.
    pub modules: Option<&'a Path>,
    /// Additional kernel parameters.
    pub append: &'a str,
    /// Directory of the run, with the initramfs, the console, the drives' files and [`SHARED`].
    pub folder: &'a Path,
}

/// File name in the run's directory.
pub const INITRAMFS: &str = "initramfs";
pub const CONSOLE: &str = "console";
/// Directory that the guest can write to.
pub const SHARED: &str = "shared";

impl Parts<'_> {
    /// `descriptors`: those of the ports, in order.
    fn options(&self, descriptors: [i32; 4]) -> Vec<OsString> {
        let (accelerator, cpu) = match self.acceleration {
            Acceleration::Kvm => ("kvm", "host"),
            Acceleration::Emulation => ("tcg,thread=multi", self.arch.emulated()),
        };
        let cores = self.cpus / self.sockets;
        let at = |name: &str| self.folder.join(name);
        let share = |path: &Path, tag: &str, how: &str| {
            let path = escaped(&path.display().to_string());
            format!("local,path={path},mount_tag={tag},security_model=none,multidevs=remap{how}")
        };
        let mut options: Vec<OsString> = Vec::new();
        options.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
        let mut option = |name: &str, value: OsString| options.extend([name.into(), value]);
        option("-accel", accelerator.into());
        option("-machine", self.arch.machine().into());
        option("-cpu", cpu.into());
        option("-smp", format!("{},sockets={},cores={cores},threads=1", self.cpus, self.sockets).into());
        option("-m", format!("{}k", self.memory_bytes.div_ceil(1024)).into());
        option("-display", "none".into());
        option("-monitor", "none".into());
        option("-nic", "none".into());
        option("-serial", format!("file:{}", escaped(&at(CONSOLE).display().to_string())).into());
        option("-kernel", self.kernel.into());
        option("-initrd", at(INITRAMFS).into());
        option("-append", self.parameters().into());
        option("-virtfs", share(self.root, "hostroot", ",readonly=on").into());
        option("-virtfs", share(&at(SHARED), "labout", "").into());
        if let Some(modules) = self.modules {
            option("-virtfs", share(modules, "labmodules", ",readonly=on").into());
        }
        option("-device", "virtio-serial-pci".into());
        for (i, (name, fd)) in PORTS.iter().zip(descriptors).enumerate() {
            option("-chardev", format!("socket,id=port-{i},fd={fd}").into());
            option("-device", format!("virtserialport,chardev=port-{i},name={name}").into());
        }
        for (number, drive) in self.drives.iter().enumerate() {
            options.extend(drive.options(number, self.folder));
        }
        options
    }

    /// Kernel parameters. A panic ends the machine immediately.
    fn parameters(&self) -> String {
        let mut text = self.arch.parameters().to_owned();
        if let Some(poll) = self.drives.iter().map(|d| d.poll).max().filter(|n| *n > 0) {
            text.push_str(&format!(" nvme.poll_queues={poll}"));
        }
        if !self.append.is_empty() {
            text.push_str(&format!(" {}", self.append));
        }
        text
    }

    /// Starts the machine. The drives' files must exist.
    pub fn start(&self) -> Result<Machine> {
        let fail = |e: io::Error| {
            Error::machine("cannot start the virtual machine", "check the process and file limits: ulimit -a")
                .because(e)
        };
        let pair = || UnixStream::pair().map_err(fail);
        let ((stdin, a), (stdout, b), (stderr, c), (control, d)) = (pair()?, pair()?, pair()?, pair()?);
        let theirs = [a, b, c, d];
        let numbers = [0, 1, 2, 3].map(|i: usize| theirs[i].as_raw_fd());
        let said = File::create(self.folder.join(SAID)).map_err(fail)?;
        let mut command = Command::new(&self.qemu.words[0]);
        command
            .args(&self.qemu.words[1..])
            .args(self.options(numbers))
            .envs(self.qemu.variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(said.try_clone().map_err(fail)?)
            .stderr(said)
            // iotrail handles Ctrl-C and forwards it to the guest.
            .process_group(0);
        // SAFETY: only system calls between fork and exec.
        unsafe { command.pre_exec(move || prepare(&theirs)) };
        let child = command.spawn().map_err(fail)?;
        Ok(Machine { child, ports: Ports { stdin, stdout, stderr, control } })
    }
}

/// File with QEMU's own messages, in the run's directory.
pub const SAID: &str = "qemu";

/// In the child: makes it die with this process, and keeps its ends of the ports open.
fn prepare(ports: &[UnixStream]) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for port in ports {
        fcntl_setfd(port, FdFlags::empty())?;
    }
    Ok(())
}

/// A running machine. Dropping it ends the machine.
#[derive(Debug)]
pub struct Machine {
    child: Child,
    /// This process's ends of the ports.
    pub ports: Ports<UnixStream>,
}

impl Machine {
    /// Exit status, if it has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        // The state of a child is always available. An error does not mean that it exited.
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // No clean shutdown is needed, because kept data is written through. An error means that it has already
        // exited.
        self.child.kill().unwrap_or(());
        self.child.wait().map(drop).unwrap_or(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(drives: &[Drive], acceleration: Acceleration) -> String {
        of_arch(Arch::Amd64, drives, acceleration, None)
    }

    fn of_arch(arch: Arch, drives: &[Drive], acceleration: Acceleration, modules: Option<&Path>) -> String {
        let qemu = Program { words: vec!["qemu".into()], variables: vec![], from: "a test's" };
        let parts = Parts {
            qemu: &qemu,
            arch,
            acceleration,
            cpus: 4,
            sockets: 2,
            memory_bytes: 2 << 30,
            drives,
            kernel: Path::new("/k/vmlinux"),
            root: Path::new(if modules.is_some() { "/r" } else { "/" }),
            modules,
            append: "debug",
            folder: Path::new("/tmp/a,b"),
        };
        parts.options([5, 6, 7, 8]).iter().map(|o| o.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_qemu_command_line_has_the_requested_options() {
        let drives = ["queues=2,poll=1".parse().unwrap(), "queues=1".parse().unwrap()];
        let all = options(&drives, Acceleration::Emulation);
        for part in [
            "-accel tcg,thread=multi",
            "-smp 4,sockets=2,cores=2,threads=1",
            "-m 2097152k",
            "-kernel /k/vmlinux -initrd /tmp/a,b/initramfs",
            "no_timer_check nvme.poll_queues=1 debug -virtfs",
            "-virtfs local,path=/,mount_tag=hostroot,security_model=none,multidevs=remap,readonly=on",
            "-virtfs local,path=/tmp/a,,b/shared,mount_tag=labout,security_model=none,multidevs=remap",
            "-chardev socket,id=port-3,fd=8 -device virtserialport,chardev=port-3,name=iotrail.control",
            "-device nvme,serial=lab0,drive=drive0,bus=port0,max_ioqpairs=3",
            "-device nvme,serial=lab1,drive=drive1,bus=port1,max_ioqpairs=1",
        ] {
            assert!(all.contains(part), "{part} is not in {all}");
        }
        let kvm = options(&[], Acceleration::Kvm);
        assert!(kvm.contains("-accel kvm") && kvm.contains("-cpu host") && !kvm.contains("nvme"), "{kvm}");
    }

    #[test]
    fn an_arm64_guest_has_its_own_machine_root_and_modules() {
        let all = of_arch(Arch::Arm64, &[], Acceleration::Emulation, Some(Path::new("/k/modules")));
        for part in [
            "-machine virt,gic-version=3 -cpu max,pauth-impdef=on",
            "-append console=ttyAMA0 quiet",
            "-virtfs local,path=/r,mount_tag=hostroot,security_model=none,multidevs=remap,readonly=on",
            "-virtfs local,path=/k/modules,mount_tag=labmodules,security_model=none,multidevs=remap,readonly=on",
        ] {
            assert!(all.contains(part), "{part} is not in {all}");
        }
        assert!(!all.contains("tsc="), "{all}");
    }
}
