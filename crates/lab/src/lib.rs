//! The lab: a virtual machine with a selected kernel and NVMe drives, in which a command sees this machine's files
//! read-only. Returns the command's output, exit status and stored results.
//!
//! | file | responsible for |
//! |---|---|
//! | `cache` | the directory of downloads and generated files |
//! | `sources`, `packages` | Debian's packages without the host's package management |
//! | [`kernel`] | finds available kernels, and prepares one for booting |
//! | [`arch`], [`root`](mod@root) | other architectures, and the files that their guests see |
//! | `tools` | QEMU and busybox, installed or from packages |
//! | `modules`, `initramfs`, `init.sh` | a guest's initramfs |
//! | [`drive`] | `--nvme` |
//! | [`machine`] | QEMU's command line and process |
//! | `order`, `line` | the command for the guest, and messages |
//! | [`guest`] | in the guest: runs the command and forwards its streams |
//! | [`session`] | one machine from start to end: streams, signals, the time limit |
//!
//! Uses `iotrail-base` and `iotrail-host`.

pub mod acceleration;
pub mod arch;
mod cache;
pub mod drive;
pub mod guest;
mod initramfs;
pub mod kernel;
mod line;
pub mod machine;
mod modules;
pub mod order;
mod packages;
pub mod root;
pub mod session;
mod sources;
mod tools;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use self::cache::Cache;
use self::cache::cannot_write;
use self::drive::{Data, Drive};
use self::initramfs::Archive;
use self::kernel::Kernel;
use self::machine::{CONSOLE, INITRAMFS, Parts, SHARED};
use self::order::{FOLDER, LEFT, LEFT_VARIABLE, Order, PROGRAM, STATE};
use crate::acceleration::{Acceleration, Failure};
use crate::arch::Arch;
use crate::root::Root;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::folders::TARGET_VARIABLE;
use iotrail_base::folders::temporary::Folder as RunFolder;
use iotrail_base::output::{Existing, Folder};

/// Prefix of the name of a run's directory.
const PREFIX: &str = "iotrail-lab-";

/// A machine and its command.
#[derive(Debug)]
pub struct MachineOptions<'a> {
    pub cache: &'a Cache,
    pub arch: Arch,
    /// `None`: the guest sees this machine's files.
    pub root: Option<&'a Root>,
    pub kernel: &'a Kernel,
    pub acceleration: Acceleration,
    /// Fall back to emulation if KVM fails to run the machine.
    pub may_emulate: bool,
    pub cpus: u32,
    pub sockets: u32,
    pub memory_bytes: u64,
    pub drives: &'a [Drive],
    pub append: &'a str,
    /// Must not be empty. `iotrail` means this program.
    pub command: &'a [OsString],
}

type FindQemu = fn(&Cache, Arch, Acceleration, &dyn Fn(&str)) -> Result<tools::Program>;

/// A prepared run. Dropping it removes its directory.
pub struct Prepared<'a> {
    asked: &'a MachineOptions<'a>,
    acceleration: Acceleration,
    qemu: tools::Program,
    find: FindQemu,
    folder: RunFolder,
}

