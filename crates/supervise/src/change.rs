//! Changes to a program's ring parameters.

use std::fmt;
use std::str::FromStr;

use iotrail_schema::setup_flag::{self, SetupFlag};

/// Flags that control how a ring works, so that a program may work with other values. The remaining flags (entry sizes,
/// program memory, a ring that starts disabled) are part of the program's design.
pub const TUNABLE: [&str; 9] = [
    "coop_taskrun",
    "taskrun_flag",
    "single_issuer",
    "defer_taskrun",
    "sqpoll",
    "submit_all",
    "iopoll",
    "hybrid_iopoll",
    "no_sqarray",
];

const SQPOLL: u32 = setup_flag::bit("sqpoll");
const SQ_AFF: u32 = setup_flag::bit("sq_aff");
const CQSIZE: u32 = setup_flag::bit("cqsize");

/// Input fields of io_uring_setup(2). The output fields after them (features, offsets) are not modified.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Params {
    pub sq_entries: u32,
    pub cq_entries: u32,
    pub flags: u32,
    pub sq_thread_cpu: u32,
    pub sq_thread_idle: u32,
}

/// The changes; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// Set exactly these tunable flags.
    set: Option<u32>,
    add: u32,
    remove: u32,
    /// For a ring with sqpoll.
    pub sq_idle_ms: Option<u32>,
    pub sq_cpu: Option<u32>,
    pub cq_entries: Option<u32>,
}

/// Name of the arm that changes nothing.
pub const AS_IS: &str = "as-is";

impl Change {
    pub fn is_none(&self) -> bool {
        *self == Change::default()
    }

    /// Whether it sets this flag.
    pub fn sets(&self, flag: u32) -> bool {
        (self.set.unwrap_or(0) | self.add) & flag != 0
    }

    /// The flags in the format of `--ring`; `None` if the program's own are kept.
    pub fn flags(&self) -> Option<String> {
        let flags = Change { sq_idle_ms: None, sq_cpu: None, cq_entries: None, ..*self };
        (!flags.is_none()).then(|| flags.to_string())
    }

    /// The parameters to pass to the kernel.
    pub fn apply(&self, asked: Params) -> Params {
        let kept = self.set.map_or(asked.flags, |set| (asked.flags & !setup_flag::bits(&TUNABLE)) | set);
        let mut to = Params { flags: (kept | self.add) & !self.remove, ..asked };
        if to.flags & SQPOLL == 0 {
            to.flags &= !SQ_AFF;
        } else {
            if let Some(cpu) = self.sq_cpu {
                to.flags |= SQ_AFF;
                to.sq_thread_cpu = cpu;
            }
            to.sq_thread_idle = self.sq_idle_ms.unwrap_or(to.sq_thread_idle);
        }
        if let Some(entries) = self.cq_entries {
            to.flags |= CQSIZE;
            to.cq_entries = entries;
        }
        to
    }
}

fn known(name: &str) -> Result<&'static SetupFlag, String> {
    match setup_flag::find(name) {
        Some(flag) if TUNABLE.contains(&name) => Ok(flag),
        Some(_) => {
            Err(format!("{name} cannot be changed without changing the program; choose among {}", TUNABLE.join(", ")))
        }
        None => Err(format!("unknown setup flag '{name}'; choose among {}", TUNABLE.join(", "))),
    }
}

