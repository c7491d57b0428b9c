//! The capture directory: one file per stall, limited in size and number.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use iotrail_base::error::{Error, Result};
use iotrail_base::folders::own;
use iotrail_base::input;
use iotrail_probe::snapshot::Snapshot;
use iotrail_schema::stall::{Capture, RingSample, Stall, ThreadSample, Trigger};

use super::triggers::Sleeps;
use iotrail_path::delivery::syscall_name;

/// Maximum size of a capture.
pub const FILE_BYTES: usize = 1 << 20;
/// Maximum number of captures, and their maximum total size.
const FILES: usize = 1000;
const BYTES: u64 = 64 << 20;

/// Maximum burst of captures per trigger, and the time after which another one is allowed.
const BURST: f64 = 10.0;
const REFILL_NS: f64 = 6e9;

/// Maximum number of kept samples of rings and of threads, and their maximum age.
const KEPT: usize = 16_384;
const KEPT_NS: u64 = 10_000_000_000;

const REMEDY: &str = "specify another directory with --dir";

#[derive(Debug)]
pub struct Captures {
    dir: PathBuf,
    /// Per trigger: remaining captures, and the time at which that number was computed.
    left: BTreeMap<Trigger, (f64, u64)>,
}

impl Captures {
    /// Fails if the directory cannot be created or belongs to another user.
    pub fn open(dir: &Path) -> Result<Self> {
        own::make(dir, REMEDY)?;
        Ok(Captures { dir: dir.to_owned(), left: BTreeMap::new() })
    }

    /// Whether another capture of this trigger is allowed now.
    pub fn may(&mut self, trigger: Trigger, at_ns: u64) -> bool {
        let (left, since) = self.left.get(&trigger).copied().unwrap_or((BURST, at_ns));
        let left = (left + (at_ns - since) as f64 / REFILL_NS).min(BURST);
        let may = left >= 1.0;
        self.left.insert(trigger, (if may { left - 1.0 } else { left }, at_ns));
        may
    }

    pub fn path(&self, trigger: Trigger, tgid: u32, unix_ns: u64) -> PathBuf {
        self.dir.join(format!("{unix_ns:020}-{}-{tgid}.json", trigger.name()))
    }

    /// Writes the capture, truncated to the maximum size. Deletes older files if necessary.
    pub fn write(&self, capture: &Capture) -> Result<()> {
        let path = Path::new(&capture.stall.capture);
        let refused = |e: std::io::Error| {
            Error::machine(format!("cannot write {}", path.display()), "check its free space").because(e)
        };
        let text = |c: &Capture| {
            serde_json::to_vec(c).map_err(|e| Error::internal(format!("a capture cannot be written as JSON: {e}")))
        };
        let mut bytes = text(capture)?;
        if bytes.len() > FILE_BYTES {
            let small = Capture {
                trace: None,
                not_traced: Some("the trace is too large for the capture".into()),
                threads: vec![],
                ..capture.clone()
            };
            bytes = text(&small)?;
        }
        let partial = path.with_extension("partial");
        fs::write(&partial, &bytes).and_then(|()| fs::rename(&partial, path)).map_err(|e| {
            fs::remove_file(&partial).unwrap_or(());
            refused(e)
        })?;
        self.prune(path);
        Ok(())
    }

    /// Deletes the oldest files. `newest` is kept explicitly, since after the clock was set back its name does not sort
    /// last.
    fn prune(&self, newest: &Path) {
        let mut names = files(&self.dir).unwrap_or_default();
        let length = |path: &PathBuf| fs::metadata(path).map_or(0, |m| m.len());
        let mut bytes: u64 = names.iter().map(length).sum();
        names.retain(|path| path != newest);
        names.reverse();
        while names.len() >= FILES || bytes > BYTES {
            let Some(oldest) = names.pop() else { return };
            bytes -= length(&oldest).min(bytes);
            fs::remove_file(&oldest).unwrap_or(());
        }
    }
}

