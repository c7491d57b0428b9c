//! Ring setup flags: their names, the kernel's rules, and messages for rejected combinations.
//!
//! Only requested flags are set.

use std::str::FromStr;

use iotrail_schema::setup_flag::{self, SetupFlag};

iotrail_schema::named! {
    /// A setup flag on the command line. The value of `cqsize` is in [`Setup::cq_entries`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Flag {
        CoopTaskrun = "coop_taskrun",
        TaskrunFlag = "taskrun_flag",
        DeferTaskrun = "defer_taskrun",
        SingleIssuer = "single_issuer",
        Sqpoll = "sqpoll",
        Iopoll = "iopoll",
        HybridIopoll = "hybrid_iopoll",
        SubmitAll = "submit_all",
        /// No index array between the submission queue and its entries.
        NoSqarray = "no_sqarray",
        Cqsize = "cqsize",
    }
}

impl Flag {
    fn entry(self) -> &'static SetupFlag {
        setup_flag::find(self.name()).expect("the table has every flag")
    }

    pub fn bit(self) -> u32 {
        self.entry().bit
    }

    /// The first kernel version with this flag (io_uring_setup(2)).
    pub fn since(self) -> (u32, u32) {
        self.entry().since
    }

    /// Flags that the kernel requires together with this flag, so a probe of this flag has to set them too.
    pub(crate) fn companions(self) -> u32 {
        self.entry().with
    }
}

/// The requested flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    pub flags: Vec<Flag>,
    /// The value of `cqsize=N`.
    pub cq_entries: Option<u32>,
}

/// Why a list of flags is rejected before the system call: flag, rule, remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub what: String,
    pub remedy: String,
}

impl Refusal {
    fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

impl FromStr for Setup {
    type Err = Refusal;

    /// Parses a comma-separated list; only checks names, not rules ([`Setup::check`]).
    fn from_str(list: &str) -> Result<Self, Refusal> {
        let mut setup = Setup::default();
        for word in list.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim())),
                None => (word, None),
            };
            let Some(flag) = Flag::ALL.into_iter().find(|f| f.name() == name) else {
                let known = Flag::ALL.map(|f| if f == Flag::Cqsize { "cqsize=N" } else { f.name() }).join(", ");
                return Err(Refusal::new(format!("unknown ring flag '{name}'"), format!("choose among {known}")));
            };
            if setup.flags.contains(&flag) {
                return Err(Refusal::new(format!("ring flag {name} is specified twice"), "specify it once"));
            }
            match (flag, value) {
                (Flag::Cqsize, Some(n)) => match n.parse::<u32>() {
                    Ok(n) if n > 0 => setup.cq_entries = Some(n),
                    _ => {
                        return Err(Refusal::new(
                            format!("cqsize={n} is not a number of entries"),
                            "use cqsize=N, for example cqsize=4096",
                        ));
                    }
                },
                (Flag::Cqsize, None) => {
                    return Err(Refusal::new(
                        "ring flag cqsize needs a value",
                        "use cqsize=N, for example cqsize=4096",
                    ));
                }
                (_, Some(_)) => return Err(Refusal::new(format!("ring flag {name} takes no value"), "omit it")),
                (_, None) => {}
            }
            setup.flags.push(flag);
        }
        Ok(setup)
    }
}

impl Setup {
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    pub fn bits(&self) -> u32 {
        self.flags.iter().fold(0, |bits, f| bits | f.bit())
    }

    /// The names as recorded in a measurement, with the value of `cqsize=N`.
    pub fn names(&self) -> Vec<String> {
        names(self.bits(), self.cq_entries)
    }

