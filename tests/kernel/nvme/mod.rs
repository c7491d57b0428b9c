//! NVMe drives of the lab: passthrough, iotrail's own driver, polled queues; failing and removed drives.
//!
//! These tests write to the drives, so they run only on the lab's drives (emulated by QEMU, with serial numbers that
//! start with `lab`): one that retains its data and has a poll queue, and one with errors at the positions in
//! [`faults`].
//!
//! ```text
//! iotrail lab run --nvme queues=2,poll=1,size=64m,data=keep \
//!     --nvme queues=1,poll=1,size=16m,data=keep,errors=read@1m,errors=write@2m -- target/checked/deps/kernel-… nvme::
//! ```

mod drive;
mod faults;
mod own;
mod passthrough;
mod polled;

use libtest_mimic::Trial;

/// Why these tests cannot run here; `None` if they can.
pub fn missing() -> Option<String> {
    drive::all().is_empty().then(|| "no NVMe drive of the lab is here".into())
}

pub fn trials() -> Vec<Trial> {
    let missing = missing().is_some();
    let all = [passthrough::trials(), polled::trials(), own::trials(), faults::trials()];
    all.into_iter().flatten().map(|t| t.with_ignored_flag(missing)).collect()
}