/// Oldest first: names begin with the time.
fn files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let all = fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut names: Vec<PathBuf> = all.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    names.sort();
    Ok(names)
}

/// Stalls in a directory, newest first, and the number of JSON files that are not captures. Other files are skipped.
/// Nothing may have been captured yet: without the directory, there are none, unless it `must_exist`.
pub fn list(dir: &Path, must_exist: bool) -> Result<(Vec<Stall>, usize)> {
    let names = match files(dir) {
        Ok(names) => names,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !must_exist => vec![],
        Err(e) => return Err(Error::input(format!("cannot read {}", dir.display()), REMEDY).because(e)),
    };
    let stalls: Vec<Stall> =
        names.iter().rev().filter_map(|path| read(path).ok()).map(|capture| capture.stall).collect();
    let unread = names.len() - stalls.len();
    Ok((stalls, unread))
}

pub fn read(path: &Path) -> Result<Capture> {
    let wrong = |e: Box<dyn std::error::Error + Send + Sync>| {
        Error::input(format!("{} is not a capture of a stall", path.display()), "`iotrail stalls` lists the captures")
            .because(e)
    };
    let bytes = input::bytes(path, 2 * FILE_BYTES as u64).map_err(|e| wrong(e.into()))?;
    let mut capture: Capture = serde_json::from_slice(&bytes).map_err(|e| wrong(e.into()))?;
    // The file may have been moved.
    capture.stall.capture = path.display().to_string();
    Ok(capture)
}

/// The most recent samples.
#[derive(Debug, Default)]
pub struct History {
    /// With their process; times are CLOCK_MONOTONIC.
    rings: VecDeque<(u32, RingSample)>,
    threads: VecDeque<(u32, ThreadSample)>,
}

impl History {
    pub fn take(&mut self, sample: &Snapshot, sleeps: &Sleeps) {
        let at_ns = sample.at_ns as i64;
        self.rings.extend(sample.rings.iter().map(|r| {
            let of = RingSample {
                at_ns,
                fd: r.fd,
                taken: r.taken,
                posted: r.posted,
                unreaped: r.unreaped,
                unsubmitted: r.unsubmitted,
                has_task_work: r.has_task_work,
                has_overflowed: r.has_overflowed,
            };
            (r.tgid, of)
        }));
        self.threads.extend(sample.threads.iter().map(|t| {
            let reason = sleeps.get(&t.tid).filter(|_| t.asleep).and_then(|s| s.reason.clone());
            let of = ThreadSample { at_ns, tid: t.tid, asleep: t.asleep, syscall: None, reason };
            // The address is resolved when it is captured.
            (t.tgid, ThreadSample { syscall: t.call.map(|nr| nr.to_string()), ..of })
        }));
        let oldest = at_ns - KEPT_NS as i64;
        while self.rings.len() > KEPT || self.rings.front().is_some_and(|(_, s)| s.at_ns < oldest) {
            self.rings.pop_front();
        }
        while self.threads.len() > KEPT || self.threads.front().is_some_and(|(_, s)| s.at_ns < oldest) {
            self.threads.pop_front();
        }
    }

