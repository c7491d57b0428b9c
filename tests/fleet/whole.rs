//! Undisturbed runs, and errors that need no nodes.

use serde_json::Value;

use crate::Test;
use crate::cluster::{Cluster, NODES};
use crate::command::{Ended, run};

pub const TESTS: &[Test] = &[
    Test {
        name: "fleet::results_of_four_nodes_are_streamed_without_a_shared_directory",
        is_long: false,
        body: streams,
    },
    Test { name: "fleet::the_program_is_distributed_in_a_shared_directory", is_long: true, body: shared },
    Test { name: "fleet::the_program_is_sent_to_the_nodes_over_a_stream", is_long: true, body: shipped },
    Test { name: "fleet::slurm_chooses_nodes_with_a_feature", is_long: true, body: chosen },
    Test { name: "fleet::slurm_options_in_the_environment_are_ignored", is_long: true, body: surrounded },
    Test { name: "fleet::a_cell_that_a_node_cannot_test_is_reported", is_long: true, body: untestable },
    Test { name: "fleet::a_usage_error_is_one_line_and_leaves_no_job", is_long: true, body: wrong },
];

/// An experiment with two arms: four measurements of this duration.
pub fn experiment(cluster: &Cluster, runtime: &str) {
    let text = format!(
        "name = \"tiny\"\ntitle = \"Two arms\"\nquestion = \"Does it run?\"\nexpect = \"Yes.\"\nrepeats = 2\ncontrol = false\n\n\
         [load]\ntrace = \"off\"\nwarmup = \"0\"\nrw = \"nop\"\nruntime = \"{runtime}\"\n\n\
         [[arm]]\nname = \"default\"\n\n[[arm]]\nname = \"coop\"\nring = \"coop_taskrun\"\n"
    );
    std::fs::write(cluster.path("e.toml"), text).expect("our own folder");
}

/// The fleet that a command printed as JSON.
#[track_caller]
pub fn fleet(ended: &Ended) -> Value {
    let fleet = ended.json();
    assert_eq!(fleet["schema"], "iotrail.fleet/1", "{fleet}");
    fleet
}

pub fn states(fleet: &Value) -> Vec<(&str, &str)> {
    let text = |node: &'_ Value, name: &str| node[name].as_str().map(str::to_owned).unwrap_or_default();
    let of = fleet["nodes"].as_array().expect("a list");
    assert!(of.iter().all(|n| !text(n, "node").is_empty()));
    of.iter().map(|n| (n["node"].as_str().unwrap_or_default(), n["state"].as_str().unwrap_or_default())).collect()
}

/// The stored run of one of the fleet's nodes.
pub fn stored(cluster: &Cluster, node: &Value) -> Value {
    let run_number = node["run"].as_i64().unwrap_or_else(|| panic!("it brought a run: {node}")).to_string();
    run(&mut cluster.tool("report --json --store s.db", &[&run_number])).json()
}

/// Number of measurements over all cells of a run.
pub fn measured(run: &Value) -> usize {
    let cells = run["cells"].as_array().expect("cells");
    cells.iter().map(|c| c["measurements"].as_array().map_or(0, Vec::len)).sum()
}

#[track_caller]
fn whole(cluster: &Cluster, ended: &Ended, nodes: &[&str]) -> Value {
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let fleet = fleet(ended);
    assert_eq!(states(&fleet), nodes.iter().map(|n| (*n, "done")).collect::<Vec<_>>(), "{fleet}");
    assert!(fleet["finished_unix_s"].is_u64(), "{fleet}");
    let runs: Vec<Value> = fleet["nodes"].as_array().expect("a list").iter().map(|n| stored(cluster, n)).collect();
    for run in &runs {
        assert_eq!((measured(run), &run["seed"]), (4, &serde_json::json!(7)), "{run}");
        // Each node runs the same load in a given block.
        let seeds = |run: &Value| run["cells"][0]["measurements"][1]["load"]["seed"].clone();
        assert_eq!(seeds(run), seeds(&runs[0]));
    }
    assert_eq!(
        std::fs::read_dir(cluster.path(""))
            .expect("our own")
            .flatten()
            .filter(|e| { e.file_name().to_string_lossy().contains("-slurm-") })
            .count(),
        0,
        "nothing waits to be collected"
    );
    fleet
}

