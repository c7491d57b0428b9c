//! The call sites behind a finding or a metric, with their shares.

use std::collections::BTreeMap;

use crate::traced::Scope;
use iotrail_base::words::percent;
use iotrail_schema::finding::Finding;
use iotrail_schema::opcode;
use iotrail_schema::stacks::{CallSite, Frame, SiteAction, SiteUse, StackGap, StackGapCode, StackRecord, Stacks};
use iotrail_schema::syscall;

/// Maximum number of call sites named.
const NAMED: usize = 3;
/// Minimum share of a named call site.
pub const LEAST: f64 = 0.05;

/// A value that call stacks carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteValue {
    /// Time asleep in system calls.
    Blocked,
    /// Time on a CPU.
    Cpu,
    /// Latencies of requests.
    Latency,
    /// Sleeps in system calls.
    Sleeps,
    /// System calls.
    Calls,
    /// Failed system calls.
    CallErrors,
    Requests,
    /// Failed requests.
    Errors,
    /// Requests punted to io-wq.
    Punts,
}

impl SiteValue {
    /// This value's contribution from one use of a call site.
    pub fn of(self, of: &SiteUse) -> u64 {
        match (self, of.action) {
            (SiteValue::Blocked, SiteAction::Sleeps)
            | (SiteValue::Cpu, SiteAction::Runs)
            | (SiteValue::Latency, SiteAction::Submits) => of.ns,
            (SiteValue::Calls, SiteAction::Calls)
            | (SiteValue::Sleeps, SiteAction::Sleeps)
            | (SiteValue::Requests, SiteAction::Submits) => of.count,
            (SiteValue::CallErrors, SiteAction::Calls) | (SiteValue::Errors, SiteAction::Submits) => of.errors,
            (SiteValue::Punts, SiteAction::Submits) => of.punts,
            _ => 0,
        }
    }
}

/// The calls and the value that a finding or metric concerns.
#[derive(Debug, Clone, PartialEq)]
pub struct Concern {
    value: SiteValue,
    /// System calls or operations; empty: all.
    names: Vec<String>,
}

impl Concern {
    fn of(value: SiteValue, names: &[&str]) -> Option<Self> {
        Some(Concern { value, names: names.iter().map(|name| (*name).to_owned()).collect() })
    }

    /// This value of all calls and operations.
    pub fn all(value: SiteValue) -> Self {
        Concern { value, names: vec![] }
    }

    fn part(&self, stack: &StackRecord) -> u64 {
        let meant = |of: &&SiteUse| self.names.is_empty() || self.names.contains(&of.name);
        stack.uses.iter().filter(meant).map(|of| self.value.of(of)).sum()
    }
}

/// `None` if the finding concerns no calls.
pub fn of_finding(f: &Finding) -> Option<Concern> {
    use SiteValue::*;
    match f.code.as_str() {
        "blocked_in_submission" => Concern::of(Blocked, &["io_uring_enter", "io_submit"]),
        "synchronous_calls" => Some(Concern { value: Blocked, names: not_waiting() }),
        "waits_time_out" => Concern::of(Blocked, &["io_uring_enter", "epoll_wait", "io_getevents", "poll"]),
        "one_per_enter" | "capped_batch" | "empty_enters" => Concern::of(Calls, &["io_uring_enter"]),
        "epoll_ctl_per_operation" => Concern::of(Calls, &["epoll_ctl"]),
        "epoll_spins" => Concern::of(Calls, &["epoll_wait", "epoll_pwait"]),
        "setup_per_operation" => Concern::of(Calls, &["io_uring_setup", "io_setup", "io_uring_register"]),
        "setup_failed" | "submission_failed" | "calls_fail" => Some(Concern { value: CallErrors, names: vec![] }),
        "errors" | "requests_fail" | "bad_buffers" | "refused_by_policy" => Concern::of(Errors, &[]),
        "punted" | "iowq_fanout" => Concern::of(Punts, &[]),
        _ => None,
    }
}

/// All calls except those that submit requests or wait for events.
fn not_waiting() -> Vec<String> {
    let calls = syscall::ALL.iter().filter(|call| call.wait.is_none() && call.work != Some(syscall::Work::Submits));
    calls.map(|call| call.name.to_owned()).collect()
}

