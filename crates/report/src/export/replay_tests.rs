use super::*;
use iotrail_schema::replay_log::{ReplayCall, ReplayRing};

fn events() -> Vec<ReplayEvent> {
    let file = |file, path: &str, replayable| {
        let open_flags = O_DIRECT | O_DSYNC | 2;
        ReplayEvent::File(ReplayFile { file, path: path.into(), replayable, open_flags, size: 8192 })
    };
    let request = |at_ns, op, offset, buffer, reaped| {
        let (tid, ring, opcode, sqe_flags, file, len) = (7, 0, 22, FIXED_FILE, Some(0), 4096);
        let r =
            ReplayRequest { tid, ring, at_ns, op, opcode, sqe_flags, file, offset, len, buffer, op_flags: 0, reaped };
        ReplayEvent::Request(r)
    };
    let interface = ReplayInterface::IoUring;
    vec![
        ReplayEvent::Ring(ReplayRing { ring: 0, interface, sq_entries: 8, cq_entries: 16, setup_flags: SQPOLL }),
        file(0, "/data/a", true),
        file(1, "/proc/stat", false),
        request(5_000, ReplayOp::Write, 4096, None, 0),
        request(9_000, ReplayOp::Read, 0, Some(3), 0),
        request(8_000, ReplayOp::Read, u64::MAX, None, 1),
        ReplayEvent::Call(ReplayCall {
            tid: 7,
            ring: 0,
            kind: ReplayCallKind::Enter,
            enter_ns: 4_000,
            exit_ns: 10_000,
            think_ns: 0,
            to_submit: 3,
            min_complete: 1,
            flags: 1,
            result: 3,
            reaped: 0,
            heads_reaped: None,
        }),
        ReplayEvent::Sync(ReplaySync {
            tid: 7,
            enter_ns: 11_000,
            exit_ns: 12_000,
            think_ns: 40,
            op: ReplayOp::Fdatasync,
            file: Some(0),
            offset: 0,
            len: 0,
            op_flags: 0,
            result: 0,
        }),
        ReplayEvent::Sync(ReplaySync {
            tid: 7,
            enter_ns: 12_000,
            exit_ns: 13_000,
            think_ns: 0,
            op: ReplayOp::Read,
            file: Some(1),
            offset: 0,
            len: 10,
            op_flags: 0,
            result: 10,
        }),
        ReplayEvent::Lost { events: 2 },
    ]
}

#[test]
fn each_row_is_a_request_or_a_synchronous_call() {
    let mut out = vec![];
    let mut table = Table::new(&mut out).unwrap();
    events().iter().for_each(|event| table.event(event).unwrap());
    assert_eq!(table.finish().unwrap(), 5);
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[2], "request,7,0,9000,,,read,22,1,0,4096,3,0,0,,0,/data/a");
    assert_eq!(lines[3], "request,7,0,8000,,,read,22,1,,4096,,0,1,,0,/data/a");
    assert_eq!(lines[4], "sync,7,,11000,12000,40,fdatasync,,,0,0,,0,,0,0,/data/a");
}

#[test]
fn reads_in_a_fio_log_are_truncated_at_the_end_of_the_file() {
    let mut out = vec![];
    let mut log = IoLog::new(&mut out).unwrap();
    for mut event in events() {
        match &mut event {
            ReplayEvent::File(file) => file.size = 3000,
            ReplayEvent::Request(r) => r.op = ReplayOp::Read,
            _ => {}
        }
        log.event(&event).unwrap();
    }
    log.finish().unwrap();
    // The read at 4096 is beyond the end.
    assert_eq!((log.written, log.left_out), (2, 3));
    assert!(String::from_utf8(out).unwrap().contains(" /data/a read 0 3000\n"));
}

#[test]
fn a_fio_log_is_in_submission_order_and_its_job_has_the_ring_flags() {
    let (mut out, mut job) = (vec![], Job::default());
    let mut log = IoLog::new(&mut out).unwrap();
    for event in events() {
        job.event(&event);
        log.event(&event).unwrap();
    }
    log.finish().unwrap();
    assert_eq!((log.written, log.left_out), (3, 2));
    let text = String::from_utf8(out).unwrap();
    assert_eq!(
        text,
        "fio version 3 iolog\n0 /data/a add\n0 /data/a open\n0 /data/a write 4096 4096\n4 /data/a read 0 4096\n\
         6 /data/a datasync 0 0\n6 /data/a close\n"
    );
    assert_eq!(
        job.text("x.log"),
        "; replays x.log: writes go to the recorded files\n; /data/a: 8192 bytes, O_DIRECT, O_DSYNC, 3 requests\n\
         [replay]\nread_iolog=x.log\nioengine=io_uring\niodepth=2\niodepth_batch_submit=2\nsqthread_poll=1\n\
         fixedbufs=1\nregisterfiles=1\ndirect=1\nsync=dsync\n"
    );
}
