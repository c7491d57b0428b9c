//! Replay overhead per no-op, with a null engine and with io_uring.

use std::sync::atomic::AtomicBool;

use iotrail_replay::program::{Op, OpKind, Program, Step, Thread, Wait};
use iotrail_replay::run::{Interface, Options, run};
use iotrail_schema::replay_log::{ReplayInterface, ReplayRing};

const REQUESTS: u32 = 2_000_000;
const DEPTH: u32 = 16;

fn main() {
    let op = Op { kind: OpKind::Nop, sqe_flags: 0, file: 0, flags: 0, len: 0, offset: 0 };
    let step =
        |i: u32| Step { ring: Some(0), ops: 1, needs: (i + 1).saturating_sub(DEPTH), wait_for: 1, ..Step::default() };
    let thread = Thread {
        tid: 1,
        steps: (0..REQUESTS).map(step).collect(),
        ops: vec![op; REQUESTS as usize],
        merges: false,
        has_links: false,
        waits: vec![Wait::Sleep],
        most_in_flight: DEPTH,
    };
    let ring =
        ReplayRing { ring: 0, interface: ReplayInterface::IoUring, sq_entries: 64, cq_entries: 128, setup_flags: 0 };
    let program = Program { rings: vec![ring], threads: vec![thread], ..Program::default() };
    for interface in [Interface::Null, Interface::IoUring] {
        for _ in 0..3 {
            let options = Options { interface: Some(interface), ..Options::default() };
            match run(&program, &options, &[], &mut |_| {}, &AtomicBool::new(false)) {
                Ok(r) => println!("{interface:?}: {:.1} ns per no-op", r.elapsed_ns as f64 / r.ios as f64),
                Err(e) => println!("{interface:?}: {e}"),
            }
        }
    }
}
