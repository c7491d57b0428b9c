//! Stores the results: a run for each node with measurements, and the state of all other nodes.

use std::path::Path;

use super::node::{Node, NodePlace};
use super::on_node::NOT_LEFT;
use super::submitted::Submitted;
use super::without_advice;
use iotrail_base::error::{Error, Result};
use iotrail_base::grouped::grouped;
use iotrail_base::plain::sanitise;
use iotrail_base::words::{list, plural};
use iotrail_host::clock;
use iotrail_schema::fleet_record::{FleetNode, FleetRecord, NodeState};
use iotrail_schema::run_record::RunRecord;
use iotrail_slurm::control;
use iotrail_slurm::state::Ending;
use iotrail_store::Store;

/// The nodes' stored results.
pub struct Collected {
    pub record: FleetRecord,
    /// Number of nodes in the jobs, including server nodes.
    pub nodes: usize,
    /// The command that collects the remaining results.
    pub attach: String,
}

/// Stores the results.
pub fn collect(submitted: &Submitted, nodes: &[Node], store: &mut Store, attach: String) -> Result<Collected> {
    let path = store.path().to_owned();
    let gone = || {
        let what = format!("fleet f{} is no longer in {}", submitted.fleet, path.display());
        Error::machine(what, "another program removed it")
    };
    let before = store.fleet(submitted.fleet)?.ok_or_else(gone)?;
    let is_open = |node: &&Node| before.nodes.iter().any(|n| n.node == node.called && !n.state.has_ended());
    for node in unsubmitted(submitted) {
        store.set_node(submitted.fleet, &node)?;
    }
    let is_waiting = take_in(submitted, nodes.iter().filter(is_open), store)?;
    if !is_waiting {
        store.finish_fleet(submitted.fleet, clock::unix_s())?;
        // No job should be left; if Slurm's reports were wrong, a remaining job would be orphaned.
        _ = control::cancel(&submitted.jobs);
        submitted.forget(&path);
    }
    let record = store.fleet(submitted.fleet)?.ok_or_else(gone)?;
    if !is_waiting && record.runs().next().is_none() {
        store.forget_fleet(submitted.fleet)?;
        let why: Vec<(&str, &str)> =
            record.nodes.iter().map(|n| (n.node.as_str(), n.said.as_deref().unwrap_or(n.state.words()))).collect();
        let what = match nodes.iter().any(|node| node.is_missing) {
            true => "no node returned results",
            false => "nothing was measured on any node",
        };
        return Err(Error::machine(what, "").because(together(why)));
    }
    let nodes = record.nodes.len() * (1 + usize::from(submitted.second.is_some()));
    Ok(Collected { record, nodes, attach })
}

/// Groups messages of nodes: each reason once, with its nodes.
fn together(all: Vec<(&str, &str)>) -> String {
    let reasons = grouped(all.into_iter().map(|(node, why)| (why, node.to_owned())));
    let reasons: Vec<String> = reasons.iter().map(|(why, nodes)| format!("{}: {why}", list(nodes))).collect();
    reasons.join(". ")
}

/// Stores the results of these nodes. Returns true if a node has more results pending.
fn take_in<'n>(submitted: &Submitted, nodes: impl Iterator<Item = &'n Node>, store: &mut Store) -> Result<bool> {
    let mut is_waiting = false;
    for node in nodes {
        // A node's unreadable result does not affect other nodes.
        let brought = brought(node, submitted, store).unwrap_or_else(|e| unread(node, &e));
        is_waiting |= !brought.state.has_ended();
        store.set_node(submitted.fleet, &brought)?;
    }
    Ok(is_waiting)
}

/// Nodes without a job.
fn unsubmitted(submitted: &Submitted) -> impl Iterator<Item = FleetNode> {
    let said = Some("iotrail was killed before it submitted its job".to_owned());
    let node = move |name: &String| FleetNode {
        node: submitted.called(name),
        state: NodeState::Failed,
        run: None,
        said: said.clone(),
    };
    submitted.nodes.iter().skip(submitted.jobs.len()).map(node)
}

/// Leaves the data in place.
fn unread(node: &Node, e: &Error) -> FleetNode {
    let said = Some(format!("its results cannot be stored: {}", without_advice(e)));
    FleetNode { node: node.called.clone(), state: NodeState::Waiting, run: None, said }
}

