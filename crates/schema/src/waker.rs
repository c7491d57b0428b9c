//! The event that ended a sleep, or posted a completion from an interrupt.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// An interrupt line and its handler's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number.
    pub irq: u32,
    /// Its handler's name; omitted if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {name}", self.irq),
            None => write!(f, "{}", self.irq),
        }
    }
}

/// The waker of a sleep, and its CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waker {
    /// A device's interrupt.
    Irq {
        /// The interrupt.
        line: Line,
        /// The CPU that took the interrupt.
        cpu: u32,
    },
    /// A kernel vector by name: `timer`, `call_function_single` …
    Vector {
        /// The vector's name.
        name: Cow<'static, str>,
        /// The CPU that took the interrupt.
        cpu: u32,
    },
    /// A softirq that a device's handler raised.
    SoftirqOfIrq {
        /// The interrupt.
        line: Line,
        /// The CPU that took the interrupt.
        cpu: u32,
    },
    /// A softirq that a kernel vector's handler raised.
    SoftirqOfVector {
        /// The vector's name.
        name: Cow<'static, str>,
        /// The CPU that took the interrupt.
        cpu: u32,
    },
    /// Another softirq.
    Softirq {
        /// Its number, in the order of /proc/softirqs.
        nr: u32,
        /// The CPU that ran it.
        cpu: u32,
    },
    /// A thread.
    Thread {
        /// The CPU that it ran on.
        cpu: u32,
    },
    /// An unknown waker.
    Unseen,
}

/// include/linux/interrupt.h; the order is that of /proc/softirqs.
const SOFTIRQS: [&str; 10] =
    ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];

const SOFTIRQ: &str = " (its softirq)";

impl Waker {
    /// The CPU on which the sleep ended.
    pub fn cpu(&self) -> Option<u32> {
        match self {
            Waker::Irq { cpu, .. }
            | Waker::Vector { cpu, .. }
            | Waker::SoftirqOfIrq { cpu, .. }
            | Waker::SoftirqOfVector { cpu, .. }
            | Waker::Softirq { cpu, .. }
            | Waker::Thread { cpu } => Some(*cpu),
            Waker::Unseen => None,
        }
    }

    /// Parses its text. `None`: not the text of a waker with a CPU.
    pub fn read(text: &str) -> Option<Self> {
        let (text, by_softirq) = text.strip_suffix(SOFTIRQ).map_or((text, false), |text| (text, true));
        let (what, cpu) = text.rsplit_once(" on CPU ")?;
        let cpu = cpu.parse().ok()?;
        if what == "a thread" {
            return Some(Waker::Thread { cpu });
        }
        if let Some(line) = what.strip_prefix("irq ") {
            let (irq, name) = line.split_once(' ').map_or((line, None), |(irq, name)| (irq, Some(name.to_owned())));
            let line = Line { irq: irq.parse().ok()?, name };
            return Some(if by_softirq { Waker::SoftirqOfIrq { line, cpu } } else { Waker::Irq { line, cpu } });
        }
        if let Some(name) = what.strip_suffix(" interrupt") {
            let name = Cow::Owned(name.to_owned());
            return Some(if by_softirq { Waker::SoftirqOfVector { name, cpu } } else { Waker::Vector { name, cpu } });
        }
        let by_name = what.strip_suffix(" softirq").and_then(|name| SOFTIRQS.iter().position(|n| *n == name));
        let nr = by_name.map_or_else(|| what.strip_prefix("softirq ")?.parse().ok(), |nr| Some(nr as u32))?;
        Some(Waker::Softirq { nr, cpu })
    }
}

impl std::fmt::Display for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Waker::Irq { line, cpu } => write!(f, "irq {line} on CPU {cpu}"),
            Waker::Vector { name, cpu } => write!(f, "{name} interrupt on CPU {cpu}"),
            Waker::SoftirqOfIrq { line, cpu } => write!(f, "irq {line} on CPU {cpu}{SOFTIRQ}"),
            Waker::SoftirqOfVector { name, cpu } => write!(f, "{name} interrupt on CPU {cpu}{SOFTIRQ}"),
            Waker::Softirq { nr, cpu } => match SOFTIRQS.get(*nr as usize) {
                Some(name) => write!(f, "{name} softirq on CPU {cpu}"),
                None => write!(f, "softirq {nr} on CPU {cpu}"),
            },
            Waker::Thread { cpu } => write!(f, "a thread on CPU {cpu}"),
            Waker::Unseen => f.write_str("something not seen"),
        }
    }
}
