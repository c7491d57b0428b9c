//! The kind of a request, and the names of the threads involved.

use iotrail_schema::trail::RequestTrace;

/// Whether the request is a poll, which submission only arms.
pub(super) fn polls(t: &RequestTrace) -> bool {
    t.opcode == "poll_add"
}

/// Whether another request or call, or its linked timeout, cancelled the request. A linked timeout is cancelled when
/// its request completes.
pub(super) fn was_cancelled(t: &RequestTrace) -> bool {
    const ECANCELED: i32 = 125;
    t.result == -ECANCELED
}

pub(super) fn is_timeout(t: &RequestTrace) -> bool {
    matches!(t.opcode.as_str(), "timeout" | "link_timeout")
}

pub(super) const FINISHED: &str = "a kernel worker of the file system had finished it";

pub(super) fn of(detail: &Option<String>) -> String {
    detail.as_ref().map_or(String::new(), |d| format!(" ({d})"))
}
