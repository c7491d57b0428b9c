//! The kind of a request, and names of the threads involved.

use iotrail_schema::trail::RequestTrace;

/// The request is a poll: its submission arms it.
pub(super) fn polls(t: &RequestTrace) -> bool {
    t.opcode == "poll_add"
}

/// By a request or call that cancels others, or by its linked timeout; for a linked timeout itself, by the end of its request.
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