    /// Checks the kernel's rules for combinations (io_uring_create and io_uring_sanitise_params, up to 6.18) before the
    /// system call, because the kernel returns only EINVAL. `sq_entries`: the requested number of submission entries.
    pub fn check(&self, sq_entries: u32) -> Result<(), Refusal> {
        if self.has(Flag::DeferTaskrun) && !self.has(Flag::SingleIssuer) {
            return Err(Refusal::new(
                "the kernel rejects ring flag defer_taskrun without single_issuer",
                "add single_issuer",
            ));
        }
        if self.has(Flag::Sqpoll) {
            for other in [Flag::CoopTaskrun, Flag::TaskrunFlag, Flag::DeferTaskrun] {
                if self.has(other) {
                    return Err(Refusal::new(
                        format!(
                            "the kernel rejects ring flag sqpoll with {}: the SQPOLL thread runs the task work",
                            other.name()
                        ),
                        format!("omit {}", other.name()),
                    ));
                }
            }
        }
        if self.has(Flag::TaskrunFlag) && !self.has(Flag::CoopTaskrun) && !self.has(Flag::DeferTaskrun) {
            return Err(Refusal::new(
                "the kernel rejects ring flag taskrun_flag without coop_taskrun or defer_taskrun",
                "add coop_taskrun",
            ));
        }
        if self.has(Flag::HybridIopoll) && !self.has(Flag::Iopoll) {
            return Err(Refusal::new("the kernel rejects ring flag hybrid_iopoll without iopoll", "add iopoll"));
        }
        if let Some(n) = self.cq_entries {
            let sq = sq_entries.next_power_of_two();
            if n.next_power_of_two() < sq {
                return Err(Refusal::new(
                    format!(
                        "the kernel rejects cqsize={n}: the completion queue must not be smaller than the submission queue ({sq} entries)"
                    ),
                    format!("use cqsize={sq} or more, or a smaller --depth"),
                ));
            }
            if n > 65536 {
                return Err(Refusal::new(
                    format!("the kernel rejects cqsize={n}: the maximum is 65536"),
                    "use cqsize=65536 or less",
                ));
            }
        }
        Ok(())
    }
}

/// Names of the flags in `bits` that a load may request. Other flags (double-size entries) are set by the engine.
pub(crate) fn names(bits: u32, cq_entries: Option<u32>) -> Vec<String> {
    setup_flag::names(Flag::ALL.iter().fold(0, |all, f| all | f.bit()) & bits, cq_entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_table_matches_the_kernels_setup_bits() {
        use linux_raw_sys::io_uring as sys;
        let bits = [
            sys::IORING_SETUP_COOP_TASKRUN,
            sys::IORING_SETUP_TASKRUN_FLAG,
            sys::IORING_SETUP_DEFER_TASKRUN,
            sys::IORING_SETUP_SINGLE_ISSUER,
            sys::IORING_SETUP_SQPOLL,
            sys::IORING_SETUP_IOPOLL,
            sys::IORING_SETUP_HYBRID_IOPOLL,
            sys::IORING_SETUP_SUBMIT_ALL,
            sys::IORING_SETUP_NO_SQARRAY,
            sys::IORING_SETUP_CQSIZE,
        ];
        assert_eq!(Flag::ALL.map(Flag::bit), bits);
        assert_eq!(Flag::DeferTaskrun.companions(), sys::IORING_SETUP_SINGLE_ISSUER);
        assert_eq!((Flag::HybridIopoll.name(), Flag::HybridIopoll.since()), ("hybrid_iopoll", (6, 13)));
    }

    fn refused(list: &str) -> String {
        let r = list.parse::<Setup>().and_then(|s| s.check(16)).unwrap_err();
        format!("{}; {}", r.what, r.remedy)
    }

    #[test]
    fn ring_flags_are_parsed_into_setup_bits() {
        let s: Setup = "defer_taskrun, single_issuer,cqsize=64".parse().unwrap();
        assert_eq!(s.bits(), (1 << 13) | (1 << 12) | (1 << 3));
        assert_eq!(s.names(), ["defer_taskrun", "single_issuer", "cqsize=64"]);
        assert_eq!("".parse::<Setup>().unwrap().bits(), 0);
        assert_eq!(s.check(64), Ok(()));
    }

    #[test]
    fn rejected_ring_flags_are_reported_with_the_rule_and_the_remedy() {
        assert!(
            refused("defer_taskrun").contains("the kernel rejects ring flag defer_taskrun without single_issuer; add")
        );
        assert!(refused("sqpoll,coop_taskrun").contains("the kernel rejects ring flag sqpoll with coop_taskrun"));
        assert!(refused("sqpoll,defer_taskrun,single_issuer").ends_with("omit defer_taskrun"));
        assert!(refused("taskrun_flag").ends_with("add coop_taskrun"));
        assert!(refused("hybrid_iopoll").ends_with("add iopoll"));
        assert!(refused("cqsize=8").contains("16 entries"));
        assert!(refused("cqsize").contains("needs a value"));
        assert!(refused("sqpol").contains("unknown ring flag 'sqpol'"));
        assert!(refused("iopoll,iopoll").contains("twice"));
    }
}
