//! Runs while a cluster is disturbed: a lost node or controller, Ctrl-C, a closed terminal, other users' jobs.

use std::process::Child;
use std::time::Duration;

use serde_json::Value;

use crate::Test;
use crate::cluster::Cluster;
use crate::command::{Ended, end, kill, run};
use crate::whole::{experiment, fleet, measured, states, stored};

pub const TESTS: &[Test] = &[
    Test { name: "fleet::ctrl_c_keeps_the_results_measured_so_far", is_long: false, body: stopped },
    Test { name: "fleet::ctrl_c_during_submission_leaves_no_job", is_long: true, body: submitting },
    Test {
        name: "fleet::jobs_of_a_command_killed_during_submission_are_collected",
        is_long: true,
        body: half_submitted,
    },
    Test { name: "fleet::results_of_other_nodes_are_complete_if_a_node_is_lost", is_long: true, body: lost },
    Test { name: "fleet::a_job_resumes_on_a_node_that_returns", is_long: true, body: back },
    Test { name: "fleet::a_run_survives_a_restart_of_the_controller", is_long: true, body: controller },
    Test { name: "fleet::a_job_is_collected_after_its_terminal_has_closed", is_long: true, body: closed },
    Test { name: "fleet::sigterm_of_the_command_does_not_affect_the_job", is_long: true, body: killed },
    Test { name: "fleet::results_of_a_drained_node_are_collected_after_it_returns", is_long: true, body: drained },
    Test { name: "fleet::results_of_a_reserved_node_are_collected", is_long: true, body: reserved },
    Test {
        name: "fleet::a_node_that_stays_drained_is_given_up_after_the_specified_time",
        is_long: true,
        body: given_up,
    },
    Test { name: "fleet::results_are_fetched_within_a_short_time_limit", is_long: true, body: short },
    Test { name: "fleet::cancelled_and_killed_jobs_leave_no_files", is_long: true, body: ended_by_others },
    Test { name: "fleet::a_node_that_cannot_write_to_the_shared_directory_is_collected", is_long: true, body: emptied },
    Test { name: "fleet::no_results_are_lost_if_the_collectors_disk_is_full", is_long: true, body: full },
    Test { name: "fleet::a_run_waits_for_another_users_job", is_long: true, body: neighbour },
];

/// Starts a run of a few seconds on these nodes, and waits until each node has made a measurement.
fn started(cluster: &Cluster, nodes: &str, more: &[&str]) -> Child {
    experiment(cluster, "2500ms");
    let line = format!("run e.toml --slurm --nodes {nodes} --seed 7 --store s.db --json");
    cluster.tool(&line, more).spawn().expect("it starts")
}

/// Waits until at least one measurement of this task has arrived.
pub fn has_measured(cluster: &Cluster, task: u32) {
    cluster.wait_for("a measurement", |c| done(c, task).filter(|done| *done > 0).map(drop));
}

/// Number of this task's measurements that have arrived.
pub fn done(cluster: &Cluster, task: u32) -> Option<u64> {
    let entries = std::fs::read_dir(cluster.path("")).ok()?.flatten();
    let inbox = entries.map(|e| e.path()).find(|p| p.to_string_lossy().contains("s.db-slurm-"))?;
    let text = std::fs::read(inbox.join(format!("task-{task}.progress"))).ok()?;
    serde_json::from_slice::<Value>(&text).ok()?["done"].as_u64()
}

fn node<'a>(fleet: &'a Value, name: &str) -> &'a Value {
    fleet["nodes"].as_array().expect("a list").iter().find(|n| n["node"] == name).expect("it was asked for")
}

#[track_caller]
fn partial(cluster: &Cluster, fleet: &Value, name: &str) {
    let node = node(fleet, name);
    assert_eq!(node["state"], "partial", "{fleet}");
    let done = measured(&stored(cluster, node));
    assert!((1..4).contains(&done), "{done} of 4");
}

#[track_caller]
fn whole(cluster: &Cluster, fleet: &Value, name: &str) {
    let node = node(fleet, name);
    assert_eq!((node["state"].as_str(), measured(&stored(cluster, node))), (Some("done"), 4), "{fleet}");
}

fn stopped(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-2]", &[]);
    (1..=2).for_each(|task| has_measured(cluster, task));
    let job =
        kept(cluster).iter().find_map(|name| name.strip_prefix("s.db-slurm-").map(str::to_owned)).expect("it is kept");
    let other = attached(cluster, &job);
    let said =
        format!("iotrail: another iotrail process (process {}) is watching job {job}, and collects it; ", child.id());
    assert!(other.status == 3 && other.stderr.starts_with(&said), "{}", other.stderr);
    kill(child.id(), libc::SIGINT);
    let ended = end(child);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let fleet = fleet(&ended);
    for name in ["n1", "n2"] {
        partial(cluster, &fleet, name);
        assert_eq!(node(&fleet, name)["said"], "it was told to stop", "{fleet}");
    }
}

