//! The programs that the lab needs beside the kernel: from this machine, else from packages that are unpacked in the cache.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::packages::Packages;
use crate::error::{Error, Result};
use crate::host::programs;

/// A program to be run: with these words before its options, and these variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub words: Vec<OsString>,
    pub variables: Vec<(OsString, OsString)>,
    /// Where it comes from, for people.
    pub from: &'static str,
}

const QEMU: &str = "qemu-system-x86_64";

/// The emulator: this machine's, else the package's with all the libraries that it needs.
pub fn qemu(cache: &Cache, tell: &dyn Fn(&str)) -> Result<Program> {
    if let Some(path) = programs::on_path(QEMU) {
        return Ok(Program { words: vec![path.into()], variables: vec![], from: "this machine's" });
    }
    let folder = cache.entry("tools/qemu", |folder| {
        let packages = Packages::of(cache);
        packages.refresh(tell)?;
        // The firmware of network cards (ipxe) is only recommended, and there are none in the lab.
        let wanted = packages.with_needed("qemu-system-x86")?;
        tell(&format!("fetching QEMU ({} packages; nothing is installed)", wanted.len()));
        packages.unpack(&wanted, folder)
    })?;
    unpacked(&folder)
}

/// A program of packages that were unpacked whole, C library included: its own loader runs it.
fn unpacked(folder: &Path) -> Result<Program> {
    let at = |paths: &[&str]| paths.iter().map(|p| folder.join(p)).find(|p| p.exists());
    let (Some(loader), Some(program)) = (
        at(&["usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"]),
        at(&["usr/bin/qemu-system-x86_64"]),
    ) else {
        return Err(Error::machine(
            format!("{} is not whole", folder.display()),
            "remove it and try again, or install the package qemu-system-x86",
        ));
    };
    let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|p| folder.join(p));
    let mut words: Vec<OsString> = vec![loader.into(), "--library-path".into()];
    words.push(std::env::join_paths(&libraries).map_err(|e| {
        Error::input("the cache's path holds a colon", "name another folder with --cache DIR").because(e)
    })?);
    words.push(program.into());
    // It looks for its firmware beside itself, and takes the loader for itself.
    for data in ["usr/share/qemu", "usr/share/seabios"] {
        words.extend(["-L".into(), folder.join(data).into()]);
    }
    let modules = libraries[0].join("qemu");
    Ok(Program { words, variables: vec![("QEMU_MODULE_DIR".into(), modules.into())], from: "the cache's" })
}

/// A static busybox: what the guest starts with. The package's always: others lack applets, or need libraries.
pub fn busybox(cache: &Cache, tell: &dyn Fn(&str)) -> Result<PathBuf> {
    let folder = cache.entry("tools/busybox", |folder| {
        let packages = Packages::of(cache);
        packages.refresh(tell)?;
        tell("fetching busybox");
        packages.unpack(&["busybox-static".to_owned()], folder)
    })?;
    let places = ["usr/bin/busybox", "bin/busybox"].map(|p| folder.join(p));
    places
        .into_iter()
        .find(|p| p.exists())
        .ok_or_else(|| Error::machine(format!("{} holds no busybox", folder.display()), "remove it and try again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpacked_program_is_run_by_its_own_loader() {
        let folder = tempfile::tempdir().unwrap();
        assert!(unpacked(folder.path()).is_err());
        for file in ["usr/bin/qemu-system-x86_64", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let program = unpacked(folder.path()).unwrap();
        assert_eq!(program.words[0], folder.path().join("usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
        assert_eq!((program.words[1].to_str(), program.words.len()), (Some("--library-path"), 8));
        assert_eq!(program.words[3], folder.path().join("usr/bin/qemu-system-x86_64"));
    }
}