/// Downloads missing files and creates the run's directory.
pub fn prepare<'a>(asked: &'a MachineOptions<'a>, tell: &dyn Fn(&str)) -> Result<Prepared<'a>> {
    let mut acceleration = asked.acceleration;
    if acceleration == Acceleration::Kvm
        && asked.may_emulate
        && let Some(reason) = Failure::of(asked.cache, &asked.kernel.vmlinux).reason()
    {
        tell(&format!("KVM previously failed to run this kernel on this host ({reason}); to retry, use --accel kvm"));
        acceleration = Acceleration::Emulation;
    }
    let qemu = tools::qemu(asked.cache, asked.arch, acceleration, tell)?;
    let busybox = tools::busybox(asked.cache, asked.arch, tell)?;
    let folder = RunFolder::make(&std::env::temp_dir(), PREFIX).or_machine(
        "cannot create a directory for the run",
        "check the free space and the permissions of TMPDIR or /tmp",
    )?;
    let at = |name: &str| folder.path().join(name);
    let files = |e| cannot_write(folder.path(), e);
    std::fs::create_dir_all(at(SHARED).join(LEFT)).map_err(files)?;
    std::fs::create_dir_all(at(SHARED).join(STATE)).map_err(files)?;
    let program = std::env::current_exe()
        .and_then(std::fs::canonicalize)
        .or_machine("cannot find the iotrail binary", "start iotrail again: the binary was replaced or removed")?;
    let link = at(SHARED).join(PROGRAM);
    link.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(files)?;
    match asked.root {
        None => std::os::unix::fs::symlink(program, link).map_err(files)?,
        // The guest sees none of this machine's files.
        Some(root) => std::fs::copy(&root.program, link).map(drop).map_err(files)?,
    }
    order(asked.command, !asked.drives.is_empty(), asked.root.is_some())?.write(&at(SHARED)).map_err(files)?;
    std::fs::write(at(INITRAMFS), initramfs(asked, &busybox)?).map_err(files)?;
    std::fs::write(at(CONSOLE), "").map_err(files)?;
    for (number, drive) in asked.drives.iter().enumerate() {
        if drive.data == Data::Keep {
            // A sparse file for the drive's data.
            let file = std::fs::File::create(drive::file(folder.path(), number)).map_err(files)?;
            file.set_len(drive.size_bytes).map_err(files)?;
        }
    }
    Ok(Prepared { asked, acceleration, qemu, find: tools::qemu, folder })
}

impl Prepared<'_> {
    fn parts(&self) -> Parts<'_> {
        let a = self.asked;
        Parts {
            qemu: &self.qemu,
            acceleration: self.acceleration,
            cpus: a.cpus,
            sockets: a.sockets,
            memory_bytes: a.memory_bytes,
            drives: a.drives,
            arch: a.arch,
            kernel: &a.kernel.vmlinux,
            root: a.root.map_or(Path::new("/"), |root| &root.folder),
            modules: a.root.map(|_| a.kernel.modules.as_path()),
            append: a.append,
            folder: self.folder.path(),
        }
    }

    pub fn acceleration(&self) -> Acceleration {
        self.acceleration
    }

    /// Switches to emulation, which may require a newer QEMU than KVM.
    fn emulate(&mut self, tell: &dyn Fn(&str)) -> Result<()> {
        self.acceleration = Acceleration::Emulation;
        self.qemu = (self.find)(self.asked.cache, self.asked.arch, self.acceleration, tell)?;
        Ok(())
    }

    /// Store that the command wrote, if any: the default store of `iotrail` in the guest.
    pub fn store(&self) -> Option<PathBuf> {
        let path = self.folder.path().join(SHARED).join(STATE).join("iotrail/iotrail.db");
        path.exists().then_some(path)
    }

    /// Copies the other results to `to`, with their directories. Returns the number of files.
    pub fn bring(&self, to: &Path, existing: Existing) -> Result<usize> {
        bring(&self.folder.path().join(SHARED).join(LEFT), to, existing)
    }
}

/// Checks `to` before the machine starts. Results are known only at the end, and must not be lost because of a file
/// name conflict.
pub fn takes_artifacts(to: &Path, existing: Existing) -> Result<()> {
    let is_empty = || std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_none());
    if existing == Existing::Replace || to.symlink_metadata().is_err() || is_empty() {
        return Ok(());
    }
    Err(Error::input(
        format!("{} is not an empty directory", to.display()),
        "specify another one with --artifacts, or replace files of the same names with --force",
    ))
}

fn bring(from: &Path, to: &Path, existing: Existing) -> Result<usize> {
    let mut out = Folder::open(to, existing, "--artifacts")?;
    let cannot = |e| {
        let what = format!("cannot copy the command's files to {}", to.display());
        Error::machine(what, "specify another directory with --artifacts").because(e)
    };
    let mut files = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(from.join(&folder)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let (kind, place) = (entry.file_type().map_err(cannot)?, folder.join(entry.file_name()));
            if kind.is_dir() {
                folders.push(place);
            } else if kind.is_file() {
                let made = out.under_way().join(format!("artifact-{files}"));
                std::fs::copy(entry.path(), &made).map_err(cannot)?;
                out.put(&made, &place)?;
                files += 1;
            }
        }
    }
    out.finish();
    Ok(files)
}

