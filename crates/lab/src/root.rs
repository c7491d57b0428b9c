//! Files that a guest sees: this machine's, or another directory that contains the program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::arch::Arch;
use super::cache::{Cache, cannot_write};
use super::packages::Packages;
use iotrail_base::error::{Error, OrFail, Result};

/// A root file system other than this machine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    pub folder: PathBuf,
    /// `iotrail` built for the guest.
    pub program: PathBuf,
}

/// Debian packages for the program and a small script; the shell is the guest's busybox.
const PACKAGES: [&str; 4] = ["libelf1t64", "zlib1g", "libgcc-s1", "e2fsprogs"];

/// Root of a guest with this architecture; `None` means this machine's files. `folder` and `program` are the options.
pub fn root(
    arch: Arch,
    folder: Option<&Path>,
    program: Option<&Path>,
    cache: &Cache,
    tell: &dyn Fn(&str),
) -> Result<Option<Root>> {
    if arch == Arch::host() && folder.is_none() && program.is_none() {
        return Ok(None);
    }
    let named = |path: &Path, what: &str, option: &str| {
        std::fs::canonicalize(path).or_input(
            format_args!("cannot read {what} {}", path.display()),
            format_args!("specify another one with {option}"),
        )
    };
    let program = match program {
        Some(program) => named(program, "the program", "--program")?,
        None if arch == Arch::host() => {
            std::env::current_exe().or_machine("cannot find the iotrail binary", "specify it with --program FILE")?
        }
        None => {
            return Err(Error::input(
                format!("this iotrail binary does not run on {arch}"),
                format!("build iotrail for {arch}, and specify the binary with --program FILE"),
            ));
        }
    };
    let folder = match folder {
        Some(folder) => named(folder, "the folder", "--root")?,
        None if arch == Arch::host() => PathBuf::from("/"),
        None => smallest(arch, cache, tell)?,
    };
    Ok(Some(Root { folder, program }))
}

/// Creates a root from packages unpacked in the cache.
fn smallest(arch: Arch, cache: &Cache, tell: &dyn Fn(&str)) -> Result<PathBuf> {
    cache.entry(&format!("roots/{arch}"), |folder| {
        let packages = Packages::of(cache, arch);
        packages.refresh(tell)?;
        let wanted = packages.with_needed(&PACKAGES)?;
        tell(&format!("fetching a root for {arch} ({} packages; nothing is installed)", wanted.len()));
        packages.unpack(&wanted, folder)?;
        // As in base-files, if no package contains this directory.
        for name in ["bin", "sbin", "lib"].map(|name| folder.join(name)).iter().filter(|path| !path.exists()) {
            let to = Path::new("usr").join(name.file_name().unwrap_or_default());
            std::fs::create_dir_all(folder.join(&to)).map_err(|e| cannot_write(folder, e))?;
            std::os::unix::fs::symlink(to, name).map_err(|e| cannot_write(name, e))?;
        }
        Ok(())
    })
}

/// Environment for another root, in which this machine's values have no meaning.
pub(super) fn environment(ours: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let kept = |name: &OsString| ["TERM", "LANG", "RUST_BACKTRACE"].iter().any(|n| name == n) || of_tests(name);
    ours.filter(|(name, _)| kept(name)).chain([("HOME".into(), "/root".into())]).collect()
}

fn of_tests(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("IOTRAIL_") || name == "CI")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Arch = if cfg!(target_arch = "aarch64") { Arch::Amd64 } else { Arch::Arm64 };

    #[test]
    fn a_guest_of_another_architecture_needs_its_own_program() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(Some(folder.path())).unwrap();
        let of = |arch, root, program| super::root(arch, root, program, &cache, &|_| ());
        assert_eq!(of(Arch::host(), None, None).unwrap(), None);
        let e = of(OTHER, Some(folder.path()), None).unwrap_err();
        assert!((e.exit_status(), e.to_string().contains("--program FILE")) == (2, true), "{e}");
        let e = of(OTHER, Some(folder.path()), Some(Path::new("/no/such"))).unwrap_err();
        assert!(e.to_string().contains("cannot read the program /no/such"), "{e}");
        let program = folder.path().join("iotrail");
        std::fs::write(&program, "").unwrap();
        let found = of(OTHER, Some(folder.path()), Some(&program)).unwrap().unwrap();
        assert_eq!(found.program, std::fs::canonicalize(program).unwrap());
    }

    #[test]
    fn only_selected_environment_variables_are_passed_to_the_guest() {
        let ours = [("TERM", "xterm"), ("HOME", "/home/me"), ("TMPDIR", "/scratch"), ("IOTRAIL_X", "1")];
        let got = environment(ours.into_iter().map(|(n, v)| (n.into(), v.into())));
        let expected = [("TERM", "xterm"), ("IOTRAIL_X", "1"), ("HOME", "/root")];
        assert_eq!(got, expected.map(|(n, v)| (OsString::from(n), OsString::from(v))));
    }
}
