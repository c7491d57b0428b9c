//! Where an export goes: whole or not at all. A file has its name only once it is whole, and nothing is replaced unasked.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::report::terminal;
use crate::watch::recording::Existing;

/// Means standard output.
pub const STDOUT: &str = "-";

pub struct Output {
    path: PathBuf,
    existing: Existing,
    to: BufWriter<To>,
}

enum To {
    Stdout(io::Stdout),
    /// What is shown steers no terminal.
    Terminal(io::Stdout),
    File(NamedTempFile),
    /// A device or a pipe that is there, to be replaced by nothing.
    Special(File),
}

impl Output {
    /// Errors: it is there and to be kept, or cannot be made (wrong input).
    pub fn open(path: &Path, existing: Existing) -> Result<Self> {
        let to = if path == Path::new(STDOUT) {
            let stdout = io::stdout();
            if stdout.is_terminal() { To::Terminal(stdout) } else { To::Stdout(stdout) }
        } else {
            free(path, existing)?;
            match path.metadata() {
                Ok(meta) if !meta.is_file() => {
                    To::Special(OpenOptions::new().write(true).open(path).map_err(|e| cannot_make(path, e))?)
                }
                _ => To::File(beside(path).map_err(|e| cannot_make(path, e))?),
            }
        };
        Ok(Self { path: path.to_owned(), existing, to: BufWriter::with_capacity(1 << 20, to) })
    }

    pub fn shown(&self) -> String {
        shown(&self.path)
    }

    pub fn is_stdout(&self) -> bool {
        matches!(self.to.get_ref(), To::Stdout(_) | To::Terminal(_))
    }

    /// Gives it its name.
    pub fn finish(self) -> Result<()> {
        let Self { path, existing, to } = self;
        match to.into_inner().map_err(|e| refused(&path, e.into_error()))? {
            To::Stdout(_) | To::Terminal(_) | To::Special(_) => Ok(()),
            To::File(file) => named(file, &path, existing),
        }
    }

    /// Why it did not take what was written to it.
    pub fn refusal(&self) -> impl Fn(io::Error) -> Error + use<> {
        let path = self.path.clone();
        move |e| refused(&path, e)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Write for To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            // A reader that has gone away has seen what it wanted.
            To::Stdout(out) => match out.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
                written => written,
            },
            To::Terminal(out) => {
                let text = String::from_utf8_lossy(bytes);
                for (i, line) in text.split('\n').enumerate() {
                    let end = if i > 0 { "\n" } else { "" };
                    write!(out, "{end}{}", terminal::sanitise(line.trim_end_matches('\r')))?;
                }
                Ok(bytes.len())
            }
            To::File(out) => out.write(bytes),
            To::Special(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            To::Stdout(out) | To::Terminal(out) => match out.flush() {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                flushed => flushed,
            },
            To::File(out) => out.flush(),
            To::Special(out) => out.flush(),
        }
    }
}

/// A new file in the same folder, so that giving it its name moves no data.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As any new file: what the user's mask leaves of it.
    tempfile::Builder::new().prefix(".iotrail-").permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
}

fn named(file: NamedTempFile, path: &Path, existing: Existing) -> Result<()> {
    let named = match existing {
        Existing::Keep => file.persist_noclobber(path),
        Existing::Replace => file.persist(path),
    };
    named.map(drop).map_err(|e| match e.error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => refused(path, e.error),
    })
}

/// Moves a file that is whole to its place below a folder, whose folders are made.
pub fn put(made: &Path, place: &Path, existing: Existing) -> Result<()> {
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder).map_err(|e| cannot_make(folder, e))?;
    }
    free(place, existing)?;
    std::fs::rename(made, place).map_err(|e| cannot_make(place, e))
}

/// Whether nothing has to give way at `path`.
pub fn free(path: &Path, existing: Existing) -> Result<()> {
    let is_there = path.symlink_metadata().is_ok();
    if path.is_dir() {
        return Err(Error::input(format!("{} is a folder", shown(path)), "name a file"));
    }
    if is_there && matches!(existing, Existing::Keep) { Err(exists(path)) } else { Ok(()) }
}

/// A folder for what is not whole yet, in the one that is asked for, which is made.
pub fn under_way(folder: &Path) -> Result<tempfile::TempDir> {
    std::fs::create_dir_all(folder)
        .and_then(|()| tempfile::Builder::new().prefix(".iotrail-").tempdir_in(folder))
        .map_err(|e| cannot_make(folder, e))
}

pub fn refused(path: &Path, e: io::Error) -> Error {
    let what = match path == Path::new(STDOUT) {
        true => "cannot write to standard output".into(),
        false => format!("cannot write {}", shown(path)),
    };
    Error::machine(what, "free some room, or name a place on another disk").because(e)
}

fn exists(path: &Path) -> Error {
    Error::input(format!("{} exists already", shown(path)), "name another file, or give --force to replace it")
}

fn cannot_make(path: &Path, e: io::Error) -> Error {
    Error::input(format!("cannot make {}", shown(path)), "name a place that can be written").because(e)
}

pub fn shown(path: &Path) -> String {
    path.display().to_string()
}
