//! What kind of request it is, and names of what had to do with it.

use iotrail_schema::trail::RequestTrace;

/// It is a poll itself: its submission arms it.
pub(super) fn polls(t: &RequestTrace) -> bool {
    t.opcode == "poll_add"
}

/// By a request or call that takes others back, or by its linked timeout; of a linked timeout itself, since what it was for had ended.
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
