//! Outputs: common rules for all files, pipes and devices that a command writes.
//!
//! | path | action |
//! |---|---|
//! | does not exist | written under a temporary name in the same directory, and renamed when complete |
//! | a file or a symlink | kept, unless `--force` is specified; then replaced by the complete new file, never overwritten in place |
//! | `-`, `/dev/stdout`, `/dev/fd/N` | streamed; neither read nor replaced |
//! | a pipe with a reader | streamed; without a reader, rejected immediately |
//! | a character device | streamed with `--force` |
//! | a disk, a socket, a directory | rejected |
//!
//! Two commands may replace their own outputs without `--force`: a page of `report`, a page of `man`. A recording has
//! its final name from the start, so that a killed trace leaves its data. The results of a lab command have
//! unpredictable names: without `--force` their directory must be empty.

mod descriptor;
mod folder;
mod refusal;
mod stream;

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

pub use self::folder::Folder;
use self::refusal::{cannot_make, exists};
pub use self::refusal::{refused, stdout_refused};
use self::stream::Stream;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::plain::{self, sanitise};

/// Path that means standard output.
pub const STDOUT: &str = "-";

/// Handling of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Keep,
    /// Keep it; the command has no `--force`.
    Refuse,
    /// Replace it (`--force`).
    Replace,
}

impl Existing {
    pub fn forced(force: bool) -> Self {
        if force { Existing::Replace } else { Existing::Keep }
    }
}

/// Checks before the work that standard output accepts data: it fails if standard output is closed or full. A pipe
/// without a reader is not an error.
pub fn stdout_accepts() -> Result<()> {
    plain::stdout_is_open()?;
    let out = rustix::stdio::stdout();
    // A device without space rejects even 0 bytes; a full file system does not.
    let refused = rustix::io::write(out, &[]).err().filter(|e| *e != rustix::io::Errno::PIPE);
    let is_file = rustix::fs::fstat(out).is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode).is_file());
    let is_full = is_file && rustix::fs::fstatvfs(out).is_ok_and(|fs| fs.f_blocks > 0 && fs.f_bavail == 0);
    match refused.or(is_full.then_some(rustix::io::Errno::NOSPC)) {
        Some(e) => Err(stdout_refused(io::Error::from(e))),
        None => Ok(()),
    }
}

/// Kind of an output path.
enum Place {
    Stdout,
    Stream(Stream),
    /// A file, existing or not.
    File,
}

/// `option`: the option that names the path, for the remedy.
fn place(path: &Path, existing: Existing, option: &'static str) -> Result<Place> {
    if path == Path::new(STDOUT) {
        return Ok(Place::Stdout);
    }
    match descriptor::own(path) {
        Some(libc::STDOUT_FILENO) => return Ok(Place::Stdout),
        Some(number) => {
            let stream = Stream::of_descriptor(number).map_err(|e| cannot_make(path, option, e))?;
            return Ok(Place::Stream(stream));
        }
        None => {}
    }
    let Ok(there) = path.metadata() else {
        free(path, existing)?;
        return Ok(Place::File);
    };
    let kind = there.file_type();
    let is =
        |what: &str| Err(Error::input(format!("{} is {what}", shown(path)), format!("specify a file with {option}")));
    if kind.is_dir() {
        return is("a directory");
    }
    if kind.is_block_device() {
        return is("a disk (a block device), which would be overwritten");
    }
    if kind.is_socket() {
        return is("a socket, not a file");
    }
    if kind.is_fifo() {
        let stream = Stream::to_pipe(path).map_err(|e| match e.raw_os_error() {
            Some(libc::ENXIO) => Error::input(
                format!("{} is a pipe with no reader", shown(path)),
                format!("start its reader first, or specify a file with {option}"),
            ),
            _ => cannot_make(path, option, e),
        })?;
        return Ok(Place::Stream(stream));
    }
    free(path, existing)?;
    if kind.is_char_device() {
        return Ok(Place::Stream(Stream::to_device(path).map_err(|e| cannot_make(path, option, e))?));
    }
    Ok(Place::File)
}

/// An output that was checked before the work. The file does not exist until it is opened.
pub struct Reserved {
    path: PathBuf,
    existing: Existing,
    option: &'static str,
    place: Place,
}

impl Reserved {
    /// Fails if the file exists and may not be replaced, or cannot be created.
    pub fn new(path: &Path, existing: Existing, option: &'static str) -> Result<Self> {
        let place = place(path, existing, option)?;
        if let Place::File = place {
            // Dropped, and thus removed, in this statement.
            beside(path).map_err(|e| cannot_make(path, option, e))?;
        }
        Ok(Self { path: path.to_owned(), existing, option, place })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// For an output besides a result on standard output.
    pub fn apart(self) -> Result<Self> {
        match self.place {
            Place::Stdout => Err(on_stdout(&self.path, self.option)),
            _ => Ok(self),
        }
    }

    pub fn open(self) -> Result<Output> {
        let Self { path, existing, option, place } = self;
        let (to, tame) = match place {
            Place::Stdout => {
                plain::stdout_is_open()?;
                let stdout = io::stdout();
                let tame = stdout.is_terminal();
                (To::Stdout(stdout), tame)
            }
            Place::Stream(stream) => {
                let tame = stream.is_terminal();
                (To::Stream(stream), tame)
            }
            Place::File => (To::File(beside(&path).map_err(|e| cannot_make(&path, option, e))?), false),
        };
        let to = Gate { to, tame, was_asked: interrupt::is_asked() };
        Ok(Output { path, existing, option, to: BufWriter::with_capacity(1 << 20, to) })
    }
}

/// An output stream; a file is either complete or missing.
pub struct Output {
    path: PathBuf,
    existing: Existing,
    option: &'static str,
    to: BufWriter<Gate>,
}

/// All bytes pass through this writer.
struct Gate {
    to: To,
    /// For a terminal: sanitise text.
    tame: bool,
    /// A signal had arrived before it was opened, and no longer ends anything.
    was_asked: bool,
}

enum To {
    Stdout(io::Stdout),
    File(NamedTempFile),
    Stream(Stream),
}

impl Output {
    /// Fails if the file exists and may not be replaced, or cannot be created.
    pub fn open(path: &Path, existing: Existing, option: &'static str) -> Result<Self> {
        Reserved::new(path, existing, option)?.open()
    }