/// The calls and the value of a budget metric.
pub fn of_figure(scope: &Scope, figure: &str) -> Option<Concern> {
    use SiteValue::*;
    let opcodes: Vec<&str> = match scope {
        Scope::All => vec![],
        Scope::Opcode(name) => vec![name],
        Scope::Ring(_) | Scope::Thread(_) | Scope::File(_) => return None,
    };
    match figure {
        "requests" | "completions" | "operations" => Concern::of(Requests, &opcodes),
        "errors" => Concern::of(Errors, &opcodes),
        "punted" => Concern::of(Punts, &opcodes),
        "syncs" => {
            let syncs = opcode::ALL.iter().map(|of| of.name).filter(|name| opcode::is(name, opcode::SYNCS));
            Concern::of(Requests, &syncs.collect::<Vec<_>>())
        }
        _ if figure.starts_with("latency") => Concern::of(Latency, &opcodes),
        _ if *scope != Scope::All => None,
        "syscalls_per_io" => Concern::of(Calls, &[]),
        "blocked" => Concern::of(Blocked, &[]),
        "blocked_in_submit" => Concern::of(Blocked, &["io_uring_enter", "io_submit"]),
        "context_switches" | "context_switches_per_io" => Concern::of(Sleeps, &[]),
        _ => match figure.strip_prefix("calls.")?.split_once('.') {
            None => Concern::of(Calls, &[figure.strip_prefix("calls.")?]),
            Some((call, _)) => Concern::of(CallErrors, &[call]),
        },
    }
}

/// The call sites with the largest shares, in descending order. Stacks without a call site count towards the total.
pub fn top(stacks: &Stacks, concern: &Concern) -> Vec<CallSite> {
    let all: u64 = stacks.stacks.iter().map(|stack| concern.part(stack)).sum();
    let mut sites: BTreeMap<u32, u64> = BTreeMap::new();
    for stack in &stacks.stacks {
        let Some(site) = stack.site else { continue };
        *sites.entry(site).or_default() += concern.part(stack);
    }
    // Merge addresses of the same source line.
    let mut places: BTreeMap<(String, Option<String>, Option<u32>), u64> = BTreeMap::new();
    for (site, part) in sites {
        let Some(frame) = stacks.frames.get(site as usize) else { continue };
        *places.entry((function(frame), frame.file.clone(), frame.line)).or_default() += part;
    }
    let mut sites: Vec<CallSite> = places
        .into_iter()
        .map(|((function, file, line), part)| CallSite { function, file, line, share: part as f64 / all.max(1) as f64 })
        .filter(|site| site.share >= LEAST)
        .collect();
    sites.sort_by(|a, b| b.share.total_cmp(&a.share));
    sites.truncate(NAMED);
    sites
}

