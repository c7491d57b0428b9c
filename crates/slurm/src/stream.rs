//! Transfers an outbox over srun's streams if no directory is shared: a step next to the running task sends changes,
//! and receives an answer once the last one has arrived. A frame is a line with name, length and checksum, followed by
//! its bytes and a line end.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use std::os::unix::process::CommandExt as _;

use rustix::process::{Signal, set_parent_process_death_signal};

use super::outbox::{Item, Outbox};
use super::queue;

/// Start of a frame's line, which distinguishes it from a login banner.
const MARK: &str = "iotrail-frame";

/// Larger than any run's store.
const LONGEST: u64 = 4 << 30;

/// The collector's answer to the final frame.
pub const TAKEN: &str = "taken";

pub fn write(out: &mut impl Write, item: Item, bytes: &[u8]) -> io::Result<()> {
    writeln!(out, "{MARK} {} {} {}", item.name(), bytes.len(), crc32fast::hash(bytes))?;
    out.write_all(bytes)?;
    // Slurm forwards only complete lines; an incomplete line would wait for the next one.
    out.write_all(b"\n")?;
    out.flush()
}

/// The next frame; `None` if the stream ended, even within a frame. Fails if the data does not match its checksum.
pub fn read(from: &mut impl BufRead) -> io::Result<Option<(Item, Vec<u8>)>> {
    loop {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let Some((item, length, sum)) = head(&String::from_utf8_lossy(&line)) else { continue };
        let mut bytes = Vec::new();
        if from.take(length).read_to_end(&mut bytes)? as u64 != length {
            return Ok(None);
        }
        if crc32fast::hash(&bytes) != sum {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the data received through srun differs from the data sent",
            ));
        }
        return Ok(Some((item, bytes)));
    }
}

fn head(line: &str) -> Option<(Item, u64, u32)> {
    let mut words = line.split_whitespace();
    if words.next()? != MARK {
        return None;
    }
    let name = words.next()?;
    let item = Item::ALL.into_iter().chain([Item::Whole]).find(|item| item.name() == name)?;
    let length = words.next()?.parse().ok().filter(|n| *n <= LONGEST)?;
    Some((item, length, words.next()?.parse().ok()?))
}

/// Interval at which a node checks for changes to send.
const LOOK: Duration = Duration::from_secs(1);

/// On the node: sends the outbox and its changes until the final state has been sent; returns false if it was not.
/// `is_alive`: whether the task is still running.
pub fn send(outbox: &Outbox, out: &mut impl Write, is_alive: &mut dyn FnMut() -> bool) -> io::Result<bool> {
    let mut sent: [Option<SystemTime>; Item::ALL.len()] = Default::default();
    loop {
        // Checked first, so that the task's last file exists if the task has ended.
        let alive = is_alive();
        let has_ended = outbox.path(Item::Ended).exists();
        for (item, sent) in Item::ALL.into_iter().zip(&mut sent) {
            if item == Item::Ended && !has_ended {
                continue;
            }
            let path = outbox.path(item);
            let Ok(changed) = path.metadata().and_then(|m| m.modified()) else { continue };
            if *sent != Some(changed) {
                write(out, item, &fs::read(&path)?)?;
                *sent = Some(changed);
                if item == Item::Ended {
                    return Ok(true);
                }
            }
        }
        if !alive {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}

/// Name of a fetching job.
pub const FETCH: &str = "iotrail-fetch";

/// Where srun runs a step.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// Next to a running task; for a pair, on the first node.
    Beside { job: u64, paired: bool },
    /// In a separate small job on this node, with options that determine its queue. `minutes`: its time limit.
    On { node: &'a str, queue: &'a [String], minutes: u32 },
}

/// Starts a step whose streams are connected to this process, and which ends with this process.
pub fn step(place: Place<'_>, program: &Path, args: &[&str]) -> io::Result<Child> {
    let mut command = Command::new("srun");
    command.args(["--quiet", "--nodes=1", "--ntasks=1", "--input=0", "--chdir=/"]);
    match place {
        Place::Beside { job, paired } => {
            command.args([&format!("--jobid={job}"), "--overlap", "--mem=0"]).args(paired.then_some("--het-group=0"))
        }
        Place::On { node, queue, minutes } => {
            // A node that is busy for more than a minute is retried later.
            command.args([&format!("--nodelist={node}"), &format!("--job-name={FETCH}"), "--immediate=60"]);
            command.args(queue::places(queue)).arg(format!("--time={minutes}"))
        }
    };
    let variables = std::env::vars_os().map(|(name, _)| name);
    variables.filter(|name| is_options(&name.to_string_lossy())).for_each(|name| _ = command.env_remove(name));
    command
        .arg(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // SAFETY: a single system call, without locks or allocation.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?)) };
    command.spawn()
}

/// Whether this variable sets options of srun, or describes the job in which this process runs, whose nodes srun would
/// use. Variables that locate the cluster are kept.
fn is_options(variable: &str) -> bool {
    let finds = ["SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_DEBUG"];
    (variable.starts_with("SLURM_") || variable.starts_with("SRUN_")) && !finds.contains(&variable)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn frames_with_any_content_are_read_back_completely() {
        let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        let mut sent = b"Welcome to n3\n".to_vec();
        write(&mut sent, Item::Store, &bytes).unwrap();
        write(&mut sent, Item::Progress, b"").unwrap();
        let whole = sent.len();
        write(&mut sent, Item::Ended, b"{}").unwrap();
        let mut from = Cursor::new(&sent);
        assert_eq!(read(&mut from).unwrap(), Some((Item::Store, bytes)));
        assert_eq!(read(&mut from).unwrap(), Some((Item::Progress, vec![])));
        assert_eq!(read(&mut from).unwrap(), Some((Item::Ended, b"{}".to_vec())));
        assert_eq!(read(&mut from).unwrap(), None);
        let mut cut = Cursor::new(&sent[whole..sent.len() - 2]);
        assert_eq!(read(&mut cut).unwrap(), None, "a node that was lost sends half a frame");
        let last = sent.len() - 2;
        sent[last] ^= 1;
        assert!(read(&mut Cursor::new(&sent[whole..])).is_err());
    }

    #[test]
    fn each_change_is_sent_once_until_the_task_ends() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Outbox::new(folder.path(), 1);
        outbox.put(Item::Progress, b"1").unwrap();
        let mut sent = Vec::new();
        let mut looks = 0;
        let has_ended = send(&outbox, &mut sent, &mut || {
            looks += 1;
            if looks == 2 {
                outbox.put(Item::Store, b"s").unwrap();
                outbox.put(Item::Ended, b"e").unwrap();
            }
            true
        });
        assert!(has_ended.unwrap());
        let mut from = Cursor::new(&sent);
        let frames: Vec<_> = std::iter::from_fn(|| read(&mut from).unwrap()).map(|(item, _)| item).collect();
        assert_eq!((frames, looks), (vec![Item::Progress, Item::Store, Item::Ended], 2));
        outbox.begin_again();
        let mut sent = Vec::new();
        assert!(!send(&outbox, &mut sent, &mut || false).unwrap());
        assert!(!sent.is_empty(), "of a task that is gone, what is there");
    }

    #[test]
    fn option_variables_are_removed_from_the_environment_of_a_step() {
        for variable in ["SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PARTITION", "SLURM_HET_SIZE", "SRUN_EXPORT_ENV"] {
            assert!(is_options(variable), "{variable}");
        }
        for variable in ["SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "PATH", "SLURMD_NODENAME"] {
            assert!(!is_options(variable), "{variable}");
        }
    }
}