/// Starts a run on two nodes. Submits its first job; for the second job, sbatch executes `lines`.
fn half(cluster: &Cluster, lines: &str) -> Child {
    experiment(cluster, "300ms");
    let (bin, sbatch) = (cluster.path("bin"), cluster.path("bin/sbatch"));
    std::fs::create_dir(&bin).expect("our own folder");
    let text = format!("#!/bin/sh\n[ -e first ] && {{ {lines}; }}\n/usr/bin/sbatch \"$@\" || exit\n: >first\n",);
    std::fs::write(&sbatch, text).expect("our own folder");
    std::fs::set_permissions(&sbatch, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("our own file");
    let mut command = cluster.tool("run e.toml --slurm --nodes n[1-2] --seed 7 --store s.db --json", &[]);
    let child = command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).spawn().expect("it starts");
    cluster.wait_for("the second submission", |c| c.path("second").exists().then_some(()));
    child
}

/// The run's directories next to the store.
fn kept(cluster: &Cluster) -> Vec<String> {
    let entries = std::fs::read_dir(cluster.path("")).expect("our own folder").flatten();
    entries.filter_map(|e| e.file_name().into_string().ok()).filter(|name| name.starts_with("s.db")).collect()
}

fn submitting(cluster: &mut Cluster) {
    let child = half(cluster, ": >second; sleep 2");
    kill(child.id(), libc::SIGINT);
    let ended = end(child);
    assert_eq!((ended.status, ended.stderr.lines().count()), (3, 1), "{}", ended.stderr);
    let said = "iotrail: interrupted during submission; the submitted jobs were cancelled";
    assert_eq!((ended.stderr.trim(), kept(cluster)), (said, vec![]));
    cluster.wait_for("an empty queue", |c| c.queue().is_empty().then_some(()));
    // A job cancelled before its first measurement leaves its directory behind.
    cluster.tidy();
}

/// A submitted job is collected after the command was killed.
fn half_submitted(cluster: &mut Cluster) {
    let child = half(cluster, ": >second; sleep 2; exit 1");
    kill(child.id(), libc::SIGKILL);
    assert_eq!(end(child).status, 128 + libc::SIGKILL);
    let folders = kept(cluster);
    let job = folders.iter().find_map(|name| name.strip_prefix("s.db-slurm-")).expect("it is kept");
    let ended = attached(cluster, job);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let fleet = fleet(&ended);
    whole(cluster, &fleet, "n1");
    let other = node(&fleet, "n2");
    assert_eq!(other["state"], "failed", "{fleet}");
    assert_eq!(other["said"], "iotrail was killed before it submitted its job", "{fleet}");
}

/// The lost node never returns.
fn lost(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-4]", &["--lost-after", "8s"]);
    has_measured(cluster, 3);
    cluster.kill_node("n3");
    let ended = end(child);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let fleet = fleet(&ended);
    partial(cluster, &fleet, "n3");
    ["n1", "n2", "n4"].into_iter().for_each(|name| whole(cluster, &fleet, name));
    let said = node(&fleet, "n3")["said"].as_str().unwrap_or_default().to_owned();
    assert!(said.starts_with("it was lost after ") && said.ends_with(", and did not come back"), "{said}");
    assert!(ended.stderr.contains("n3: lost after "), "{}", ended.stderr);
    // The node died, so its files stay until it returns.
    cluster.tidy();
}

/// The job resumes on the returned node, without repeating measurements.
fn back(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-4]", &[]);
    has_measured(cluster, 3);
    cluster.kill_node("n3");
    cluster.wait_for("the node to be down", |c| {
        c.slurm("sinfo", &["--noheader", "--nodes=n3", "--format=%T"]).stdout.starts_with("down").then_some(())
    });
    cluster.start_node("n3");
    let ended = end(child);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let fleet = fleet(&ended);
    ["n1", "n2", "n3", "n4"].into_iter().for_each(|name| whole(cluster, &fleet, name));
    assert!(ended.stderr.contains("n3: is back, and continues"), "{}", ended.stderr);
}

fn controller(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-4]", &[]);
    has_measured(cluster, 1);
    cluster.stop_controller();
    std::thread::sleep(Duration::from_secs(3));
    cluster.start_controller();
    let ended = end(child);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let fleet = fleet(&ended);
    ["n1", "n2", "n3", "n4"].into_iter().for_each(|name| whole(cluster, &fleet, name));
}

