//! A Slurm cluster of four nodes on this machine. On drop, its daemons are killed by process ID.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::command::{Ended, end};

pub const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Longer than Slurm needs to detect a killed node.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Why this machine cannot run a cluster; `None` if it can.
pub fn missing() -> Option<String> {
    let has = |name: &&str| ["/usr/sbin", "/usr/bin"].iter().any(|dir| Path::new(dir).join(name).exists());
    let absent: Vec<&str> = ["munged", "slurmctld", "slurmd", "sbatch"].into_iter().filter(|name| !has(name)).collect();
    // SAFETY: geteuid takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("not root".into());
    }
    (!absent.is_empty()).then(|| format!("{} not installed (packages slurm-wlm and munge)", absent.join(", ")))
}

pub struct Cluster {
    folder: tempfile::TempDir,
    munged: Child,
    controller: Option<Child>,
    nodes: [Option<Child>; 4],
    /// This cluster's job IDs.
    jobs: Range<u64>,
}

/// Directory of the nodes' results, shared by all clusters on this machine; distinguished by job ID.
const KEPT: &str = "/var/tmp/iotrail-slurm-0";

/// Job IDs for another cluster, which no other cluster of this or another process uses.
fn numbers() -> Range<u64> {
    static CLUSTERS: AtomicU64 = AtomicU64::new(0);
    let process = u64::from(std::process::id() % 60_000 + 1);
    let first = process * 1000 + CLUSTERS.fetch_add(1, Ordering::Relaxed) % 25 * 40;
    first..first + 40
}

