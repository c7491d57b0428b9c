//! Runs the built binary like a user, in a directory of its own, and detects files left behind.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::ended::end_within;
pub use crate::ended::{Ended, kill};

/// Time limit of a command: more than ten times the longest observed. A command that hangs fails only its own test.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const BINARY: &str = env!("CARGO_BIN_EXE_iotrail");

/// A directory on the build's disk; removed at the end.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self::under(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// A directory that every user can access and write to.
    pub fn public() -> Self {
        let place = Self::under(&std::env::temp_dir());
        let mode = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(place.path(), mode).expect("a folder of our own");
        place
    }

    fn under(folder: &Path) -> Self {
        Self(tempfile::Builder::new().prefix("it-").tempdir_in(folder).expect("a temporary folder can be made"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).expect("a file in a folder of our own");
        path
    }

    pub fn write_at(&self, name: &OsStr, content: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), content).expect("a file in a folder of our own");
    }

    /// The tool in this directory, without access to the user's state, in a process group of its own.
    pub fn tool<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        self.command(BINARY.as_ref(), args)
    }

    pub fn command<S: AsRef<OsStr>>(&self, program: &Path, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    /// Every file and directory below, with attributes that any change would modify.
    pub fn contents(&self) -> BTreeMap<PathBuf, (u64, Option<std::time::SystemTime>, bool)> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("our own folder").map(|e| e.expect("its entry")) {
                let meta = std::fs::symlink_metadata(entry.path()).expect("what is there");
                if meta.is_dir() {
                    folders.push(entry.path());
                }
                // A directory's time changes with its entries.
                found
                    .insert(entry.path(), (meta.len(), meta.modified().ok().filter(|_| meta.is_file()), meta.is_dir()));
            }
        }
        found
    }
}

impl Ended {
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.status, 0, "{}", self.stderr);
        self
    }

    /// Asserts that standard output is empty and standard error is one line that starts with the program's name;
    /// returns the rest of that line.
    #[track_caller]
    pub fn one_line(&self) -> &str {
        assert_eq!(self.stdout, "", "standard output is for results");
        let lines: Vec<&str> = self.stderr.lines().collect();
        let [line] = lines[..] else { panic!("not one line: {:?}", self.stderr) };
        line.strip_prefix("iotrail: ").unwrap_or_else(|| panic!("whose line is this? {line}"))
    }
}

/// Waits for a command to exit.
#[track_caller]
pub fn end(child: Child) -> Ended {
    end_within(PATIENCE, child)
}

/// Runs a command to completion; no process of its group may outlive it.
#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    let child = command.spawn().expect("the command starts");
    let group = child.id();
    let ended = end(child);
    // SAFETY: signal 0 only checks whether the group exists.
    let left = unsafe { libc::kill(-(group as libc::pid_t), 0) } == 0;
    assert!(!left, "a process of {command:?} is left behind");
    ended
}

/// Polls `happened` until it returns a value.
#[track_caller]
pub fn wait_for<T>(what: &str, mut happened: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = happened() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The load's thread of a running `bench`, once it has used more CPU time than its setup needs.
#[track_caller]
pub fn at_work(child: &Child) -> u32 {
    wait_for("the load's thread at work", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).ok()?;
        let working = |task: &std::fs::DirEntry| {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let ran_ns = read("schedstat").split(' ').next().and_then(|n| n.parse::<u64>().ok());
            read("comm").starts_with("load-") && ran_ns.is_some_and(|n| n > 20_000_000)
        };
        tasks.flatten().find(working)?.file_name().to_str()?.parse().ok()
    })
}

/// A short `bench` with these options (separated by spaces), without probes.
pub fn bench(place: &Place, options: &str) -> Command {
    let mut command = place.tool(["bench", "--trace", "off", "--warmup", "0"]);
    command.args(options.split_whitespace());
    command
}

static FILE: Mutex<Option<Place>> = Mutex::new(None);

/// A 4 MiB file for read loads, laid out once by the tool itself.
pub fn file() -> PathBuf {
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = file.get_or_insert_with(|| {
        let place = Place::new();
        run(&mut bench(&place, "--count 1 --size 4m --file data")).ok();
        place
    });
    let path = place.join("data");
    assert_eq!(path.metadata().expect("it was made").len(), 4 << 20);
    path
}

/// Removes the file after the last test.
pub fn remove_file() {
    drop(FILE.lock().unwrap_or_else(PoisonError::into_inner).take());
}

pub fn is_root() -> bool {
    // SAFETY: geteuid takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