/// Ends the command with this signal before the job ends; returns the job's ID once the job has ended too.
fn ended_before(cluster: &Cluster, child: Child, signal: libc::c_int, status: i32) -> String {
    has_measured(cluster, 1);
    kill(child.id(), signal);
    let ended = end(child);
    assert_eq!(ended.status, status, "{}", ended.stderr);
    let (_, job) = ended.stderr.split_once("--attach ").expect("it was told");
    let job = job.split_whitespace().next().expect("a number").to_owned();
    assert_eq!(cluster.queue().len(), 2, "the job goes on");
    cluster.wait_for("the end of the job", |c| c.queue().is_empty().then_some(()));
    job
}

fn attached(cluster: &Cluster, job: &str) -> Ended {
    run(&mut cluster.tool(&format!("run --json --store s.db --attach {job}"), &[]))
}

/// Another command collects the job after it has ended.
fn closed(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-2]", &[]);
    let job = ended_before(cluster, child, libc::SIGHUP, 128 + libc::SIGHUP);
    let ended = attached(cluster, &job);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let fleet = fleet(&ended);
    ["n1", "n2"].into_iter().for_each(|name| whole(cluster, &fleet, name));
    assert_eq!(attached(cluster, &job).status, 2, "it is collected once");
}

/// A signal that kills only the command does not affect the job.
fn killed(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-2]", &[]);
    let job = ended_before(cluster, child, libc::SIGTERM, 3);
    let fleet = fleet(&attached(cluster, &job));
    ["n1", "n2"].into_iter().for_each(|name| whole(cluster, &fleet, name));
}

/// Results that arrived earlier are not regarded as complete.
fn drained(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-2]", &[]);
    has_measured(cluster, 2);
    let job = ended_before(cluster, child, libc::SIGHUP, 128 + libc::SIGHUP);
    let n2 =
        |state: &str| cluster.slurm("scontrol", &["update", "NodeName=n2", &format!("State={state}"), "Reason=disk"]);
    assert_eq!(n2("DRAIN").status, 0);
    let ended = attached(cluster, &job);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let first = fleet(&ended);
    whole(cluster, &first, "n1");
    assert_eq!((&node(&first, "n2")["state"], &node(&first, "n2")["run"]), (&Value::from("waiting"), &Value::Null));
    assert!(ended.stderr.contains("may still be there: Slurm reports it as drained: disk"), "{}", ended.stderr);
    assert_eq!(n2("RESUME").status, 0);
    let ended = attached(cluster, &job);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let second = fleet(&ended);
    ["n1", "n2"].into_iter().for_each(|name| whole(cluster, &second, name));
}

/// After the specified time, the results so far count.
fn given_up(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-2]", &[]);
    has_measured(cluster, 2);
    let job = ended_before(cluster, child, libc::SIGHUP, 128 + libc::SIGHUP);
    let drain = ["update", "NodeName=n2", "State=DRAIN", "Reason=disk"];
    assert_eq!(cluster.slurm("scontrol", &drain).status, 0);
    let ended = attached(cluster, &format!("{job} --lost-after 3s"));
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let fleet = fleet(&ended);
    whole(cluster, &fleet, "n1");
    partial(cluster, &fleet, "n2");
    assert_eq!(node(&fleet, "n2")["said"], "given up after 3 s: Slurm reports it as drained: disk", "{fleet}");
    assert!(fleet["finished_unix_s"].is_u64() && kept(cluster) == ["s.db"], "{fleet}");
    // Its files are not fetched.
    cluster.tidy();
}

/// The partition's limit is below the usual limit of a fetching job.
fn short(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-2]", &["--sbatch", "--partition=short"]);
    let job = ended_before(cluster, child, libc::SIGHUP, 128 + libc::SIGHUP);
    let ended = attached(cluster, &job);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let fleet = fleet(&ended);
    ["n1", "n2"].into_iter().for_each(|name| whole(cluster, &fleet, name));
}

/// Slurm's reason is reported, the measurements return, and the directories are removed.
fn ended_by_others(cluster: &mut Cluster) {
    let child = started(cluster, "n[1-2]", &[]);
    (1..=2).for_each(|task| has_measured(cluster, task));
    let jobs = cluster.slurm("squeue", &["--noheader", "--format=%A %N"]).stdout;
    let of =
        |name: &str| jobs.lines().find_map(|line| line.trim().strip_suffix(name)).expect("it runs").trim().to_owned();
    assert_eq!(cluster.slurm("scancel", &[&of("n1")]).status, 0);
    assert_eq!(cluster.slurm("scancel", &["--signal=KILL", "--full", &of("n2")]).status, 0);
    let ended = end(child);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let fleet = fleet(&ended);
    ["n1", "n2"].into_iter().for_each(|name| partial(cluster, &fleet, name));
    assert_eq!(node(&fleet, "n1")["said"], "it was cancelled", "{fleet}");
    assert!(!ended.stderr.contains("cannot be fetched"), "{}", ended.stderr);
}