/// Stores a node's results; does nothing while results are pending, because a node recorded as ended is not queried
/// again.
fn brought(node: &Node, submitted: &Submitted, store: &mut Store) -> Result<FleetNode> {
    if let Some(other) = node.ran_elsewhere() {
        // Measurements must not be attributed to a different machine.
        let said = Some(format!("Slurm ran it on {other}; the measurements of that node are discarded"));
        return Ok(FleetNode { node: node.called.clone(), state: NodeState::Failed, run: None, said });
    }
    let is_whole = node.has_store() && !node.left_behind;
    let file = is_whole.then(|| submitted.at_hand(store.path(), &node.inbox, node.task)).transpose()?;
    // On failure, none of the data has been stored, so it will be collected again.
    let outline = file.as_deref().map(last_run).transpose()?.flatten();
    let run = match file.filter(|_| outline.is_some()) {
        Some(file) => store.take_in(&file)?.into_iter().next_back(),
        None => None,
    };
    let status = node.inbox.ended().map(|e| e.status);
    if let (Some(run), Some(_)) = (run, &node.whole_without)
        && outline.as_ref().is_some_and(|record| record.finished_unix_s.is_none())
    {
        store.finish(run, clock::unix_s())?;
    }
    let is_lost = node.at == NodePlace::Over(Ending::NodeFailed);
    let state = match (&outline, status) {
        (Some(record), status) if is_done(record, status) || node.whole_without.is_some() => NodeState::Done,
        _ if node.left_behind => NodeState::Waiting,
        (Some(_), _) => NodeState::Partial,
        (None, _) if is_lost => NodeState::Lost,
        // The machine does not permit it.
        (None, Some(3)) => NodeState::CannotTest,
        (None, _) => NodeState::Failed,
    };
    let untestable: Vec<&str> =
        outline.iter().flat_map(|record| &record.cells).filter_map(|cell| cell.untestable.as_deref()).collect();
    let cells = untestable.first().map(|why| {
        let all = outline.as_ref().map_or(0, |record| record.cells.len());
        format!("{} of {} not testable there: {why}", untestable.len(), plural(all, "cell"))
    });
    // Messages of srun or a program may contain arbitrary characters.
    let said: Vec<String> = node.said.iter().map(|said| sanitise(said)).chain(cells).collect();
    Ok(FleetNode { node: node.called.clone(), state, run, said: (!said.is_empty()).then(|| said.join("; ")) })
}

/// Whether all possible measurements were made, judging by the node's own store even if its process could not report
/// that.
fn is_done(record: &RunRecord, status: Option<i32>) -> bool {
    let is_status = status.is_none_or(|status| status == 0 || status == i32::from(NOT_LEFT));
    is_status && record.finished_unix_s.is_some() && record.corruption.is_none()
}

