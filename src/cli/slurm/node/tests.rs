//! What becomes of a node, by what Slurm tells of it and of its job.

use super::*;
use iotrail_slurm::script::Program;

fn submitted() -> Submitted {
    Submitted {
        command: "run".into(),
        job: 7,
        jobs: vec![7],
        fleet: 1,
        nodes: vec!["n1".into()],
        second: None,
        program: Program::Installed("/usr/bin/iotrail".into()),
        shared: None,
        queue: vec![],
        user: None,
    }
}

/// n1 as sinfo has it.
fn context<'a>(submitted: &'a Submitted, state: &str, lost_after: Duration) -> Context<'a> {
    let node = nodes::Node { state: state.into(), reason: Some("the disk".into()) };
    Context { submitted, attach: "", lost_after, nodes: BTreeMap::from([("n1".to_owned(), node)]) }
}

fn node(dir: &tempfile::TempDir) -> Node {
    Node::new(1, 7, "n1", "n1".into(), Outbox::new(dir.path(), 1))
}

fn job(state: State, reason: &str) -> Job {
    Job { state, node: Some("n1".into()), reason: Some(reason.into()) }
}

#[test]
fn what_lies_on_a_drained_node_is_fetched_later() {
    let (dir, submitted) = (tempfile::tempdir().unwrap(), submitted());
    let context = context(&submitted, "drained", Duration::ZERO);
    for (ending, lies) in [(Ending::Completed, true), (Ending::TimedOut, true), (Ending::NodeFailed, false)] {
        let mut node = node(&dir);
        let said = node.step(Some(&job(State::Ended(ending), "")), &context).unwrap();
        assert_eq!((node.at, node.left_behind), (At::Over(ending), lies), "{said}");
        assert_eq!(said.ends_with("may lie there still: Slurm has it drained: the disk"), lies, "{said}");
    }
}