    /// Samples of one process, with times relative to `at_ns`: the newest `most` of each kind.
    pub fn of(&self, tgid: u32, at_ns: u64, most: usize) -> (Vec<RingSample>, Vec<ThreadSample>) {
        let since = |at: i64| at - at_ns as i64;
        let rings = self.rings.iter().filter(|(of, _)| *of == tgid);
        let rings: Vec<RingSample> =
            rings.rev().take(most).map(|(_, s)| RingSample { at_ns: since(s.at_ns), ..s.clone() }).collect();
        let call = |nr: &String| nr.parse().map(syscall_name).ok();
        let threads = self.threads.iter().filter(|(of, _)| *of == tgid).rev().take(most);
        let threads: Vec<ThreadSample> = threads
            .map(|(_, s)| ThreadSample {
                at_ns: since(s.at_ns),
                syscall: s.syscall.as_ref().and_then(call),
                ..s.clone()
            })
            .collect();
        (rings.into_iter().rev().collect(), threads.into_iter().rev().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_probe::snapshot::{Ring, Thread};
    use iotrail_schema::stall::{CAPTURE, StalledProcess};

    fn capture(captures: &Captures, unix_ns: u64, functions: usize) -> Capture {
        let path = captures.path(Trigger::Overflow, 7, unix_ns);
        let stall = Stall {
            trigger: Trigger::Overflow,
            began_unix_ns: unix_ns,
            lasted_ns: 5,
            is_over: false,
            process: StalledProcess::default(),
            ring: Some(3),
            thread: None,
            cause: "c".into(),
            text: "t".into(),
            capture: path.display().to_string(),
        };
        let sample = ThreadSample { at_ns: 0, tid: 1, asleep: true, syscall: None, reason: None };
        Capture {
            schema: CAPTURE.into(),
            stall,
            sample_ns: None,
            rings: vec![],
            threads: vec![sample; functions],
            moment: None,
            stacks: vec![],
            ran: vec![],
            ran_during_ns: None,
            trace: None,
            not_traced: None,
        }
    }

    #[test]
    fn capture_files_are_listed_newest_first_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let captures = Captures::open(dir.path()).unwrap();
        for i in 0..FILES as u64 {
            let capture = capture(&captures, i, 0);
            fs::write(&capture.stall.capture, serde_json::to_vec(&capture).unwrap()).unwrap();
        }
        (FILES as u64..FILES as u64 + 5).for_each(|i| captures.write(&capture(&captures, i, 0)).unwrap());
        fs::write(dir.path().join("0-other.json"), "{}").unwrap();
        let (stalls, unread) = list(dir.path(), true).unwrap();
        assert_eq!((stalls.len(), stalls[0].began_unix_ns, unread), (FILES, FILES as u64 + 4, 1));
        assert_eq!(list(&dir.path().join("absent"), false).unwrap(), (vec![], 0));
        assert!(list(&dir.path().join("absent"), true).is_err());
        captures.write(&capture(&captures, 5000, 100_000)).unwrap();
        let large = read(Path::new(&list(dir.path(), true).unwrap().0[0].capture)).unwrap();
        assert!(large.threads.is_empty() && large.not_traced.is_some());
    }

    #[test]
    fn captures_are_rate_limited_per_trigger() {
        let dir = tempfile::tempdir().unwrap();
        let mut captures = Captures::open(dir.path()).unwrap();
        let allowed = |c: &mut Captures, at_ns| (0..100).filter(|_| c.may(Trigger::Overflow, at_ns)).count();
        assert_eq!(allowed(&mut captures, 0), 10);
        assert!(captures.may(Trigger::SlowSync, 0), "each has its own");
        assert_eq!(allowed(&mut captures, 30_000_000_000), 5);
    }

    #[test]
    fn the_sample_history_is_bounded_and_filtered_by_process() {
        let mut history = History::default();
        for i in 0..100_000 {
            let thread = Thread { tid: 1, tgid: 7, call: Some(74), ..Thread::default() };
            let ring = Ring { tgid: 8, posted: i, ..Ring::default() };
            let sample =
                Snapshot { at_ns: u64::from(i), threads: vec![thread], rings: vec![ring], ..Snapshot::default() };
            history.take(&sample, &Sleeps::new());
        }
        assert_eq!((history.rings.len(), history.threads.len()), (KEPT, KEPT));
        let (rings, threads) = history.of(7, 99_999, 10);
        assert_eq!((rings.len(), threads.len(), threads[9].at_ns, threads[0].at_ns), (0, 10, 0, -9));
        assert!(threads[0].syscall.as_ref().is_some_and(|name| name.parse::<u32>().is_err()));
        assert_eq!(history.of(8, 0, 10).0[9].posted, 99_999);
    }
}