/// The function's name; without a symbol, its offset in the file.
pub fn function(frame: &Frame) -> String {
    match (&frame.function, &frame.module) {
        (Some(function), _) => function.clone(),
        (None, Some(module)) => format!("{}+{:#x}", file_name(module), frame.offset),
        (None, None) => format!("{:#x}", frame.offset),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `commit (wal.c:41) 83 %, main (db.c:7) 12 %`
pub fn text(sites: &[CallSite]) -> String {
    let one = |site: &CallSite| {
        let line = site.line.map_or(String::new(), |line| format!(":{line}"));
        let at = site.file.as_deref().map_or(String::new(), |file| format!(" ({}{line})", file_name(file)));
        format!("{}{at} {}", site.function, percent(site.share))
    };
    sites.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Adds call sites to each finding.
pub fn name(findings: &mut [Finding], stacks: Option<&Stacks>) {
    let Some(stacks) = stacks else { return };
    for f in findings {
        f.from = of_finding(f).map(|concern| top(stacks, &concern)).unwrap_or_default();
    }
}

/// A gap in the stacks, with its remedy.
pub fn gap(gap: &StackGap) -> String {
    let module = &gap.module;
    match gap.code {
        StackGapCode::Stripped => format!(
            "{module} has no symbols: its functions are printed as offsets; compile it with -g and do not strip it, or install its debug symbols"
        ),
        StackGapCode::NoFramePointers => format!(
            "{module} has no frame pointers: callers are missing; compile it with -fno-omit-frame-pointer (Rust: -C force-frame-pointers=yes)"
        ),
        StackGapCode::NoPerfMap => format!(
            "{module} generates code without a perf map file: run node with --perf-basic-prof --interpreted-frames-native-stack, java with \
             -XX:+PreserveFramePointer -XX:+DumpPerfMapAtExit, python with -X perf"
        ),
        StackGapCode::Ended => format!("{module} exited before its memory map was read: its functions have no names"),
        StackGapCode::KernelThread => {
            "requests were submitted by kernel threads (SQPOLL), which have no call site".into()
        }
        StackGapCode::Lost => "stacks were lost: a buffer was full".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::RULES;
    use iotrail_schema::finding::Severity;

    fn stacks() -> Stacks {
        let frame = |function: &str, line| Frame {
            function: Some(function.into()),
            file: Some("/src/wal.c".into()),
            line: Some(line),
            module: Some("/bin/db".into()),
            offset: 16,
            inlined: false,
            library: false,
        };
        let of = |action, name: &str, count, ns, errors| SiteUse {
            action,
            name: name.into(),
            samples: 1,
            count,
            ns,
            errors,
            punts: 0,
        };
        let stack = |frames: &[u32], uses| StackRecord {
            comm: "db".into(),
            frames: frames.to_vec(),
            site: frames.first().copied(),
            uses,
        };
        Stacks {
            frames: vec![frame("commit", 41), frame("load", 7), frame("main", 3)],
            stacks: vec![
                stack(
                    &[0, 2],
                    vec![of(SiteAction::Sleeps, "fsync", 10, 830, 0), of(SiteAction::Submits, "read", 1, 5, 1)],
                ),
                stack(
                    &[1, 2],
                    vec![of(SiteAction::Sleeps, "fsync", 10, 120, 0), of(SiteAction::Calls, "openat", 3, 0, 3)],
                ),
                stack(
                    &[2],
                    vec![of(SiteAction::Sleeps, "fsync", 1, 20, 0), of(SiteAction::Sleeps, "futex", 1, 9000, 0)],
                ),
                stack(&[], vec![of(SiteAction::Sleeps, "fsync", 1, 30, 0)]),
            ],
            gaps: vec![],
        }
    }

    #[test]
    fn call_sites_are_listed_with_their_share_of_the_events() {
        let f = |code| Finding::new(code, Severity::Warning, String::new(), "", &[]);
        let mut findings = [f("synchronous_calls"), f("errors"), f("calls_fail"), f("cpu_quota")];
        name(&mut findings, Some(&stacks()));
        let texts = findings.map(|f| text(&f.from));
        assert_eq!(
            texts,
            ["commit (wal.c:41) 83 %, load (wal.c:7) 12 %", "commit (wal.c:41) 100 %", "load (wal.c:7) 100 %", ""]
        );
    }

    #[test]
    fn a_broken_limit_lists_the_call_sites_of_its_metric() {
        let of = |scope: Scope, figure| of_figure(&scope, figure).map(|concern| text(&top(&stacks(), &concern)));
        assert_eq!(of(Scope::All, "calls.openat").as_deref(), Some("load (wal.c:7) 100 %"));
        assert_eq!(of(Scope::All, "calls.openat.errors").as_deref(), Some("load (wal.c:7) 100 %"));
        assert_eq!(of(Scope::Opcode("read".into()), "latency_p99").as_deref(), Some("commit (wal.c:41) 100 %"));
        assert_eq!(of(Scope::Opcode("write".into()), "errors").as_deref(), Some(""));
        assert_eq!(of(Scope::All, "delivered.timer_tick"), None);
        assert_eq!(of(Scope::Ring(0), "errors"), None);
    }

    #[test]
    fn eighteen_rules_concern_a_call() {
        let concerns = |code: &str| of_finding(&Finding::new(code, Severity::Note, String::new(), "", &[])).is_some();
        assert_eq!(RULES.iter().filter(|rule| concerns(rule.code)).count(), 18);
    }
}
