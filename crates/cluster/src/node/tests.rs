//! A node's state, given Slurm's reports on the node and its job.

use super::*;

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

/// n1 in a state as printed by sinfo.
fn context<'a>(submitted: &'a Submitted, state: &str, lost_after: Duration) -> Context<'a> {
    let node = nodes::Node { state: state.into(), reason: Some("the disk".into()) };
    Context {
        submitted,
        attach: "",
        lost_after,
        give_up: None,
        beside: Path::new("/nowhere"),
        nodes: BTreeMap::from([("n1".to_owned(), node)]),
    }
}

fn node(dir: &tempfile::TempDir) -> Node {
    Node::new(1, 7, "n1", "n1".into(), Outbox::new(dir.path(), 1))
}

fn job(state: State, reason: &str) -> Job {
    Job { state, node: Some("n1".into()), reason: Some(reason.into()) }
}

#[test]
fn results_on_a_drained_node_are_fetched_later() {
    let (dir, submitted) = (tempfile::tempdir().unwrap(), submitted());
    let context = context(&submitted, "drained", Duration::ZERO);
    for (ending, lies) in [(Ending::Completed, true), (Ending::TimedOut, true), (Ending::NodeFailed, false)] {
        let mut node = node(&dir);
        let said = node.step(Some(&job(State::Ended(ending), "")), &context).unwrap();
        assert_eq!((node.at, node.left_behind), (NodePlace::Over(ending), lies), "{said}");
        assert_eq!(said.ends_with("may still be there: Slurm reports it as drained: the disk"), lies, "{said}");
    }
}

#[test]
fn a_lost_node_is_given_up_unless_it_returns_busy_or_within_the_time() {
    let (dir, submitted) = (tempfile::tempdir().unwrap(), submitted());
    let (away, busy) = (context(&submitted, "down*", Duration::ZERO), context(&submitted, "allocated", Duration::ZERO));
    let lost = |requeued| {
        let mut node = node(&dir);
        (node.at, node.requeued) = (NodePlace::Requeued, requeued);
        node
    };
    assert_eq!(lost(1).given_up(&away).as_deref(), Some("it was lost, and did not come back"));
    assert_eq!(lost(1).given_up(&busy), None);
    assert_eq!(lost(2).given_up(&busy).as_deref(), Some("its job was requeued twice"));
    let unknown = Context { nodes: BTreeMap::new(), ..busy };
    assert!(lost(1).given_up(&unknown).is_some() && node(&dir).given_up(&unknown).is_none());
    assert_eq!(node(&dir).given_up(&away).as_deref(), Some("Slurm reports it as down: the disk"));
    let patient = context(&submitted, "down*", Duration::from_secs(60));
    assert_eq!(lost(1).given_up(&patient), None);
}

#[test]
fn node_preemption_is_distinguished_from_node_loss() {
    let (dir, submitted) = (tempfile::tempdir().unwrap(), submitted());
    let minute = Duration::from_secs(60);
    for (state, said) in [("allocated", "back in the queue"), ("down*", "lost; waiting up to 60 s for it to return")] {
        let mut node = node(&dir);
        node.at = NodePlace::Running;
        let waits = job(State::Waiting, "Resources");
        assert_eq!(node.step(Some(&waits), &context(&submitted, state, minute)).as_deref(), Some(said));
        assert_eq!(node.at, NodePlace::Requeued);
    }
}

#[test]
fn the_reason_for_a_long_wait_is_reported_once() {
    let (dir, submitted) = (tempfile::tempdir().unwrap(), submitted());
    let context = context(&submitted, "idle", Duration::ZERO);
    let mut node = node(&dir);
    let mut said = |reason| node.step(Some(&job(State::Waiting, reason)), &context);
    assert_eq!(said("Resources"), None);
    assert_eq!(said("AssocMaxJobsLimit").as_deref(), Some("waits: AssocMaxJobsLimit"));
    assert_eq!((said("Priority"), said("AssocMaxJobsLimit")), (None, None));
    assert_eq!(said("JobHeldUser").as_deref(), Some("waits: JobHeldUser"));
}

