//! A user's program on nodes: in its own directory, unmodified, with its own metrics.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::Test;
use crate::cluster::Cluster;
use crate::command::{Ended, run};
use crate::whole::{measured, stored};

pub const TESTS: &[Test] = &[Test { name: "fleet::a_program_is_tried_on_two_nodes", is_long: true, body: tried }];

/// Twice as fast if FAST is set. Can only be started from its own directory, and prints its input.
const PROGRAM: &str = "#!/bin/sh
[ -f ./input ] || { echo 'prog: no input here' >&2; exit 4; }
[ -z \"$XDG_CACHE_HOME\" ] && [ \"$(umask)\" = 0022 ] || { echo 'prog: other surroundings' >&2; exit 4; }
n=$(date +%s%N)
echo \"speed = $((1000 + ${n%??????} % 7 + ${FAST:-0}))\"
";

fn program(cluster: &Cluster) {
    let work = cluster.path("my work");
    std::fs::create_dir(&work).expect("our own folder");
    std::fs::write(work.join("input"), "").expect("our own folder");
    std::fs::write(work.join("prog"), PROGRAM).expect("our own folder");
    std::fs::set_permissions(work.join("prog"), PermissionsExt::from_mode(0o755)).expect("our own file");
}

fn tool(cluster: &Cluster, line: &str, more: &[&str]) -> Ended {
    run(cluster.tool(line, more).current_dir(cluster.path("my work")))
}

fn tried(cluster: &mut Cluster) {
    program(cluster);
    let line = "try --slurm --nodes n[1-2] --seed 7 --repeats 8 --store ../s.db --env-arm FAST=1000 --metric";
    let ended = tool(cluster, line, &["speed=/speed = ([0-9]+)/", "--", "./prog"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("if this ends: iotrail try --attach "), "{}", ended.stderr);
    // The screen starts with both nodes' answer.
    let shown = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.starts_with("FAST=1000 against as-is: "), "{shown}");
    assert!(shown.contains(" higher speed ") && shown.contains("on average of 2 machines; holds on 2 of 2"), "{shown}");
    assert!(shown.ends_with("try on 2 nodes, fleet f1: 2 done"), "{shown}");

    let answer = run(&mut cluster.tool("report f1 --json --store s.db", &[])).json();
    let speed = answer["effects"].as_array().expect("a list").iter().find(|e| e["metric"] == "speed");
    let ratio = speed.and_then(|e| e["ratio"].as_f64()).expect("its own figure is compared");
    assert!((1.98..=2.01).contains(&ratio), "{ratio}");
    let fleet = &answer["fleet"];
    let command = fleet["command"].as_str().unwrap_or_default();
    assert!(command.starts_with("iotrail try --slurm --nodes 'n[1-2]' --seed 7 "), "{command}");
    assert!(command.ends_with(" -- ./prog"), "{command}");
    for node in fleet["nodes"].as_array().expect("a list") {
        let run = stored(cluster, node);
        let arms: Vec<&str> = run["arms"].as_array().expect("arms").iter().filter_map(|a| a["name"].as_str()).collect();
        assert_eq!((arms, &run["seed"], measured(&run)), (vec!["as-is", "FAST=1000"], &Value::from(7), 24), "{run}");
    }
    cannot(cluster);
}

/// The node reports a failure in a single line.
fn cannot(cluster: &Cluster) {
    let line = "try --slurm --nodes n1 --store ../other.db --metric speed=([0-9]+) --env-arm X=1 --";
    let ended = tool(cluster, line, &["sh", "-c", "echo prog: not a terminal >&2; test -t 0"]);
    assert_eq!((ended.status, cluster.path("other.db").exists()), (3, false), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("iotrail: nothing was measured on any node: n1: "), "{last}");
    assert!(last.contains("not a terminal"), "{last}");

    let (task, shared) = (cluster.path("task"), cluster.path("shared"));
    [&task, &shared].into_iter().for_each(|folder| std::fs::create_dir(folder).expect("our own folder"));
    let paths = [task.to_str().expect("UTF-8"), "1", "--shared", shared.to_str().expect("UTF-8")];
    let mut on_node = cluster.tool("slurm-node measure", &paths);
    assert_eq!(run(on_node.args(["--within", "/not/here", "--", "run", "coop"])).status, 3);
    let text = std::fs::read_to_string(shared.join("task-1.ended")).expect("it says how it ended");
    assert!(text.contains("it has no directory /not/here, where the program is to run: start iotrail from"), "{text}");
}
