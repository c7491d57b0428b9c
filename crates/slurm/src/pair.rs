//! A job with two nodes: the first runs the batch script and starts steps on the second. It is a heterogeneous job with
//! two components, because within a component, Slurm itself chooses the node that runs the script.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::script::{BASE, folder};
use super::state::{Ending, State, jobs};
use super::words::quoted;

/// Runs shell lines in a step on the second node. The step ends with this process.
pub fn step(lines: &str) -> Command {
    let mut command = Command::new("srun");
    command.args(["--quiet", "--het-group=1", "--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--cpu-bind=none"]);
    command.args(["--input=0", "--chdir=/", "/bin/sh", "-c", lines]).process_group(0);
    // SAFETY: a single system call, without locks or allocation.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?)) };
    command
}

/// Runs this program until the shell's input is closed; if the program exits first, so does the shell.
pub fn while_input(program: &Path, words: &[String]) -> String {
    let words = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    format!(
        "p={}; [ -x \"$p\" ] || p=iotrail; exec 3<&0; \"$p\" {words} 3<&- & s=$!; \
         {{ cat <&3; kill $s; }} >/dev/null 2>&1 & wait $s",
        quoted(&program.to_string_lossy())
    )
}

/// Time limit for a response of the second node.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a step can be started on the second node.
pub fn answers() -> bool {
    done("exit 0")
}

/// How the second node's component of this job ended, if the controller reports it.
pub fn ended() -> Option<Ending> {
    let part = std::env::var("SLURM_JOB_ID_HET_GROUP_1").ok()?.parse().ok()?;
    match jobs(&[part], None).ok()?.remove(&part)?.state {
        State::Ended(ending) => Some(ending),
        State::Waiting | State::Running | State::Completing => None,
    }
}

/// Whether these lines succeeded there.
fn done(lines: &str) -> bool {
    let null = Stdio::null;
    let Ok(mut child) = step(lines).stdin(null()).stdout(null()).stderr(null()).spawn() else { return false };
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(100)),
            _ => {
                _ = child.kill();
                _ = child.wait();
                return false;
            }
        }
    }
}

/// This job's directory on the second node; different from the first node's, because they might share a disk.
fn place(job: u64) -> (String, String) {
    let uid = rustix::process::geteuid().as_raw();
    (format!("{BASE}{uid}"), format!("{}-server", folder(uid, job)))
}

/// Copies this program to the second node and returns its path.
pub fn bring(program: &Path, job: u64) -> io::Result<PathBuf> {
    let (base, folder) = place(job);
    let lines = format!(
        "umask 077; b={base}; d={folder}; mkdir \"$b\" 2>/dev/null; \
         {{ [ -d \"$b\" ] && [ -O \"$b\" ] && [ ! -L \"$b\" ]; }} || {{ echo \"$b is not ours\" >&2; exit 73; }}; \
         mkdir -p \"$d\" && cat >\"$d/part\" && chmod 700 \"$d/part\" && mv \"$d/part\" \"$d/iotrail\""
    );
    let output = step(&lines).stdin(File::open(program)?).stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(iotrail_base::words::last_line(&said).unwrap_or_else(|| "srun failed".into())));
    }
    Ok(Path::new(&folder).join("iotrail"))
}

/// Removes the copy.
pub fn take_away(job: u64) {
    // On a lost node, the copy remains.
    done(&removed(&folder(rustix::process::geteuid().as_raw(), job)));
}

/// Shell lines that remove the copy; `folder`: the job's directory on the first node.
pub fn removed(folder: &str) -> String {
    let place = quoted(&format!("{folder}-server"));
    format!("rm -rf {place}; rmdir \"$(dirname {place})\" 2>/dev/null; exit 0")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn shell(lines: &str) -> std::process::Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", lines]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_server_exits_when_its_input_is_closed() {
        let words = ["-c".to_owned(), "echo it serves; exec sleep 100".into()];
        let mut child = shell(&while_input(Path::new("/bin/sh"), &words));
        let mut said = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"it serves\n");
        assert!(child.try_wait().unwrap().is_none());
        drop(child.stdin.take());
        assert!(!child.wait().unwrap().success(), "SIGTERM ended it");
    }

    #[test]
    fn only_files_copied_to_the_node_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("it's/7");
        let server = folder.with_file_name("7-server");
        [&folder, &server].into_iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
        let removed = || shell(&removed(&folder.to_string_lossy())).wait().unwrap().success();
        assert!(removed() && !server.exists() && folder.exists());
        std::fs::remove_dir(&folder).unwrap();
        assert!(removed() && !folder.parent().unwrap().exists());
    }

    #[test]
    fn a_failed_server_closes_its_output() {
        let mut child = shell(&while_input(Path::new("/bin/sh"), &["-c".to_owned(), "exit 3".into()]));
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(3), ""));
    }
}