impl Cluster {
    pub fn start() -> Self {
        // munge requires a short path to its socket, on which every directory is secure.
        let folder = tempfile::Builder::new().prefix("fleet-").tempdir().expect("a temporary folder");
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("our own folder");
        for name in ["munge", "state", "log", "spool"] {
            std::fs::create_dir(folder.path().join(name)).expect("our own folder");
        }
        let munged = munged(folder.path());
        let jobs = numbers();
        configure(folder.path(), jobs.start);
        let nodes = NODES.map(|name| Some(daemon(folder.path(), name, "slurmd", &["-D", "-N", name])));
        let controller = Some(daemon(folder.path(), "controller", "slurmctld", &["-D"]));
        let cluster = Self { folder, munged, controller, nodes, jobs };
        cluster.wait_for("four idle nodes", |c| {
            let said = c.slurm("sinfo", &["--noheader", "--Node", "--partition=all", "--format=%T"]).stdout;
            (said.lines().filter(|state| *state == "idle").count() == NODES.len()).then_some(())
        });
        cluster
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command in this cluster's directory that uses this cluster.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.path("home"))
            .env("SLURM_CONF", self.path("slurm.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    /// Runs a Slurm command.
    pub fn slurm(&self, program: &str, args: &[&str]) -> Ended {
        end(self.command(program).args(args).spawn().expect("Slurm is installed"))
    }

    /// `iotrail` with the words of `line` and the arguments `more`.
    pub fn tool(&self, line: &str, more: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_iotrail"));
        command.args(line.split_whitespace()).args(more);
        command
    }

    #[track_caller]
    pub fn wait_for<T>(&self, what: &str, mut happened: impl FnMut(&Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(answer) = happened(self) {
                return answer;
            }
            if began.elapsed() > PATIENCE {
                self.tell();
                panic!("waited in vain for: {what}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Jobs in the queue, with user names and states: `root RUNNING n1`.
    pub fn queue(&self) -> Vec<String> {
        let said = self.slurm("squeue", &["--noheader", "--array", "--format=%u %T %N"]);
        said.stdout.lines().map(|line| line.trim().to_owned()).collect()
    }

    /// Asserts that no files are left on the nodes.
    #[track_caller]
    pub fn assert_empty(&self) {
        self.wait_for("an empty queue", |c| c.queue().is_empty().then_some(()));
        let left = self.left();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Removes files of jobs that were killed and could not clean up.
    pub fn tidy(&self) {
        for path in self.left() {
            _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        }
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(KEPT).map(|entries| entries.flatten().map(|e| e.path()).collect());
        let mut left: Vec<PathBuf> = entries.unwrap_or_default();
        left.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let job = name.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
            job.is_some_and(|job| self.jobs.contains(&job))
        });
        left
    }

    /// Simulates a power failure: kills the node's daemon and every process that it started.
    pub fn kill_node(&mut self, node: &str) {
        let at = NODES.iter().position(|n| *n == node).expect("a node");
        let mut daemon = self.nodes[at].take().expect("it runs");
        let started = started_on(node, &self.path("slurm.conf"));
        for id in [daemon.id()].into_iter().chain(started) {
            // SAFETY: an unreaped child, or a process that it has just started.
            unsafe { libc::kill(id as libc::pid_t, libc::SIGKILL) };
        }
        daemon.wait().expect("a child of ours");
    }

    pub fn start_node(&mut self, node: &str) {
        let at = NODES.iter().position(|n| *n == node).expect("a node");
        self.nodes[at] = Some(daemon(self.folder.path(), node, "slurmd", &["-D", "-N", node]));
    }

    pub fn stop_controller(&mut self) {
        self.controller.take().into_iter().for_each(stop);
    }

    pub fn start_controller(&mut self) {
        self.controller = Some(daemon(self.folder.path(), "controller", "slurmctld", &["-D"]));
    }

    /// Prints the daemons' messages for a failed test.
    pub fn tell(&self) {
        for name in ["controller", "n1", "n2", "n3", "n4"] {
            let text = std::fs::read_to_string(self.path("log").join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            eprintln!("--- {name}\n{}", lines[lines.len().saturating_sub(12)..].join("\n"));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        _ = self.slurm("scancel", &["--quiet", "--user=root"]);
        _ = self.slurm("scancel", &["--quiet", "--user=nobody"]);
        let began = Instant::now();
        while self.controller.is_some() && !self.queue().is_empty() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(200));
        }
        self.stop_controller();
        self.nodes.iter_mut().filter_map(Option::take).for_each(stop);
        _ = self.munged.kill();
        _ = self.munged.wait();
    }
}

fn stop(mut child: Child) {
    // SAFETY: an unreaped child.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    _ = child.wait();
}

fn daemon(folder: &Path, name: &str, program: &str, args: &[&str]) -> Child {
    let log =
        std::fs::File::options().create(true).append(true).open(folder.join("log").join(name)).expect("our own folder");
    let mut command = Command::new(program);
    command.args(args).env("SLURM_CONF", folder.join("slurm.conf")).current_dir(folder).process_group(0);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let second = log.try_clone().expect("a descriptor");
    command.stdin(Stdio::null()).stdout(log).stderr(second).spawn().expect("Slurm is installed")
}

fn munged(folder: &Path) -> Child {
    let munge = folder.join("munge");
    std::fs::set_permissions(&munge, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("our own folder");
    let mut key = vec![0; 1024];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").expect("it is there"), &mut key)
        .expect("it never ends");
    std::fs::write(munge.join("key"), key).expect("our own folder");
    std::fs::set_permissions(munge.join("key"), std::os::unix::fs::PermissionsExt::from_mode(0o400))
        .expect("our own file");
    let log = std::fs::File::create(folder.join("log/munged")).expect("our own folder");
    let option = |name: &str, file: &str| format!("--{name}={}", munge.join(file).display());
    let child = Command::new("munged")
        .args(["--foreground".to_owned(), option("key-file", "key"), option("socket", "s")])
        .args([option("pid-file", "pid"), option("seed-file", "seed")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("munge is installed");
    let began = Instant::now();
    while !munge.join("s").exists() {
        assert!(began.elapsed() < PATIENCE, "munged does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn configure(folder: &Path, first_job: u64) {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = host.split('.').next().unwrap_or_default().to_owned();
    // All ports are bound at the same time, so each is unique.
    let listeners: Vec<TcpListener> =
        (0..=NODES.len()).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let ports: Vec<u16> = listeners.iter().map(|l| l.local_addr().expect("it is bound").port()).collect();
    drop(listeners);
    let at = folder.display();
    let mut text = format!(
        "ClusterName=fleet\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nAuthType=auth/munge\n\
         AuthInfo=socket={at}/munge/s\nCryptoType=crypto/munge\nSlurmUser=root\nSlurmdUser=root\n\
         StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool/%n\nSlurmctldPidFile={at}/controller.pid\n\
         SlurmdPidFile={at}/%n.pid\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
         SelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\nSchedulerParameters=bf_interval=1\nFirstJobId={first_job}\nReturnToService=2\nSlurmdTimeout=5\nKillWait=3\n\
         MpiDefault=none\nSwitchType=switch/none\nJobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\nSlurmdParameters=config_overrides\n",
        ports[0]
    );
    for (i, (name, port)) in NODES.iter().zip(&ports[1..]).enumerate() {
        let feature = if i < 2 { "small" } else { "large" };
        _ = writeln!(
            text,
            "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000 Feature={feature}"
        );
        std::fs::create_dir(folder.join("spool").join(name)).expect("our own folder");
    }
    text.push_str("PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE\n");
    text.push_str("PartitionName=short Nodes=n[1-2] State=UP MaxTime=2\n");
    std::fs::write(folder.join("slurm.conf"), text).expect("our own folder");
}

/// Processes of one of this cluster's nodes. The daemons of its steps come first, so that they do not report the end of
/// the others.
fn started_on(node: &str, conf: &Path) -> Vec<u32> {
    let (conf, node) = (format!("SLURM_CONF={}", conf.display()), format!("SLURMD_NODENAME={node}"));
    let read = |id: u32, name: &str| std::fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
    let all = std::fs::read_dir("/proc").expect("it is mounted").flatten();
    let numbers = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let ours: Vec<u32> = numbers
        .filter(|id| {
            let variables = read(*id, "environ");
            let has = |wanted: &str| variables.split(|b| *b == 0).any(|v| v == wanted.as_bytes());
            has(&conf) && has(&node)
        })
        .collect();
    let parent = |id: &u32| {
        let status = String::from_utf8_lossy(&read(*id, "status")).into_owned();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse::<u32>().ok()?;
        (read(parent, "comm") == b"slurmstepd\n").then_some(parent)
    };
    let mut steps: Vec<u32> = ours.iter().filter_map(parent).collect();
    steps.sort_unstable();
    steps.dedup();
    steps.into_iter().chain(ours).collect()
}
