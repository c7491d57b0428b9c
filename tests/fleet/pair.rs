//! A server on one node and a sender on another.

use serde_json::Value;

use crate::Test;
use crate::cluster::Cluster;
use crate::command::{Ended, end, run};
use crate::disturbed::has_measured;
use crate::whole::{measured, stored};

pub const TESTS: &[Test] = &[
    Test { name: "fleet::a_server_and_a_sender_run_on_two_nodes", is_long: true, body: two },
    Test { name: "fleet::a_network_run_resumes_after_the_servers_node_returns", is_long: true, body: back },
    Test { name: "fleet::a_cancelled_server_step_is_restarted", is_long: true, body: half },
];

const BENCH: &str = "net bench --slurm --nodes n3,n1 --seed 7 --store s.db --trace off --connections 2 --warmup 100ms";

/// Running job steps with their nodes: `5.batch n1`.
fn steps(cluster: &Cluster) -> Vec<String> {
    let said = cluster.slurm("squeue", &["--noheader", "--steps", "--format=%i %N"]);
    said.stdout.lines().map(|line| line.trim().to_owned()).collect()
}

fn two(cluster: &mut Cluster) {
    let child = cluster.tool(BENCH, &["--engine", "epoll,io_uring", "--quick", "--ship"]).spawn().expect("it starts");
    let (job, server) = cluster.wait_for("a server's step", |c| {
        let on = |node: &str, is: fn(&str) -> bool| {
            steps(c)
                .iter()
                .filter_map(|s| s.split_once(' '))
                .find(|(id, n)| *n == node && is(id))
                .map(|s| s.0.to_owned())
        };
        Some((on("n1", |id| id.ends_with(".batch"))?, on("n3", |id| !id.ends_with(".batch"))?))
    });
    let ended = end(child);
    assert_eq!(ended.status, 0, "{job} {server}: {}", ended.stderr);
    for said in
        ["on 2 nodes (server n3, sender n1)", "if this ends: iotrail net bench --attach ", "n3,n1: has ended, 12 of"]
    {
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
    assert!(ended.stdout.contains("net-bench on 2 nodes, fleet f1: 1 done"), "{}", ended.stdout);
    let run = of(cluster, "f1");
    assert_eq!((&run["seed"], measured(&run)), (&Value::from(7), 12), "{run}");
    let first = &run["cells"][0]["measurements"][0]["net"];
    assert!(first["address"].as_str().is_some_and(|at| at.starts_with("127.0.0.1:")), "{first}");
    assert!(first["server"]["total"]["requests"].as_u64().is_some_and(|n| n > 0), "{first}");
    once(cluster);
    wrong(cluster);
}

/// The run of a pair.
fn of(cluster: &Cluster, fleet: &str) -> Value {
    let answer = run(&mut cluster.tool("report --json --store s.db", &[fleet])).json();
    let node = &answer["fleet"]["nodes"][0];
    assert_eq!((node["node"].as_str(), node["state"].as_str()), (Some("n3,n1"), Some("done")), "{answer}");
    stored(cluster, node)
}

/// A run of one measurement is printed as a measurement.
fn once(cluster: &Cluster) {
    let ended = run(&mut cluster.tool(BENCH, &["--runtime", "300ms"]));
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("requests/s"), "{}", ended.stdout);
    assert_eq!(of(cluster, "f2")["net"]["between"], "loopback", "the nodes are one machine here");
}

fn wrong(cluster: &Cluster) {
    for (line, status, said) in [
        ("--nodes n[1-3]", 2, "a server and a sender need two nodes, but this is 3 nodes"),
        ("--nodes n2", 2, "a server and a sender need two nodes, but this is 1 node"),
        ("--nodes n1,n9", 2, "Slurm has no node n9"),
        ("--nodes n1,n2 --between unix", 2, "--between is of one machine"),
        ("--nodes n1,n2 --engine kqueue", 2, "invalid value 'kqueue' for '--engine <ENGINE>'"),
    ] {
        let ended = run(&mut cluster.tool(&format!("net bench --slurm --store other.db {line}"), &[]));
        assert_eq!((ended.status, ended.stderr.lines().count()), (status, 1), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(said) && !cluster.path("other.db").exists(), "{line}: {}", ended.stderr);
    }
    let line = "net bench --slurm --constraint large --server-address 192.0.2.1 --runtime 300ms --store other.db";
    let ended = run(&mut cluster.tool(line, &[]));
    assert_eq!(ended.status, 3, "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap_or_default();
    assert!(last.contains("the server: cannot listen at 192.0.2.1:0"), "{last}");
}

/// The sender's node notices the loss first, and waits until Slurm restarts the job.
fn back(cluster: &mut Cluster) {
    let child = cluster.tool(BENCH, &["--engine", "epoll,io_uring", "--repeats", "2", "--runtime", "2500ms"]).spawn();
    let child = child.expect("it starts");
    has_measured(cluster, 1);
    cluster.kill_node("n3");
    cluster.wait_for("the job in the queue", |c| c.queue().iter().all(|job| job == "root PENDING").then_some(()));
    cluster.start_node("n3");
    let ended: Ended = end(child);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("n3,n1: is back, and continues"), "{}", ended.stderr);
    assert_eq!(measured(&of(cluster, "f1")), 6);
}

/// A lost step is restarted; if its job is over, the run is partial, and the plan is unchanged.
fn half(cluster: &mut Cluster) {
    let line = ["--engine", "epoll,io_uring", "--repeats", "6", "--runtime", "1500ms"];
    let child = cluster.tool(BENCH, &line).spawn().expect("it starts");
    has_measured(cluster, 1);
    let step =
        steps(cluster).into_iter().find_map(|s| s.strip_suffix(" n3").map(str::to_owned)).expect("a server's step");
    assert_eq!(cluster.slurm("scancel", &[&step]).status, 0);
    let done = |c: &Cluster| crate::disturbed::done(c, 1).unwrap_or_default();
    let before = done(cluster);
    cluster.wait_for("two more measurements", |c| (done(c) > before + 1).then_some(()));
    let parts = cluster.slurm("squeue", &["--noheader", "--format=%A %N"]).stdout;
    let part = parts.lines().find_map(|line| line.trim().strip_suffix(" n3")).expect("the server's part").to_owned();
    assert_eq!(cluster.slurm("scancel", &[&part]).status, 0);
    let ended: Ended = end(child);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let fleet = run(&mut cluster.tool("report f1 --json --store s.db", &[])).json()["fleet"].clone();
    let node = &fleet["nodes"][0];
    assert_eq!(node["state"], "partial", "{fleet}");
    assert_eq!(node["said"], "the job on the server's node: it was cancelled", "{fleet}");
    let stored = stored(cluster, node);
    let cells = stored["cells"].as_array().expect("cells");
    assert!(cells.iter().all(|c| c["untestable"].is_null()), "{cells:?}");
    assert!(ended.stderr.contains(" of 18 measurements: the job on"), "{}", ended.stderr);
    assert!((3..18).contains(&measured(&stored)));
}