/// Downloads the registry's lists, unless they are from today.
pub fn refresh(cache: &Cache, arch: Arch, tell: &dyn Fn(&str)) -> Result<()> {
    packages::Packages::of(cache, arch).refresh(tell)
}

/// The caller's directory and variables if the guest sees this machine's files, except for the store and the
/// experiments' target, which are the lab's.
fn order(command: &[OsString], has_drive: bool, other_root: bool) -> Result<Order> {
    let here = if other_root { Ok("/".into()) } else { std::env::current_dir() };
    let here = here.or_input("the working directory no longer exists", "change to an existing directory")?;
    let (variables, search) = if other_root {
        (root::environment(std::env::vars_os()), Some("/usr/sbin:/usr/bin:/sbin:/bin".into()))
    } else {
        (std::env::vars_os().collect(), std::env::var_os("PATH"))
    };
    let ours = [("XDG_STATE_HOME", STATE), (LEFT_VARIABLE, LEFT)];
    let target = has_drive.then(|| (TARGET_VARIABLE.into(), "/dev/nvme0n1".into()));
    let environment = variables
        .into_iter()
        // Paths of this machine have another meaning there.
        .filter(|(name, _)| name != TARGET_VARIABLE && name != "PATH" && !ours.iter().any(|(ours, _)| name == ours))
        .chain(ours.map(|(name, folder)| (name.into(), format!("{FOLDER}/{folder}").into())))
        .chain(target)
        .chain([("PATH".into(), path(search))])
        .collect();
    let mut command = command.to_vec();
    if let Some(first) = command.first_mut().filter(|first| *first == "iotrail") {
        *first = format!("{FOLDER}/{PROGRAM}").into();
    }
    Ok(Order { command, working_folder: here.into(), environment })
}

/// The caller's PATH, or the C library's default; `iotrail` is this program, whatever is installed.
fn path(of_caller: Option<OsString>) -> OsString {
    let mut path = OsString::from(Path::new(FOLDER).join(PROGRAM).parent().unwrap_or(Path::new(FOLDER)));
    path.push(":");
    path.push(of_caller.unwrap_or_else(|| "/bin:/usr/bin".into()));
    path
}

/// In the guest: the command to run.
pub fn handed_over() -> Result<Order> {
    Order::read(Path::new(FOLDER))
}

/// Modules that a guest needs before it can see this machine's files.
const NEEDED: [&str; 5] = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"];

fn initramfs(asked: &MachineOptions, busybox: &Path) -> Result<Vec<u8>> {
    let modules = &asked.kernel.modules;
    let mut wanted = NEEDED.to_vec();
    wanted.extend((!asked.drives.is_empty()).then_some("nvme"));
    let closure = modules::closure(modules, &wanted)?;
    // The drives' driver is loaded later, when their order is guaranteed.
    let boot: Vec<&str> = closure.to_load.iter().map(String::as_str).filter(|name| *name != "nvme").collect();
    // modprobe searches the directory of the running release. A directory of another name must belong to the same
    // kernel.
    let release = modules.file_name().and_then(|n| n.to_str()).or_input(
        format_args!("{} is not named after a kernel release", modules.display()),
        "specify lib/modules/RELEASE with --modules",
    )?;
    // A symlink on the path would point elsewhere if this machine's files are not the guest's root.
    let modules_here = modules.canonicalize().or_input(
        format_args!("cannot find the modules in {}", modules.display()),
        "specify lib/modules/RELEASE with --modules",
    )?;
    let busybox = std::fs::read(busybox)
        .or_machine(format_args!("cannot read {}", busybox.display()), "remove it; it will be fetched again")?;
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "host", "lib", "proc", "root", "sys", "writes"] {
        archive.folder(folder);
    }
    archive.link("sbin", "bin");
    archive.character_device("dev/console", 5, 1);
    archive.file("bin/busybox", 0o755, &busybox);
    archive.file("init", 0o755, include_bytes!("init.sh"));
    let modules_here = if asked.root.is_some() { String::new() } else { modules_here.display().to_string() };
    let settings = [
        ("RELEASE", release.to_owned()),
        ("MODULES", modules_here),
        ("BOOT", boot.join(" ")),
        ("DRIVES", asked.drives.len().to_string()),
    ];
    let settings: String = settings.iter().map(|(name, value)| format!("{name}={}\n", quoted(value))).collect();
    archive.file("lab.conf", 0o644, settings.as_bytes());
    let place = format!("lib/modules/{release}");
    archive.folders_above(&format!("{place}/"));
    archive.file(&format!("{place}/modules.dep"), 0o644, closure.dependencies.as_bytes());
    for module in &closure.modules {
        let path = format!("{place}/{}", module.path);
        archive.folders_above(&path);
        archive.file(&path, 0o644, &module.bytes);
    }
    Ok(archive.finish())
}

