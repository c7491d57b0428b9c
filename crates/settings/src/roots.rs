//! Root of the machine's files and directory of the journal. Tests use their own.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::folders;
use iotrail_host::files;

#[derive(Debug, Clone)]
pub struct Roots {
    /// Directory that contains /sys and /proc.
    pub system: PathBuf,
    /// Directory of the journal.
    pub state: PathBuf,
}

impl Roots {
    /// This machine, with the journal in `$XDG_STATE_HOME/iotrail`, by default `~/.local/state/iotrail`.
    pub fn of_this_machine() -> Result<Self> {
        let state = folders::state().or_input(
            "the journal of host settings has no directory: neither XDG_STATE_HOME nor HOME is set",
            "set one of them to a directory",
        )?;
        Ok(Self { system: files::ROOT.into(), state })
    }

    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        files::below(&self.system, path)
    }

    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        files::text(&self.system, path)
    }
}

/// Current value of a file in sysfs or procfs: for `none [mq-deadline] kyber` the bracketed choice.
pub fn present(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let text = text.trim();
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((chosen, _)) if path.file_name().is_some_and(|n| n == "scheduler") => Ok(chosen.to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Whether a file already has the value; requires no write permission.
pub fn is_so(path: &Path, wanted: &str) -> bool {
    present(path).is_ok_and(|now| now == wanted)
}

/// Writes a value in a single call, as these files require. Creates nothing.
pub fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

/// Writes a value and reads it back, because the kernel may adjust it.
pub fn write_checked(path: &Path, value: &str) -> io::Result<()> {
    write(path, value)?;
    match present(path)? {
        now if now == value => Ok(()),
        now => Err(io::Error::other(format!("the kernel accepted the request, but the value is {now}"))),
    }
}

/// Why this process cannot write the existing `path`; `None` if it can. Only checks permissions.
pub fn not_writable(what: &str, path: &Path) -> Option<Error> {
    let name = path.display();
    let mode = fs::metadata(path).ok()?.permissions().mode();
    if mode & 0o222 == 0 {
        return Some(Error::machine(
            format!("{what} cannot be changed: the kernel keeps {name} read-only"),
            "omit this condition",
        ));
    }
    let cause = access(path, Access::WRITE_OK).err()?;
    let remedy = match cause {
        Errno::ROFS => "it is mounted read-only, as in a container: run on the host itself",
        _ => "run as root",
    };
    Some(Error::machine(format!("{what} cannot be changed: {name}"), remedy).because(io::Error::from(cause)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    #[test]
    fn brackets_mark_the_current_value_only_in_scheduler_files() {
        let t = Tree::new().file("q/scheduler", "none [mq-deadline] kyber\n").file("q/other", "a [b] c\n");
        assert_eq!(present(&t.root().join("q/scheduler")).unwrap(), "mq-deadline");
        assert_eq!(present(&t.root().join("q/other")).unwrap(), "a [b] c");
    }

    #[test]
    fn a_read_only_file_is_reported_before_the_first_attempt() {
        let t = Tree::new().file("sys/x", "1\n");
        let file = t.root().join("sys/x");
        assert!(not_writable("x", &file).is_none());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        let e = not_writable("the x", &file).unwrap();
        assert!(e.to_string().starts_with("the x cannot be changed: the kernel keeps "), "{e}");
        assert_eq!(e.exit_status(), 3);
    }
}
