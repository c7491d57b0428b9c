//! The journal: current changes and their owner, on disk before a change is made.
//!
//! JSON lines: the owner, then changes (`{"change":…}`, in the order of making) and the number of last changes that
//! were undone (`{"undone":2}`). An incomplete line was being written when its writer was killed, so its change was not
//! started. The file exists while any change is in effect. Readers and writers lock the file next to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::owner::Owner;
use super::roots::Roots;
use iotrail_base::error::{Error, Result};
use iotrail_base::folders::{self, own};

pub const SCHEMA: &str = "iotrail.settings/1";

/// Children of a killed process also hold its lock until they are gone.
const ENDING: Duration = Duration::from_secs(3);

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema: String,
    #[serde(flatten)]
    owner: Owner,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Change(Change),
    Undone(usize),
}

/// Contents of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub owner: Owner,
    /// Changes in the order of making, without undone ones.
    pub changes: Vec<Change>,
}

pub fn file(roots: &Roots) -> PathBuf {
    roots.state.join("settings.journal")
}

/// Reads the journal without the lock. `None` if it contains no changes or is unreadable.
pub fn peek(roots: &Roots) -> Option<Content> {
    parse(&fs::read_to_string(file(roots)).ok()?).ok()?
}

/// The locked journal. Dropping it releases the lock.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    _lock: File,
}