    pub fn shown(&self) -> String {
        shown(&self.path)
    }

    /// Whether it is standard output, so that messages must not go there.
    pub fn is_stdout(&self) -> bool {
        matches!(self.to.get_ref().to, To::Stdout(_))
    }

    /// Renames the complete file to its path.
    pub fn finish(self) -> Result<()> {
        let Self { path, existing, option, to } = self;
        let failed = |e| refused(&path, option, e);
        let mut gate = to.into_inner().map_err(|e| failed(e.into_error()))?;
        gate.flush().map_err(failed)?;
        match gate.to {
            To::Stdout(_) | To::Stream(_) => Ok(()),
            To::File(file) => named(file, &path, existing, option),
        }
    }

    /// Why the output did not accept the data.
    pub fn refusal(&self) -> impl Fn(io::Error) -> Error + use<> {
        let (path, option) = (self.path.clone(), self.option);
        move |e| refused(&path, option, e)
    }
}

/// Writes all of `bytes`.
pub fn write(reserved: Reserved, bytes: &[u8]) -> Result<()> {
    let mut out = reserved.open()?;
    let refused = out.refusal();
    out.write_all(bytes).map_err(refused)?;
    out.finish()
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A reader that closed the pipe has read all that it needs.
fn unless_gone<T>(done: io::Result<T>, instead: T) -> io::Result<T> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(instead),
        done => done,
    }
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if interrupt::is_asked() && !self.was_asked {
            return Err(io::Error::other("stopped by a signal"));
        }
        let out: &mut dyn Write = match &mut self.to {
            To::Stdout(out) => out,
            To::File(out) => out,
            To::Stream(out) => out,
        };
        if !self.tame {
            return unless_gone(out.write(bytes), bytes.len());
        }
        let text = String::from_utf8_lossy(bytes);
        let tame: Vec<String> = text.split('\n').map(|line| sanitise(line.trim_end_matches('\r'))).collect();
        unless_gone(out.write_all(tame.join("\n").as_bytes()), ())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stdout(out) => unless_gone(out.flush(), ()),
            To::File(out) => out.flush(),
            To::Stream(out) => out.flush(),
        }
    }
}

/// A file that grows under its final name: a recording. An existing file is never overwritten in place.
pub fn growing(path: &Path, existing: Existing, option: &'static str) -> Result<Box<dyn Write + Send>> {
    match place(path, existing, option)? {
        Place::Stream(stream) => Ok(Box::new(stream)),
        Place::Stdout => Err(on_stdout(path, option)),
        Place::File if existing != Existing::Replace => {
            let made = File::options().write(true).create_new(true).custom_flags(libc::O_NOFOLLOW).open(path);
            made.map(|file| Box::new(file) as _).map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => exists(path, existing),
                _ => cannot_make(path, option, e),
            })
        }
        Place::File => {
            let file = beside(path).map_err(|e| cannot_make(path, option, e))?;
            file.persist(path).map(|file| Box::new(file) as _).map_err(|e| cannot_make(path, option, e.error))
        }
    }
}

fn on_stdout(path: &Path, option: &str) -> Error {
    let what = match path == Path::new(STDOUT) {
        true => format!("{option} - would be mixed with the result on standard output"),
        false => format!("{option} {} is standard output, where the result is written", shown(path)),
    };
    Error::input(what, "specify a file or a pipe")
}

/// A new file in the same directory, so that the rename does not copy data.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Permissions follow the user's umask, as for any new file.
    tempfile::Builder::new().prefix(".iotrail-").permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
}

fn named(file: NamedTempFile, path: &Path, existing: Existing, option: &'static str) -> Result<()> {
    let named = match existing {
        Existing::Keep | Existing::Refuse => file.persist_noclobber(path),
        Existing::Replace => file.persist(path),
    };
    named.map(drop).map_err(|e| match e.error.kind() {
        io::ErrorKind::AlreadyExists => exists(path, existing),
        _ => refused(path, option, e.error),
    })
}

/// Checks that no file at `path` would have to be replaced without permission.
pub fn free(path: &Path, existing: Existing) -> Result<()> {
    let is_there = path.symlink_metadata().is_ok();
    if path.is_dir() {
        return Err(Error::input(format!("{} is a directory", shown(path)), "specify a file"));
    }
    if is_there && existing != Existing::Replace { Err(exists(path, existing)) } else { Ok(()) }
}

/// Whether `path` names a descriptor of this process, like `/dev/stdout`.
pub fn is_descriptor(path: &Path) -> bool {
    descriptor::own(path).is_some()
}

pub fn shown(path: &Path) -> String {
    path.display().to_string()
}