/// Quotes text as a single shell word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_restores_quoted_text_unmodified() {
        let odd = "two words, 'quotes', \"more\", $HOME `x` \\ and\na line";
        let script = format!("printf %s {}", quoted(odd));
        let said = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
        assert_eq!(said.stdout, odd.as_bytes());
    }

    #[test]
    fn output_files_of_a_command_replace_existing_files_only_with_force() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("left"), place.path().join("brought"));
        std::fs::create_dir_all(from.join("a/b")).unwrap();
        std::fs::write(from.join("one"), "1").unwrap();
        std::fs::write(from.join("a/b/two"), "2").unwrap();
        takes_artifacts(&to, Existing::Keep).unwrap();
        assert_eq!(bring(&from, &to, Existing::Keep).unwrap(), 2);
        let read = |path: &str| std::fs::read_to_string(to.join(path)).unwrap();
        assert_eq!(
            (read("one"), read("a/b/two"), std::fs::read_dir(&to).unwrap().count()),
            ("1".into(), "2".into(), 2)
        );

        std::fs::write(place.path().join("of_others"), "kept").unwrap();
        std::fs::remove_file(to.join("one")).unwrap();
        std::os::unix::fs::symlink("../of_others", to.join("one")).unwrap();
        assert_eq!(takes_artifacts(&to, Existing::Keep).unwrap_err().exit_status(), 2);
        assert!(bring(&from, &to, Existing::Keep).is_err());
        assert_eq!(read("one"), "kept");
        takes_artifacts(&to, Existing::Replace).unwrap();
        assert_eq!(bring(&from, &to, Existing::Replace).unwrap(), 2);
        assert_eq!(
            (read("one"), std::fs::read_to_string(place.path().join("of_others")).unwrap()),
            ("1".into(), "kept".into())
        );
    }

    #[test]
    fn iotrail_in_the_lab_is_this_program_with_the_labs_store() {
        let order = order(&["iotrail".into(), "list".into()], true, false).unwrap();
        assert_eq!(order.command, ["/run/iotrail-lab/bin/iotrail", "list"]);
        let state: Vec<_> = order.environment.iter().filter(|(name, _)| name == "XDG_STATE_HOME").collect();
        assert_eq!(state, [&("XDG_STATE_HOME".into(), "/run/iotrail-lab/state".into())]);
        let paths: Vec<_> = order.environment.iter().filter(|(name, _)| name == "PATH").map(|(_, path)| path).collect();
        assert_eq!(paths, [&path(std::env::var_os("PATH"))], "one, and no second");
        assert_eq!(path(Some("/a:/b".into())), "/run/iotrail-lab/bin:/a:/b");
        let target: Vec<_> = order.environment.iter().filter(|(name, _)| name == "IOTRAIL_TARGET").collect();
        assert_eq!(target, [&("IOTRAIL_TARGET".into(), "/dev/nvme0n1".into())]);
    }
}
