//! An example as input for tests.

use super::delivery_path::DeliveryPath;
use super::trail::{Before, Course, RequestTrace, Stamp};

/// A read of one block whose completion was pending from 101 µs until the tick at 3 ms.
pub fn trail() -> RequestTrace {
    let stamp = |ns: u64, cpu| Stamp { ns: 5_000_000_000 + ns, cpu };
    RequestTrace {
        ring: Some(0),
        tgid: 4711,
        tid: 4712,
        opcode: "read_fixed".into(),
        weight: 1,
        user_data: 7,
        file: None,
        descriptor: None,
        asked_bytes: Some(4096),
        offset: None,
        buffer: None,
        result: 4096,
        more: false,
        notification: false,
        enter_batch: Some(1),
        punted: None,
        submitted: stamp(0, 0),
        issued: Some(stamp(12_000, 0)),
        ready: Some(stamp(101_000, 1)),
        ended: None,
        queued: None,
        posted: stamp(3_000_000, 0),
        before: Before::default(),
        partly_observed: false,
        course: Course::Block,
        block_requests: 1,
        vehicle: DeliveryPath::TimerTick,
        detail: None,
        run_items: Some(1),
        meanwhile: None,
        wake: None,
        on_cpu: None,
        switches_meanwhile: Some(0),
    }
}