/// A node's run, from its own store.
fn last_run(file: &Path) -> Result<Option<RunRecord>> {
    let Some(theirs) = Store::open(file)? else { return Ok(None) };
    let last = theirs.list()?.into_iter().next_back();
    last.map(|run| theirs.outline(run.run)).transpose().map(Option::flatten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::fleet_record::SCHEMA;
    use iotrail_slurm::outbox::{Ended, Item, Outbox};
    use iotrail_slurm::script::Program;
    use iotrail_testing::run::two_by_two;
    use iotrail_testing::sample;

    /// A node whose store has returned with this many measurements.
    fn node(dir: &tempfile::TempDir, task: u32, measured: u32) -> Node {
        let name = format!("n{task}");
        let node = Node::new(task, 40 + u64::from(task), &name, name.clone(), Outbox::new(dir.path(), task));
        let mut theirs = Store::create_or_open(&node.inbox.path(Item::Store)).unwrap();
        let run = theirs.begin(&two_by_two(), "{}").unwrap();
        for block in 1..=measured {
            theirs.save(run, 1, block, &sample::measurement(), &sample::histogram()).unwrap();
        }
        node
    }

    #[test]
    fn partial_results_are_not_stored_while_the_node_has_more() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
        let mut node = node(&dir, 1, 1);
        let submitted = fleet(std::slice::from_ref(&node), &mut store);
        node.left_behind = true;
        let first = brought(&node, &submitted, &mut store).unwrap();
        assert_eq!((first.state, first.run, store.list().unwrap().len()), (NodeState::Waiting, None, 0));
        node.left_behind = false;
        let second = brought(&node, &submitted, &mut store).unwrap();
        assert_eq!((second.state, second.run), (NodeState::Partial, Some(1)));
    }

    fn fleet(nodes: &[Node], store: &mut Store) -> Submitted {
        let waiting = |n: &Node| FleetNode { node: n.called.clone(), state: NodeState::Waiting, run: None, said: None };
        let record = FleetRecord {
            schema: SCHEMA.into(),
            fleet: 0,
            name: "slurm 41".into(),
            experiment: "two-by-two".into(),
            plan: "{}".into(),
            command: None,
            started_unix_s: 1_772_366_400,
            finished_unix_s: None,
            nodes: nodes.iter().map(waiting).collect(),
        };
        Submitted {
            command: "run".into(),
            job: 41,
            jobs: nodes.iter().map(|n| n.job).collect(),
            fleet: store.begin_fleet(&record).unwrap(),
            nodes: nodes.iter().map(|n| n.name.clone()).collect(),
            second: None,
            program: Program::Comes,
            shared: None,
            queue: vec![],
            user: None,
        }
    }

    #[test]
    fn a_reason_shared_by_several_nodes_is_reported_once() {
        assert_eq!(together(vec![("n1", "no"), ("n2", "gone"), ("n3", "no")]), "n1 and n3: no. n2: gone");
    }

    #[test]
    fn complete_results_of_an_unreachable_node_are_stored() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
        let mut node = node(&dir, 1, 1);
        let submitted = fleet(std::slice::from_ref(&node), &mut store);
        node.whole_without = Some("all results had arrived before".into());
        let brought = brought(&node, &submitted, &mut store).unwrap();
        assert_eq!((brought.state, brought.run), (NodeState::Done, Some(1)));
        assert!(store.load(1).unwrap().unwrap().finished_unix_s.is_some());
    }

    #[test]
    fn a_finished_run_is_done_without_its_nodes_report() {
        let finished = RunRecord { finished_unix_s: Some(1), ..two_by_two() };
        assert!([None, Some(0), Some(74)].into_iter().all(|status| is_done(&finished, status)));
        assert!(!is_done(&finished, Some(1)) && !is_done(&RunRecord { finished_unix_s: None, ..finished }, Some(0)));
    }

    #[test]
    fn results_measured_on_the_wrong_node_are_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
        let nodes = [node(&dir, 1, 1), node(&dir, 2, 1)];
        let submitted = fleet(&nodes, &mut store);
        for (node, ran) in nodes.iter().zip(["n3", "n2"]) {
            let ended = Ended { node: ran.into(), status: 1, said: None, has_reason: false, restarts: 0 };
            node.inbox.put(Item::Ended, &serde_json::to_vec(&ended).unwrap()).unwrap();
        }
        let first = brought(&nodes[0], &submitted, &mut store).unwrap();
        assert_eq!((first.state, first.run), (NodeState::Failed, None));
        assert_eq!(first.said.as_deref(), Some("Slurm ran it on n3; the measurements of that node are discarded"));
        assert_eq!(brought(&nodes[1], &submitted, &mut store).unwrap().state, NodeState::Partial);
    }

    #[test]
    fn an_unreadable_store_does_not_block_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
        let nodes = [node(&dir, 1, 1), node(&dir, 2, 1)];
        let submitted = fleet(&nodes, &mut store);
        let damaged = nodes[0].inbox.path(Item::Store);
        std::fs::write(&damaged, "no store at all, and long enough to be read as one").unwrap();
        let states = |store: &Store| {
            let of = store.fleet(submitted.fleet).unwrap().unwrap().nodes;
            of.into_iter().map(|n| (n.state, n.run.is_some())).collect::<Vec<_>>()
        };
        assert!(take_in(&submitted, nodes.iter(), &mut store).unwrap(), "it is asked again");
        assert_eq!(states(&store), [(NodeState::Waiting, false), (NodeState::Partial, true)]);
        assert!(damaged.exists());
        let said = store.fleet(submitted.fleet).unwrap().unwrap().nodes[0].said.clone().unwrap();
        assert!(said.contains(&damaged.display().to_string()) && !said.contains("--store"), "{said}");
        std::fs::copy(nodes[1].inbox.path(Item::Store), &damaged).unwrap();
        assert!(!take_in(&submitted, nodes[..1].iter(), &mut store).unwrap());
        assert_eq!(states(&store)[0], (NodeState::Partial, true));
    }

    #[test]
    fn results_in_a_shared_directory_are_read_in_addition_to_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
        let node = node(&dir, 1, 1);
        let submitted = Submitted { shared: Some(dir.path().into()), ..fleet(std::slice::from_ref(&node), &mut store) };
        let file = node.inbox.path(Item::Store);
        assert_eq!(
            Submitted { shared: None, ..submitted.clone() }.at_hand(store.path(), &node.inbox, 1).unwrap(),
            file
        );
        let here = submitted.at_hand(store.path(), &node.inbox, 1).unwrap();
        assert!(here != file && here.exists() && file.exists());
        assert_eq!(brought(&node, &submitted, &mut store).unwrap().state, NodeState::Partial);
    }
}
