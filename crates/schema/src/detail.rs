//! The detail of a delivery path. Records and JSON contain its text; only this type writes and parses that text.

use std::fmt;

use crate::waker::Waker;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// `enter`: task work was ready.
    Ready,
    /// `enter`: the thread slept.
    Slept(Waker),
    /// A system call, an interrupt, or the known part of an `unknown` path.
    Other(String),
}

const READY: &str = "ready";
const SLEPT: &str = "slept";
const WOKEN: &str = ", woken by ";

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detail::Ready => f.write_str(READY),
            Detail::Slept(waker) => write!(f, "{SLEPT}{WOKEN}{waker}"),
            Detail::Other(text) => f.write_str(text),
        }
    }
}

impl From<&str> for Detail {
    fn from(text: &str) -> Self {
        match text.strip_prefix(SLEPT).map(|rest| rest.strip_prefix(WOKEN).and_then(Waker::read)) {
            Some(waker) => Detail::Slept(waker.unwrap_or(Waker::Unseen)),
            None if text == READY => Detail::Ready,
            None => Detail::Other(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waker::Line;

    #[test]
    fn each_waker_round_trips_through_its_text() {
        let line = |name: Option<&str>| Line { irq: 36, name: name.map(str::to_owned) };
        for waker in [
            Waker::Irq { line: line(Some("nvme0q2 on CPU 7, x")), cpu: 1 },
            Waker::Irq { line: line(None), cpu: 1 },
            Waker::SoftirqOfIrq { line: line(Some("virtio1-req.0")), cpu: 2 },
            Waker::Vector { name: "timer".into(), cpu: 3 },
            Waker::SoftirqOfVector { name: "call_function_single".into(), cpu: 4 },
            Waker::Softirq { nr: 3, cpu: 5 },
            Waker::Softirq { nr: 77, cpu: 5 },
            Waker::Thread { cpu: 6 },
            Waker::Unseen,
        ] {
            let detail = Detail::Slept(waker);
            assert_eq!(Detail::from(detail.to_string().as_str()), detail);
        }
        assert_eq!((Detail::from("slept"), Detail::from("ready")), (Detail::Slept(Waker::Unseen), Detail::Ready));
        assert_eq!(Detail::from("futex"), Detail::Other("futex".into()));
    }
}