/// `as-is`, `none`, `coop_taskrun,taskrun_flag`, `+coop_taskrun`, `-defer_taskrun,-single_issuer`.
impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut change = Change::default();
        match text.trim() {
            "" => return Err("an empty list of flags: write none, or as-is".into()),
            AS_IS => return Ok(change),
            "none" => return Ok(Change { set: Some(0), ..change }),
            _ => {}
        }
        for item in text.split(',').map(str::trim) {
            let (bits, name) = match (item.strip_prefix('+'), item.strip_prefix('-')) {
                (Some(name), _) => (&mut change.add, name),
                (_, Some(name)) => (&mut change.remove, name),
                _ => (change.set.get_or_insert(0), item),
            };
            let bit = known(name)?.bit;
            if *bits & bit != 0 {
                return Err(format!("'{text}' lists {name} twice"));
            }
            *bits |= bit;
        }
        match change {
            Change { set: Some(_), add, remove, .. } if add | remove != 0 => {
                Err(format!("'{text}' mixes flags with and without + or -: prefix all of them or none"))
            }
            Change { add, remove, .. } if add & remove != 0 => Err(format!("'{text}' adds and removes the same flag")),
            change => Ok(change),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn signed(bits: u32, sign: &'static str) -> impl Iterator<Item = String> {
            setup_flag::names(bits, None).into_iter().map(move |name| format!("{sign}{name}"))
        }
        let mut words: Vec<String> = match self.set {
            Some(0) => vec!["none".into()],
            Some(set) => signed(set, "").collect(),
            None => signed(self.add, "+").chain(signed(self.remove, "-")).collect(),
        };
        words.extend(self.sq_idle_ms.map(|ms| format!("sq-idle={ms}")));
        words.extend(self.sq_cpu.map(|cpu| format!("sq-cpu={cpu}")));
        words.extend(self.cq_entries.map(|n| format!("cq-entries={n}")));
        f.write_str(&if words.is_empty() { AS_IS.into() } else { words.join(",") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(change: &str, asked: &[&str]) -> Vec<String> {
        let change: Change = change.parse().unwrap();
        setup_flag::names(change.apply(Params { flags: setup_flag::bits(asked), ..Params::default() }).flags, None)
    }

    #[test]
    fn a_flag_list_replaces_the_tunable_flags_and_keeps_the_others() {
        assert_eq!(flags("as-is", &["sqpoll", "clamp"]), ["sqpoll", "clamp"]);
        assert_eq!(flags("none", &["sqpoll", "sq_aff", "clamp"]), ["clamp"]);
        assert_eq!(
            flags("coop_taskrun,taskrun_flag", &["defer_taskrun", "single_issuer", "cqsize", "r_disabled"]),
            ["coop_taskrun", "taskrun_flag", "cqsize", "r_disabled"]
        );
        assert_eq!(flags("+coop_taskrun", &["single_issuer"]), ["coop_taskrun", "single_issuer"]);
        assert_eq!(flags("-defer_taskrun,-single_issuer", &["defer_taskrun", "single_issuer", "sqe128"]), ["sqe128"]);
    }

    #[test]
    fn a_change_sets_the_flags_listed_without_a_minus_sign() {
        let sets = |text: &str| text.parse::<Change>().unwrap().sets(SQPOLL);
        assert_eq!(["sqpoll,iopoll", "+sqpoll", "-sqpoll", "+coop_taskrun,-sqpoll", "none", "as-is"].map(sets), {
            [true, true, false, false, false, false]
        });
    }

    #[test]
    fn sqpoll_and_cq_size_changes_have_values() {
        let with = |change: &str, set: fn(&mut Change)| {
            let mut change: Change = change.parse().unwrap();
            set(&mut change);
            (change.apply(Params { cq_entries: 7, sq_thread_idle: 9, ..Params::default() }), change.to_string())
        };
        let (to, name) = with("sqpoll", |c| (c.sq_cpu, c.sq_idle_ms) = (Some(1), Some(50)));
        assert_eq!((to.flags, to.sq_thread_cpu, to.sq_thread_idle), (SQPOLL | SQ_AFF, 1, 50));
        assert_eq!(name, "sqpoll,sq-idle=50,sq-cpu=1");
        // Without an SQPOLL thread there is nothing to bind.
        let (to, _) = with("none", |c| (c.sq_cpu, c.sq_idle_ms) = (Some(1), Some(50)));
        assert_eq!((to.flags, to.sq_thread_cpu, to.sq_thread_idle), (0, 0, 9));
        let (to, name) = with("as-is", |c| c.cq_entries = Some(4096));
        assert_eq!((to.flags, to.cq_entries, name.as_str()), (CQSIZE, 4096, "cq-entries=4096"));
    }

    #[test]
    fn a_flag_change_round_trips_through_text() {
        for text in ["as-is", "none", "coop_taskrun,taskrun_flag", "+sqpoll", "-defer_taskrun", "+coop_taskrun,-sqpoll"]
        {
            assert_eq!(text.parse::<Change>().unwrap().to_string(), text);
        }
        let refused = |text: &str| text.parse::<Change>().unwrap_err();
        assert!(refused("coop").starts_with("unknown setup flag 'coop'; choose among coop_taskrun, "));
        assert!(refused("sqe128").starts_with("sqe128 cannot be changed without changing the program"));
        assert!(refused("sqpoll,+iopoll").contains("prefix all of them or none"));
        assert!(refused("+sqpoll,-sqpoll").contains("adds and removes the same flag"));
        assert_eq!(
            refused("coop_taskrun,sqpoll,coop_taskrun"),
            "'coop_taskrun,sqpoll,coop_taskrun' lists coop_taskrun twice"
        );
        assert!(refused("").contains("empty"));
    }
}
