//! Output of Slurm 22.05.8 in Debian 12: four nodes, one of which was killed, and a script that was asked to stop.

use super::*;

const HELD: &str = "4|PENDING||JobHeldUser\n5|PENDING||JobHeldUser\n";
const LOST: &str = "4|COMPLETED|n1|None\n7|RUNNING|n2|None\n5|FAILED|n4|NonZeroExitCode\n6|PENDING||BeginTime\n";

#[test]
fn squeue_output_is_parsed() {
    let held = queued(HELD);
    assert!(held.len() == 2 && held.values().all(|j| j.state == State::Waiting && j.node.is_none()));
    let jobs = queued(LOST);
    let of = |n: u64| (jobs[&n].state, jobs[&n].node.as_deref(), jobs[&n].reason.as_deref());
    assert_eq!(of(5), (State::Ended(Ending::Failed), Some("n4"), Some("NonZeroExitCode")));
    assert_eq!(of(6), (State::Waiting, None, Some("BeginTime")));
    assert_eq!(of(7), (State::Running, Some("n2"), None));
    assert_eq!(of(4), (State::Ended(Ending::Completed), Some("n1"), None));
    assert_eq!(queued("\nsomething else\n"), BTreeMap::new());
}

/// With slurmdbd 22.05.8.
const ACCOUNTED: &str =
    "2|COMPLETED|n1\n3|FAILED|n2\n4|CANCELLED by 0|None assigned\n5|RUNNING|n4\n1|PENDING|None assigned\n";

#[test]
fn sacct_output_is_parsed() {
    let jobs = accounted(ACCOUNTED);
    let of = |n: u64| (jobs[&n].state, jobs[&n].node.as_deref());
    assert_eq!(of(2), (State::Ended(Ending::Completed), Some("n1")));
    assert_eq!(of(3), (State::Ended(Ending::Failed), Some("n2")));
    assert_eq!(of(4), (State::Ended(Ending::Cancelled), None));
    // The controller has forgotten the jobs, so they are no longer running.
    let ended = State::Ended(Ending::Other);
    assert_eq!((of(5), of(1)), ((ended, Some("n4")), (ended, None)));
}

#[test]
fn all_documented_job_states_are_classified() {
    for name in ["PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"] {
        assert_eq!(state(name), State::Waiting, "{name}");
    }
    for name in ["RUNNING", "CONFIGURING", "SUSPENDED", "STAGE_OUT"] {
        assert_eq!(state(name), State::Running, "{name}");
    }
    assert_eq!(state("COMPLETING"), State::Completing);
    for (name, ending) in [
        ("NODE_FAIL", Ending::NodeFailed),
        ("BOOT_FAIL", Ending::NodeFailed),
        ("TIMEOUT", Ending::TimedOut),
        ("OUT_OF_MEMORY", Ending::OutOfMemory),
        ("PREEMPTED", Ending::Preempted),
        ("CANCELLED+", Ending::Cancelled),
        ("A_STATE_TO_COME", Ending::Other),
    ] {
        assert_eq!(state(name), State::Ended(ending), "{name}");
    }
}

#[test]
fn restarts_and_exit_status_are_parsed_from_scontrol() {
    let text = "JobId=6 JobName=iotrail UserId=root(0) JobState=PENDING Reason=BeginTime Dependency=(null) \
                Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=127:0 RunTime=00:00:00 ReqNodeList=n3 ExcNodeList=(null) NodeList=\n";
    assert_eq!(shown(text), Detail { restarts: 1, exit: 127 });
    assert_eq!(shown(""), Detail::default());
}
