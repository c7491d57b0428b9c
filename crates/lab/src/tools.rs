//! Programs that the lab needs besides the kernel: installed on this machine, or from packages unpacked in the cache.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::arch::Arch;
use super::cache::Cache;
use super::packages::Packages;
use crate::acceleration::Acceleration;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::programs;

/// How to run a program: arguments that precede its options, and environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub words: Vec<OsString>,
    pub variables: Vec<(OsString, OsString)>,
    /// Where it comes from, as text.
    pub from: &'static str,
}

/// First QEMU release whose emulation handles every write to code. Earlier (before deba78709ae8, accel/tcg: Always lock
/// pages before translation), a CPU that translates an instruction while another CPU patches it may keep the old
/// instruction forever. A kernel whose probes change then hits a breakpoint that no longer exists, and hangs or fails
/// with "Oops: int3".
const SOUND: (u32, u32) = (8, 1);

/// The emulator, installed or from its package with all libraries. For emulation it must be recent enough. If none can
/// be downloaded, the old one is used, and `tell` receives a message.
pub fn qemu(cache: &Cache, arch: Arch, acceleration: Acceleration, tell: &dyn Fn(&str)) -> Result<Program> {
    let here = programs::on_path(arch.qemu().0).map(|path| Program {
        words: vec![path.into()],
        variables: vec![],
        from: "this machine's",
    });
    let Some(here) = here else { return packaged(cache, arch, tell) };
    let version = match acceleration {
        Acceleration::Kvm => None,
        Acceleration::Emulation => version(&here),
    };
    let Some((major, minor)) = version.filter(|v| *v < SOUND) else { return Ok(here) };
    packaged(cache, arch, tell).or_else(|why| {
        tell(&format!(
            "this machine's QEMU {major}.{minor} may hang when probes are attached or detached in an emulated guest (fixed in 8.1). A newer QEMU cannot be fetched: {why}"
        ));
        Ok(here)
    })
}

/// Major and minor version, if it prints them.
fn version(qemu: &Program) -> Option<(u32, u32)> {
    let output = Command::new(&qemu.words[0]).arg("--version").stdin(Stdio::null()).output().ok()?;
    told_version(&String::from_utf8_lossy(&output.stdout))
}

/// Parses `QEMU emulator version 7.2.22 (Debian …)`.
fn told_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_once("version ")?.1.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn packaged(cache: &Cache, arch: Arch, tell: &dyn Fn(&str)) -> Result<Program> {
    let folder = cache.entry(&of_guest("tools/qemu", arch), |folder| {
        let packages = Packages::of(cache, Arch::host());
        packages.refresh(tell)?;
        // The firmware for network cards (ipxe) is only recommended, and the lab has no network cards.
        let wanted = packages.with_needed(&[arch.qemu().1])?;
        tell(&format!("fetching QEMU ({} packages; nothing is installed)", wanted.len()));
        packages.unpack(&wanted, folder)
    })?;
    unpacked(&folder, arch)
}

/// Name of the cache entry for a guest architecture, which it includes if it is not this machine's.
fn of_guest(entry: &str, arch: Arch) -> String {
    if arch == Arch::host() { entry.to_owned() } else { format!("{entry}-{arch}") }
}

/// A program whose packages were unpacked including the C library; its own loader runs it.
fn unpacked(folder: &Path, arch: Arch) -> Result<Program> {
    let (of_host, loader) = Arch::host().libraries();
    let (qemu, package) = arch.qemu();
    let libraries = ["usr/lib", "lib"].map(|p| folder.join(p).join(of_host));
    let loader = libraries.iter().map(|p| p.join(loader)).find(|p| p.exists());
    let program = Some(folder.join("usr/bin").join(qemu)).filter(|p| p.exists());
    let (Some(loader), Some(program)) = (loader, program) else {
        return Err(Error::machine(
            format!("{} is incomplete", folder.display()),
            format!("remove it and try again, or install the package {package}"),
        ));
    };
    let mut words: Vec<OsString> = vec![loader.into(), "--library-path".into()];
    let joined = std::env::join_paths(&libraries);
    words.push(joined.or_input("the cache path contains a colon", "specify another directory with --cache DIR")?);
    words.push(program.into());
    // It looks for its firmware next to its executable, which appears to be the loader.
    for data in ["usr/share/qemu", "usr/share/seabios"] {
        words.extend(["-L".into(), folder.join(data).into()]);
    }
    let modules = libraries[0].join("qemu");
    Ok(Program { words, variables: vec![("QEMU_MODULE_DIR".into(), modules.into())], from: "the cache's" })
}

/// A static busybox, the guest's init. Always from the package: other builds lack applets, or need libraries.
pub fn busybox(cache: &Cache, arch: Arch, tell: &dyn Fn(&str)) -> Result<PathBuf> {
    let folder = cache.entry(&of_guest("tools/busybox", arch), |folder| {
        let packages = Packages::of(cache, arch);
        packages.refresh(tell)?;
        tell("fetching busybox");
        packages.unpack(&["busybox-static".to_owned()], folder)
    })?;
    let places = ["usr/bin/busybox", "bin/busybox"].map(|p| folder.join(p));
    places
        .into_iter()
        .find(|p| p.exists())
        .or_machine(format_args!("{} contains no busybox", folder.display()), "remove it and try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_qemu_version_is_parsed_with_any_suffix() {
        assert_eq!(told_version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\n"), Some((7, 2)));
        assert_eq!(told_version("QEMU emulator version 10.0-rc1"), Some((10, 0)));
        assert_eq!(told_version("qemu: unknown"), None);
        let sound = |said: &str| told_version(said).unwrap() >= SOUND;
        assert_eq!(
            ["version 7.2.22", "version 8.0.5", "version 8.1.0", "version 10.0.2"].map(sound),
            [false, false, true, true]
        );
    }

    #[test]
    fn an_unpacked_program_is_run_by_its_own_loader() {
        let folder = tempfile::tempdir().unwrap();
        assert!(unpacked(folder.path(), Arch::Amd64).is_err());
        let (libraries, name) = Arch::host().libraries();
        let loader = Path::new("usr/lib").join(libraries).join(name);
        for file in [Path::new("usr/bin/qemu-system-x86_64"), &loader] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let program = unpacked(folder.path(), Arch::Amd64).unwrap();
        assert_eq!(program.words[0], folder.path().join(loader));
        assert_eq!((program.words[1].to_str(), program.words.len()), (Some("--library-path"), 8));
        assert_eq!(program.words[3], folder.path().join("usr/bin/qemu-system-x86_64"));
    }
}
