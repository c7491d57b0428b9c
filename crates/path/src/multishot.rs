//! Identifies completions other than the first of their request.

use std::collections::HashSet;

use iotrail_schema::trail::RequestTrace;

/// Expects trails in the order of posting. Needs 40 bytes per request that has further completions.
#[derive(Debug, Default)]
pub struct Multishot {
    open: HashSet<Request>,
}

/// Ring, process, submission time and user data: unique among concurrent requests.
type Request = (Option<u32>, u32, u64, u64);

impl Multishot {
    /// Whether the request has posted an earlier completion (multishot, or the notification of a zero-copy send). If
    /// so, posted − submitted is not a latency, and stages before *ready* do not belong to this completion.
    pub fn is_later(&mut self, trail: &RequestTrace) -> bool {
        // Nearly every request has a single completion and needs no lookup.
        if !trail.more && !trail.notification && self.open.is_empty() {
            return false;
        }
        // A notification identifies itself and may never come: its request is internal to the kernel and is not
        // traced.
        if trail.is_zero_copy_send() {
            return trail.notification;
        }
        let request = (trail.ring, trail.tgid, trail.submitted.ns, trail.user_data);
        let known = if trail.more { !self.open.insert(request) } else { self.open.remove(&request) };
        known || trail.notification
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trail_example::trail;

    #[test]
    fn all_multishot_completions_but_the_first_are_later_ones() {
        let mut m = Multishot::default();
        let of = |user_data, more| RequestTrace { user_data, more, ..trail() };
        let all = [of(7, true), of(8, false), of(7, true), of(7, false), of(7, false)];
        assert_eq!(all.map(|t| m.is_later(&t)), [false, false, true, true, false]);
        assert!(m.is_later(&RequestTrace { notification: true, ..trail() }));
    }

    #[test]
    fn zero_copy_sends_are_not_tracked_as_multishot() {
        let mut m = Multishot::default();
        let of = |more, notification| RequestTrace { opcode: "send_zc".into(), more, notification, ..trail() };
        assert!(!m.is_later(&of(true, false)) && m.open.is_empty());
        assert!(m.is_later(&of(false, true)));
        assert!(!m.is_later(&of(false, false)), "one that failed has no notification");
    }
}