impl Journal {
    /// Takes the lock, and creates the directory if missing. Fails while another process holds the lock.
    pub fn lock(roots: &Roots) -> Result<Self> {
        let cannot = |what: &str, path: &Path, e: io::Error| {
            Error::machine(
                format!("cannot {what} {}, where changed host settings are recorded", path.display()),
                "set XDG_STATE_HOME to a writable directory",
            )
            .because(e)
        };
        if !folders::is_of_a_guest(&roots.state) {
            own::make(
                &roots.state,
                "set XDG_STATE_HOME to a directory of your own, where changed host settings are recorded",
            )?;
        }
        fs::create_dir_all(&roots.state).map_err(|e| cannot("create the directory", &roots.state, e))?;
        let path = roots.state.join("settings.lock");
        let mut options = OpenOptions::new();
        options.custom_flags(libc::O_NOFOLLOW);
        // Another user's journal is read-only, which suffices for locking and messages.
        let lock =
            options.create(true).append(true).mode(0o644).open(&path).or_else(|e| File::open(&path).map_err(|_| e));
        let lock = lock.map_err(|e| cannot("open", &path, e))?;
        let began = Instant::now();
        while !take(&lock).map_err(|e| cannot("lock", &path, e))? {
            let owner = peek(roots).map(|c| c.owner);
            let lives = owner.as_ref().is_none_or(|o| o.lives(roots));
            if lives || began.elapsed() > ENDING {
                let who = owner.map_or_else(String::new, |o| format!(" (process {})", o.tgid));
                return Err(Error::machine(
                    format!("another iotrail process{who} has changed host settings"),
                    "wait until it exits; it restores its changes",
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { path: file(roots), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes left by a process that no longer exists, if any.
    pub fn read(&self) -> Result<Option<Content>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.cannot("read", e)),
        };
        self.check_user()?;
        parse(&text).map_err(|(line, why)| {
            Error::input(
                format!("{} is damaged at line {line}: {why}", self.path.display()),
                "restore the settings in its other lines by hand, then remove the file",
            )
        })
    }

    /// Root writes values from a journal to its paths, so the journal must not belong to another user.
    fn check_user(&self) -> Result<()> {
        let user = fs::metadata(&self.path).map_err(|e| self.cannot("read", e))?.uid();
        if user == 0 || user == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        Err(Error::machine(
            format!("{} was written by another user (UID {user})", self.path.display()),
            "run as that user, or set HOME or XDG_STATE_HOME to your own",
        ))
    }

    /// Records changes that are about to be made. They are on disk on return.
    pub fn begin(&self, owner: &Owner, changes: &[Change]) -> Result<()> {
        let head = if self.path.exists() { String::new() } else { head(owner) };
        self.append(&(head + &lines(changes))).map_err(|e| self.cannot("write", e))
    }

    /// Records that the last `n` changes were undone. If this record is lost, they are undone again.
    pub fn undone(&self, n: usize) -> Result<()> {
        self.append(&line(&Line::Undone(n))).map_err(|e| self.cannot("write", e))
    }

    /// Appends and syncs; removes an incomplete line.
    fn append(&self, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new();
        let mut file = file.create(true).append(true).mode(0o644).custom_flags(libc::O_NOFOLLOW).open(&self.path)?;
        let before = file.metadata()?.len();
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if written.is_err() {
            file.set_len(before)?;
        }
        written.and_then(|()| if before == 0 { self.sync_folder() } else { Ok(()) })
    }

    /// Replaces the contents with the changes that remain to be undone. Without changes the file is removed.
    pub fn keep(&self, owner: &Owner, changes: &[Change]) -> Result<()> {
        if changes.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.cannot("remove", e)),
                _ => self.sync_folder().map_err(|e| self.cannot("remove", e)),
            };
        }
        let new = self.path.with_extension("new");
        let replace = || {
            // A file of that name, left by a killed process, is not reused.
            fs::remove_file(&new).or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
            let mut file = File::create_new(&new)?;
            file.write_all((head(owner) + &lines(changes)).as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            self.sync_folder()
        };
        replace().map_err(|e| self.cannot("write", e))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    fn cannot(&self, what: &str, e: io::Error) -> Error {
        Error::machine(
            format!("cannot {what} {}, where changed host settings are recorded", self.path.display()),
            "free space, and check the permissions there",
        )
        .because(e)
    }
}

/// `Ok(false)` if another process holds the lock. Does not wait. The lock ends with the process and all children that
/// inherited it.
fn take(lock: &File) -> io::Result<bool> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn line<T: Serialize>(value: &T) -> String {
    // Serialisation fails only for paths that are not UTF-8. Paths in sysfs, procfs and cgroups are ASCII, except
    // cgroup names, which were read as text.
    let mut line = serde_json::to_string(value).expect("plain fields with UTF-8 paths");
    line.push('\n');
    line
}

fn head(owner: &Owner) -> String {
    line(&Head { schema: SCHEMA.into(), owner: owner.clone() })
}

fn lines(changes: &[Change]) -> String {
    changes.iter().map(|c| line(&Line::Change(c.clone()))).collect()
}

/// The error is a line number and the problem.
fn parse(text: &str) -> std::result::Result<Option<Content>, (usize, String)> {
    // After the last newline there is nothing, or a line that was being written.
    let Some((whole, _torn)) = text.rsplit_once('\n') else { return Ok(None) };
    let mut lines = whole.split('\n');
    let head = lines.next().unwrap_or_default();
    let head: Head = serde_json::from_str(head).map_err(|e| (1, e.to_string()))?;
    if head.schema != SCHEMA {
        return Err((1, format!("it was written by another version of iotrail ({})", head.schema)));
    }
    let mut changes = Vec::new();
    for (i, line) in lines.enumerate() {
        match serde_json::from_str(line).map_err(|e| (i + 2, e.to_string()))? {
            Line::Change(change) => changes.push(change),
            Line::Undone(n) if n <= changes.len() => changes.truncate(changes.len() - n),
            Line::Undone(n) => {
                return Err((i + 2, format!("it undoes {n} changes, but only {} are recorded", changes.len())));
            }
        }
    }
    Ok(Some(Content { owner: head.owner, changes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner { tgid: 7, started_ticks: 50, boot_id: "b".into(), hostname: "h".into() }
    }

    fn change(path: &str) -> Change {
        Change::Value { path: path.into(), old: "1".into(), new: "2".into() }
    }

    fn roots() -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { system: dir.path().into(), state: dir.path().join("state/iotrail") };
        (dir, roots)
    }

    #[test]
    fn pending_changes_are_read_back() {
        let (_dir, roots) = roots();
        let journal = Journal::lock(&roots).unwrap();
        assert_eq!(journal.read().unwrap(), None);
        journal.begin(&owner(), &[change("/a"), change("/b")]).unwrap();
        journal.begin(&owner(), &[change("/c")]).unwrap();
        journal.undone(2).unwrap();
        journal.begin(&owner(), &[change("/d")]).unwrap();
        let content = Content { owner: owner(), changes: vec![change("/a"), change("/d")] };
        assert_eq!(journal.read().unwrap(), Some(content));
        assert_eq!(peek(&roots), journal.read().unwrap());
        journal.keep(&owner(), &[change("/d")]).unwrap();
        assert_eq!(journal.read().unwrap().unwrap().changes, [change("/d")]);
        journal.keep(&owner(), &[]).unwrap();
        assert!(!journal.path().exists());
        assert_eq!(peek(&roots), None);
        // A new journal can be begun.
        journal.begin(&owner(), &[change("/e")]).unwrap();
        assert_eq!(journal.read().unwrap().unwrap().changes, [change("/e")]);
    }

    #[test]
    fn a_truncated_journal_keeps_its_complete_lines() {
        let mut text = head(&owner());
        let mut ends = vec![(text.len(), 0)];
        for (line_of, changes) in
            [(Line::Change(change("/a")), 1), (Line::Change(change("/b")), 2), (Line::Undone(1), 1)]
        {
            text.push_str(&line(&line_of));
            ends.push((text.len(), changes));
        }
        for cut in 0..=text.len() {
            let content = parse(&text[..cut]).unwrap();
            let expected = ends.iter().rev().find(|(end, _)| *end <= cut).map(|(_, changes)| *changes);
            assert_eq!(content.map(|c| c.changes.len()), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_damaged_journal_is_reported_with_its_line() {
        let head = head(&owner());
        let line_of = |text: &str| parse(text).unwrap_err().0;
        assert_eq!(line_of(&format!("{head}{{\"change\":\n{{}}\n")), 2);
        assert_eq!(line_of(&format!("{head}{{\"undone\":1}}\n")), 2);
        assert_eq!(line_of("{\"schema\":1}\n"), 1);
        assert!(parse(&head.replace("settings/1", "settings/2")).unwrap_err().1.contains("another version"));
    }

    #[test]
    fn only_one_process_may_lock_the_journal() {
        let (_dir, roots) = roots();
        let first = Journal::lock(&roots).unwrap();
        let e = Journal::lock(&roots).unwrap_err();
        assert_eq!(e.exit_status(), 3);
        assert!(e.to_string().starts_with("another iotrail process has changed host settings; wait until"), "{e}");
        drop(first);
        Journal::lock(&roots).unwrap();
    }

    #[test]
    fn a_journal_directory_that_cannot_be_created_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let roots = Roots { system: dir.path().into(), state: dir.path().join("file/iotrail") };
        let e = Journal::lock(&roots).unwrap_err().to_string();
        assert!(
            e.starts_with("cannot use ") && e.contains("file: Not a directory") && e.contains("set XDG_STATE_HOME to"),
            "{e}"
        );
    }
}
