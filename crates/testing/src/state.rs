//! Samples of a ring's state.

use iotrail_schema::account::Reason;
use iotrail_schema::state::{
    ArmedRequests, CgroupState, Moment, NagleState, RingNow, RingState, StateRecord, StateSource, ThreadNow,
};

/// A hundred samples in which nothing waits.
pub fn calm() -> StateRecord {
    let ring = RingState {
        tgid: 7,
        fd: Some(3),
        flags: vec!["single_issuer".into(), "defer_taskrun".into()],
        samples: 100,
        most_overflowed: Some(0),
        most_held: Some(0),
        ..RingState::default()
    };
    let nagle = NagleState { sockets: 2, ..NagleState::default() };
    StateRecord {
        source: StateSource::Iterators,
        samples: 100,
        every_ns: Some(20_000_000),
        cost_ns: 5_000_000,
        rings: vec![ring],
        nagle: Some(nagle),
        unread: None,
        drops: None,
        send_buffer: None,
        faults: 0,
        cgroup: Some(CgroupState { throttled: 0, most_bios: 0, quota_ns: 0 }),
        memory: None,
        stuck: None,
        waits: vec![],
        start: None,
        end: None,
    }
}

/// A thread waits in io_uring_enter for a receive whose descriptor is closed.
pub fn hanging() -> Moment {
    let armed = ArmedRequests {
        opcode: "recv".into(),
        requests: 1,
        held: Some(1),
        fd: Some(5),
        user_data: Some("0x2a".into()),
        at_least_ns: Some(12_000_000_000),
    };
    Moment {
        still_ns: Some(1_000_000_000),
        threads: vec![ThreadNow {
            tid: 7,
            tgid: 7,
            comm: "server".into(),
            syscall: Some("io_uring_enter".into()),
            reason: Some(Reason::UringCompletions),
            asleep_ns: Some(12_000_000_000),
        }],
        more_threads: 0,
        rings: vec![RingNow {
            tgid: 7,
            fd: Some(3),
            flags: Some(vec!["single_issuer".into()]),
            in_flight: Some(1),
            unreaped: 0,
            unsubmitted: 0,
            need_wakeup: false,
            unrun: Some(false),
            runner: None,
            overflowed: Some(0),
            armed: vec![armed],
            timeouts: Some(0),
            soonest_timeout_ns: None,
        }],
        unread: vec![],
    }
}
