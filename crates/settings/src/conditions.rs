//! Host conditions of an experiment: valid values that are not yet checked against this host.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use iotrail_host::cpu::{format_list, parse_list};

/// Host conditions of a cell; `None` leaves a setting unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Conditions {
    /// CPUs that may receive the target's interrupts: `"0,2-3"`, or a single number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq_affinity: Option<CpuList>,
    /// I/O scheduler of the target's disks: `none`, `mq-deadline`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Maximum number of requests in the scheduler, or in the queue if there is no scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u32>,
    /// Whether the target's queues can be polled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_poll: Option<bool>,
    /// Number of hardware queues without an interrupt, set by rebinding the device to its driver; only for an unused
    /// device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_queues: Option<u32>,
    /// Frequency governor of all CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// CPUs' worth of time that the load may use: 0.5 is half a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<Quota>,
}

impl Conditions {
    /// Keys as written in an experiment file.
    pub const NAMES: &[&str] =
        &["irq-affinity", "scheduler", "nr-requests", "io-poll", "poll-queues", "governor", "cpu-quota"];

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// One setting per condition, in the order of setting: rebinding a device resets its queues, and each scheduler has
    /// its own `nr_requests`.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let all = [
            self.poll_queues.map(Setting::PollQueues),
            self.governor.clone().map(Setting::Governor),
            self.irq_affinity.clone().map(Setting::IrqAffinity),
            self.scheduler.clone().map(Setting::Scheduler),
            self.nr_requests.map(Setting::NrRequests),
            self.io_poll.map(Setting::IoPoll),
            self.cpu_quota.map(Setting::CpuQuota),
        ];
        all.into_iter().flatten().collect()
    }
}

/// One condition.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setting {
    PollQueues(u32),
    Governor(String),
    IrqAffinity(CpuList),
    Scheduler(String),
    NrRequests(u32),
    IoPoll(bool),
    CpuQuota(Quota),
}

/// CPU numbers in ascending order without duplicates; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    pub fn parse(text: &str) -> Result<Self, String> {
        match parse_list(text)? {
            cpus if cpus.is_empty() => Err("a CPU list needs at least one CPU: write 0,2-3".into()),
            cpus => Ok(Self(cpus)),
        }
    }

    pub fn cpus(&self) -> &[u32] {
        &self.0
    }
}

impl fmt::Display for CpuList {
    /// In the kernel's format: `0,2-3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_list(&self.0))
    }
}

impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = CpuList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of CPUs such as \"0,2-3\", or the number of one")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<CpuList, E> {
                CpuList::parse(text).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, cpu: i64) -> Result<CpuList, E> {
                self.visit_str(&cpu.to_string())
            }

            fn visit_u64<E: de::Error>(self, cpu: u64) -> Result<CpuList, E> {
                self.visit_str(&cpu.to_string())
            }
        }

        deserializer.deserialize_any(Text)
    }
}

/// CPUs' worth of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Quota(f64);

impl Quota {
    /// Period of the quota; the kernel's default.
    pub const PERIOD_US: u64 = 100_000;
    /// The kernel's minimum is 1 ms per period, and no machine has more CPUs.
    const RANGE: std::ops::RangeInclusive<f64> = 0.01..=8192.0;

    pub fn cpus(self) -> f64 {
        self.0
    }

    /// Quota in µs per [`Self::PERIOD_US`].
    pub fn us(self) -> u64 {
        (self.0 * Self::PERIOD_US as f64).round() as u64
    }
}

impl TryFrom<f64> for Quota {
    type Error = String;

    fn try_from(cpus: f64) -> Result<Self, String> {
        match Self::RANGE.contains(&cpus) {
            true => Ok(Self(cpus)),
            false => Err(format!("invalid quota of {cpus} CPUs: use 0.01 to 8192")),
        }
    }
}

impl From<Quota> for f64 {
    fn from(quota: Quota) -> f64 {
        quota.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(toml: &str) -> Result<Conditions, String> {
        toml::from_str(toml).map_err(|e| e.message().to_owned())
    }

    #[test]
    fn only_known_setting_names_are_accepted_as_keys() {
        let all = "irq-affinity = '0,2-3'\nscheduler = 'none'\nnr-requests = 64\nio-poll = true\npoll-queues = 2\n\
                   governor = 'performance'\ncpu-quota = 0.5";
        let c = parsed(all).unwrap();
        assert_eq!(c.irq_affinity.as_ref().unwrap().cpus(), [0, 2, 3]);
        assert_eq!(c.cpu_quota.unwrap().us(), 50_000);
        assert_eq!(c.settings().len(), Conditions::NAMES.len());
        let json = serde_json::to_value(&c).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut names = Conditions::NAMES.to_vec();
        names.sort_unstable();
        assert_eq!(keys, names);
        assert_eq!(serde_json::from_value::<Conditions>(json).unwrap(), c);
        assert!(parsed("swappiness = 1").unwrap_err().contains("unknown field `swappiness`"));
        assert!(Conditions::default().is_empty() && !c.is_empty());
    }

    #[test]
    fn invalid_setting_values_are_rejected() {
        assert_eq!(parsed("irq-affinity = 3").unwrap().irq_affinity, Some(CpuList(vec![3])));
        assert_eq!(parsed("cpu-quota = 2").unwrap().cpu_quota.map(Quota::us), Some(200_000));
        for (bad, says) in [
            ("irq-affinity = ''", "needs at least one"),
            ("irq-affinity = '3-1'", "is in descending order"),
            ("irq-affinity = -1", "not a CPU number"),
            ("irq-affinity = true", "a list of CPUs such as"),
            ("cpu-quota = 0", "invalid quota of 0 CPUs"),
            ("cpu-quota = nan", "invalid quota of NaN CPUs"),
            ("cpu-quota = 9e9", "invalid quota of "),
            ("nr-requests = -1", "invalid value"),
            ("io-poll = 1", "invalid type"),
        ] {
            let e = parsed(bad).unwrap_err();
            assert!(e.contains(says), "{bad}: {e}");
        }
    }
}