/// Results that a node cannot write to the shared directory are fetched from the node.
fn emptied(cluster: &mut Cluster) {
    let shared = cluster.path("shared");
    std::fs::create_dir(&shared).expect("our own folder");
    let child = started(cluster, "n1", &["--shared", shared.to_str().expect("UTF-8")]);
    let outbox = cluster.wait_for("a measurement", |_| {
        let outbox = std::fs::read_dir(&shared).ok()?.flatten().next()?.path();
        outbox.join("task-1.progress").exists().then_some(outbox)
    });
    std::fs::remove_dir_all(outbox).expect("our own folder");
    let ended = end(child);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    whole(cluster, &fleet(&ended), "n1");
}

/// The job does not occupy its node for a collector that cannot receive data, and no data is lost.
fn full(cluster: &mut Cluster) {
    experiment(cluster, "2500ms");
    let tiny = Mounted::new(cluster.path("tiny"));
    let child = cluster.tool("run e.toml --slurm --nodes n1 --seed 7 --store tiny/s.db --json", &[]).spawn();
    let child = child.expect("it starts");
    cluster.wait_for("the job", |c| c.queue().contains(&"root RUNNING n1".to_owned()).then_some(()));
    let filler = tiny.0.join("filler");
    // Fill the disk.
    _ = std::io::copy(&mut std::io::repeat(0), &mut std::fs::File::create(&filler).expect("our own folder"));
    let ended = end(child);
    assert_ne!(ended.status, 0, "{}", ended.stderr);
    for said in
        ["n1: its results cannot be fetched now: No space left", "n1: its results stay on the node until they can"]
    {
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
    std::fs::remove_file(&filler).expect("our own file");
    let (_, job) = ended.stderr.split_once("--attach ").expect("it was told");
    let job = job.split_whitespace().next().expect("a number").to_owned();
    let ended = run(&mut cluster.tool(&format!("run --json --store tiny/s.db --attach {job}"), &[]));
    let fleet = fleet(&ended);
    assert_eq!((ended.status, states(&fleet)), (0, vec![("n1", "done")]), "{fleet}");
}

/// A small, separate file system.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(at: std::path::PathBuf) -> Self {
        std::fs::create_dir(&at).expect("our own folder");
        let mount = ["-t", "tmpfs", "-o", "size=600k", "tmpfs"];
        let mounted = std::process::Command::new("mount").args(mount).arg(&at).status().expect("it is installed");
        assert!(mounted.success());
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A fetching job uses the original job's reservation, or none if it no longer exists.
fn reserved(cluster: &mut Cluster) {
    for is_gone in [false, true] {
        let create = [
            "create",
            "reservation",
            "ReservationName=r",
            "StartTime=now",
            "Duration=60",
            "Users=root",
            "Nodes=n[1-2]",
        ];
        let created = cluster.slurm("scontrol", &create);
        assert_eq!(created.status, 0, "{}", created.stderr);
        let child = started(cluster, "n[1-2]", &["--sbatch", "--reservation=r"]);
        let job = ended_before(cluster, child, libc::SIGHUP, 128 + libc::SIGHUP);
        if is_gone {
            cluster.slurm("scontrol", &["delete", "ReservationName=r"]);
        }
        let ended = attached(cluster, &job);
        assert_eq!(ended.status, 0, "{is_gone} {}", ended.stderr);
        let fleet = fleet(&ended);
        ["n1", "n2"].into_iter().for_each(|name| whole(cluster, &fleet, name));
        cluster.slurm("scontrol", &["delete", "ReservationName=r"]);
    }
}

/// This job waits for its turn, and does not affect the other job.
fn neighbour(cluster: &mut Cluster) {
    let sleeps = [
        "--parsable",
        "--uid=nobody",
        "--exclusive",
        "--nodelist=n2",
        "--chdir=/",
        "--output=/dev/null",
        "--wrap=sleep 600",
    ];
    let theirs = cluster.slurm("sbatch", &sleeps);
    assert_eq!(theirs.status, 0, "{}", theirs.stderr);
    cluster.wait_for("their job", |c| c.queue().contains(&"nobody RUNNING n2".to_owned()).then_some(()));
    let child = started(cluster, "n[1-2]", &[]);
    has_measured(cluster, 1);
    assert!(cluster.queue().contains(&"root PENDING".to_owned()), "{:?}", cluster.queue());
    kill(child.id(), libc::SIGINT);
    let ended = end(child);
    let fleet = fleet(&ended);
    assert_eq!((ended.status, states(&fleet)[1]), (1, ("n2", "failed")), "{fleet}");
    partial(cluster, &fleet, "n1");
    assert_eq!(cluster.queue(), ["nobody RUNNING n2"]);
    cluster.slurm("scancel", &[theirs.stdout.trim()]);
}