fn streams(cluster: &mut Cluster) {
    experiment(cluster, "300ms");
    let ended = run(&mut cluster.tool("run e.toml --slurm --nodes n[1-4] --seed 7 --store s.db --json", &[]));
    whole(cluster, &ended, &NODES);
    for said in ["n3: runs", "n3: has ended, 4 of 4 measurements", "iotrail run --attach "] {
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}

fn shared(cluster: &mut Cluster) {
    experiment(cluster, "300ms");
    std::fs::create_dir(cluster.path("shared folder")).expect("our own folder");
    let dir = cluster.path("shared folder");
    let line = "run e.toml --slurm --nodes n2,n4 --ship --seed 7 --store s.db --json --shared";
    let ended = run(&mut cluster.tool(line, &[dir.to_str().expect("UTF-8")]));
    whole(cluster, &ended, &["n2", "n4"]);
    assert_eq!(std::fs::read_dir(dir).expect("our own").count(), 0, "nothing is left there");
}

fn shipped(cluster: &mut Cluster) {
    experiment(cluster, "300ms");
    // Line ends as written by an editor on another operating system.
    let text = std::fs::read_to_string(cluster.path("e.toml")).expect("our own file");
    std::fs::write(cluster.path("e.toml"), text.replace('\n', "\r\n")).expect("our own folder");
    let ended = run(&mut cluster.tool("run e.toml --slurm --nodes n1,n3 --ship --seed 7 --store s.db --json", &[]));
    whole(cluster, &ended, &["n1", "n3"]);
}

fn chosen(cluster: &mut Cluster) {
    experiment(cluster, "300ms");
    let line = "run e.toml --slurm --count 2 --constraint large --sbatch";
    let more = ["--comment='of a test' --partition=all", "--seed", "7", "--store", "s.db", "--json"];
    let ended = run(&mut cluster.tool(line, &more));
    whole(cluster, &ended, &["n3", "n4"]);
    let ended = run(&mut cluster.tool("run e.toml --slurm --count 3 --constraint large --store other.db", &[]));
    assert_eq!((ended.status, ended.stderr.lines().count()), (3, 1), "{}", ended.stderr);
    let said = "iotrail: Slurm cannot allocate 3 nodes with the features large: ";
    assert!(ended.stderr.starts_with(said) && !cluster.path("other.db").exists(), "{}", ended.stderr);
}

/// The environment of a user who queries another partition's jobs from within a job.
fn surrounded(cluster: &mut Cluster) {
    experiment(cluster, "300ms");
    let mut command = cluster.tool("run e.toml --slurm --nodes n1,n3 --seed 7 --store s.db --json", &[]);
    for (variable, value) in [
        ("SQUEUE_PARTITION", "none"),
        ("SQUEUE_STATES", "COMPLETED"),
        ("SINFO_PARTITION", "none"),
        ("SCANCEL_STATE", "PENDING"),
        ("SBATCH_ARRAY_INX", "1-3"),
        ("SBATCH_WAIT", "1"),
        ("SLURM_PARTITION", "none"),
        ("SLURM_NTASKS", "9"),
        ("SLURM_JOB_ID", "9999"),
    ] {
        command.env(variable, value);
    }
    whole(cluster, &run(&mut command), &["n1", "n3"]);
}

/// Polled I/O requires a drive with poll queues.
fn untestable(cluster: &mut Cluster) {
    let text = format!(
        "name = \"tiny\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nrepeats = 1\ncontrol = false\n\n\
         [load]\ntrace = \"off\"\nwarmup = \"0\"\ncount = 64\n\n[[arm]]\nname = \"nop\"\nrw = \"nop\"\n\n\
         [[arm]]\nname = \"polled\"\nrw = \"randread\"\nring = \"iopoll\"\nsize = \"1m\"\nfile = \"{}\"\n",
        cluster.path("data").display()
    );
    std::fs::write(cluster.path("e.toml"), text).expect("our own folder");
    let ended = run(&mut cluster.tool("run e.toml --slurm --nodes n1,n2 --store s.db --json", &[]));
    let fleet = fleet(&ended);
    for node in fleet["nodes"].as_array().expect("a list") {
        let said = node["said"].as_str().unwrap_or_default();
        assert!(said.starts_with("1 of 2 cells not testable there: "), "{fleet}");
        assert_eq!((node["state"].as_str(), measured(&stored(cluster, node))), (Some("done"), 1), "{fleet}");
    }
    assert_eq!(ended.status, 0);
}

fn wrong(cluster: &mut Cluster) {
    experiment(cluster, "300ms");
    for (line, status, said) in [
        ("--nodes n[1-9]", 2, "Slurm has no node n5"),
        ("--nodes n1,n1", 2, "--nodes has n1 twice"),
        ("", 2, "--slurm does not specify any nodes"),
        ("--nodes n1 --sbatch --partition=none", 3, "cannot submit to Slurm: "),
        (
            "--nodes n1 --sbatch --nodelist=n3",
            2,
            "--sbatch cannot contain --nodelist: each job is bound to its own node; specify",
        ),
        ("--nodes n1 --sbatch -Q", 2, "--sbatch cannot contain --quiet: iotrail reads what sbatch prints; omit it"),
        ("--nodes rack-[a,b]", 2, "cannot read --nodes 'rack-[a,b]': "),
        ("--nodes n1 --shared /nowhere", 2, "--shared /nowhere is not a directory"),
        ("--nodes n1 --ship --detach", 2, "no process would copy iotrail to a node whose job starts later"),
    ] {
        let ended = run(&mut cluster.tool(&format!("run e.toml --slurm --store s.db {line}"), &[]));
        assert_eq!((ended.status, ended.stderr.lines().count()), (status, 1), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{line}: {}", ended.stderr);
        assert!(!cluster.path("s.db").exists(), "{line}");
    }
    let ended = run(&mut cluster.tool("run --attach 4711 --store s.db", &[]));
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("no --slurm job 4711 is waiting to be collected"), "{}", ended.stderr);
}
