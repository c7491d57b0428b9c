//! Traced requests in flight at the end.

use std::collections::BTreeMap;

use crate::counted::OTHERS;
use crate::rings::OpenCounts;
use crate::skel::types;
use crate::{files, opcode, trails};
use iotrail_host::clock::monotonic_ns;

/// Counts by ring, opcode and the stage in which the requests wait.
pub(super) fn open(trails: &[types::trail]) -> Vec<OpenCounts> {
    let now = monotonic_ns();
    let mut all: BTreeMap<_, OpenCounts> = BTreeMap::new();
    for t in trails {
        let open = all.entry((t.ring, t.tgid, t.opcode, t.course.0)).or_insert_with(|| OpenCounts {
            ring: (t.ring != OTHERS).then_some(t.ring),
            tgid: t.tgid,
            opcode: opcode::opcode(t.opcode.into()),
            course: trails::course(t.course),
            requests: 0,
            estimated: 0,
            multishot: 0,
            closed: 0,
            oldest_ns: 0,
            user_data: 0,
            file: None,
            descriptor: None,
        });
        open.requests += 1;
        open.estimated += u64::from(t.weight.max(1));
        open.multishot += u64::from(t.shots > 0);
        open.closed += u64::from(t.marks.0 & types::trail_mark::TRAIL_RING_CLOSED.0 != 0);
        // If the kernel ended the request with its ring, until that time.
        let until_ns = if t.posted_ns != 0 { t.posted_ns } else { now };
        let age_ns = until_ns.saturating_sub(t.submitted_ns);
        if age_ns >= open.oldest_ns {
            (open.oldest_ns, open.user_data) = (age_ns, t.user_data);
            (open.file, open.descriptor) = (files::seen(t), files::descriptor(t, &open.opcode));
        }
    }
    let mut all: Vec<OpenCounts> = all.into_values().collect();
    all.sort_by_key(|open| std::cmp::Reverse(open.oldest_ns));
    all
}