#[test]
fn a_missing_program_is_reported_with_advice_for_its_installation() {
    let of = |program: &Program| why_it_did_not_begin(127, program).unwrap();
    assert!(of(&Program::Installed("/usr/bin/iotrail".into())).contains("--ship copies it"));
    assert!(of(&Program::At("/shared/iotrail".into())).contains("--shared"));
    assert!(of(&Program::Comes).starts_with("iotrail did not arrive there within 10 minutes of its start"));
    assert_eq!(why_it_did_not_begin(1, &Program::Comes), None, "it ran");
}

fn ended(status: i32, said: &str) -> Ended {
    let said = (!said.is_empty()).then(|| said.into());
    Ended { node: "n1".into(), status, said, has_reason: true, restarts: 0 }
}

/// Stopped or killed: the run reports no reason.
fn without_reason(status: i32, said: &str) -> Ended {
    Ended { has_reason: false, ..ended(status, said) }
}

#[test]
fn slurms_reason_takes_precedence_over_the_nodes_report() {
    let (dir, submitted) = (tempfile::tempdir().unwrap(), submitted());
    let context = context(&submitted, "idle", Duration::ZERO);
    let mut node = node(&dir);
    let limit = "it exceeded Slurm's time limit (--sbatch '--time=…')";
    for (ending, of_node, said) in [
        (Ending::TimedOut, Some(without_reason(1, "it was told to stop")), Some(limit)),
        (Ending::TimedOut, Some(without_reason(3, "it ended with signal: 15 (SIGTERM)")), Some(limit)),
        (Ending::Cancelled, Some(without_reason(1, "it was told to stop")), Some("it was cancelled")),
        (Ending::Cancelled, None, Some("it was cancelled")),
        (Ending::OutOfMemory, Some(ended(3, "no room")), Some("it ran out of memory: no room")),
        (Ending::Failed, Some(ended(3, "no room")), Some("no room")),
        (Ending::Cancelled, Some(ended(0, "")), None),
    ] {
        assert_eq!(node.why_ended(ending, of_node.as_ref(), &context).as_deref(), said, "{ending:?} {of_node:?}");
    }
    // This process requested it, so the node reports the result.
    node.stopped = true;
    let stopped = without_reason(1, "it was told to stop");
    assert_eq!(node.why_ended(Ending::Failed, Some(&stopped), &context), stopped.said);
}

#[test]
fn a_single_failed_fetch_step_is_not_reported() {
    let said: Vec<Option<String>> = (1..=OFTEN + 1).map(|n| said_of_failure(n, "no room")).collect();
    assert_eq!(said.iter().flatten().count(), 2);
    assert!(said[0].is_none() && said[1].is_some() && said[OFTEN as usize - 1].is_some());
}

#[test]
fn a_drained_node_is_given_up_after_the_requested_time() {
    let (dir, submitted) = (tempfile::tempdir().unwrap(), submitted());
    let over = job(State::Ended(Ending::Completed), "");
    let patient = Context { give_up: Some(Duration::from_secs(60)), ..context(&submitted, "drained", Duration::ZERO) };
    let mut node = node(&dir);
    assert_eq!((node.step(Some(&over), &patient), node.is_over()), (None, false));
    let done = Context { give_up: Some(Duration::ZERO), ..context(&submitted, "drained", Duration::ZERO) };
    let said = node.step(Some(&over), &done).unwrap();
    assert_eq!(said, "has ended: given up after 0 s: Slurm reports it as drained: the disk");
    assert!(node.is_over() && !node.left_behind, "what has come is taken");
}

#[test]
fn complete_results_received_earlier_do_not_require_the_node() {
    let (dir, submitted) = (tempfile::tempdir().unwrap(), submitted());
    let mut node = node(&dir);
    node.inbox.put(Item::Store, b"a store").unwrap();
    node.inbox.put(Item::Progress, br#"{"done":4,"planned":4}"#).unwrap();
    let over = job(State::Ended(Ending::Completed), "");
    let said = node.step(Some(&over), &context(&submitted, "drained", Duration::ZERO)).unwrap();
    assert!(said.starts_with("has ended, 4 of 4 measurements: all results had arrived before; "), "{said}");
    assert!(!node.left_behind && node.whole_without.is_some());
}
