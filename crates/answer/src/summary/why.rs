//! Probe counts that explain a difference, and the resulting advice.

use super::ByArm;
use super::change::{self, value};
use super::effect::Effect;
use crate::compare::{Metric, failed};
use crate::diagnose::notify::waited_for_tick;
use crate::group::vehicle_shares;
use crate::spread::over_repeats;
use crate::unit::Unit;
use iotrail_base::words::{list, per_io as per_io_text, percent, span};
use iotrail_schema::comparison::Verdict;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::measurement::Wait;
use iotrail_schema::run_record::{CellRecord, RunRecord};

/// A delivery path explains a difference if its share grew by at least this much.
pub const MOVED: f64 = 0.2;
/// A count per I/O explains a difference if it changed by this factor and by the amount below.
pub const FACTOR: f64 = 1.3;
pub const AMOUNT: f64 = 0.05;

type Shares = Vec<(DeliveryPath, f64)>;
type Pairs = Vec<(f64, f64)>;
const COUNTS: [Metric; 7] = [
    Metric::SyscallsPerIo,
    Metric::KicksPerIo,
    Metric::ContextSwitchesPerIo,
    Metric::DeviceIrqsPerIo,
    Metric::PuntsPerIo,
    Metric::DeviceWritesPerIo,
    Metric::DeviceFlushesPerIo,
];

/// The explanation, and advice for its cause.
pub fn of(run: &RunRecord, base: &str, arm: &str, shown: &[Effect<'_>]) -> (Option<String>, Option<String>) {
    let Some(verdict) = shown.first().map(|e| e.c.verdict) else { return (None, None) };
    if let Some((text, remedy)) = path(base, shown) {
        return (Some(text), remedy.filter(|_| verdict == Verdict::Slower));
    }
    let one = Unit::of_run(run).one();
    let counted = counted(shown);
    // The compared metric is not its own reason.
    let is_other = |metric: &Metric| shown.iter().all(|e| e.c.metric != metric.name());
    let each = || {
        let all = COUNTS.iter().zip(&counted).filter(|(metric, _)| is_other(metric));
        all.map(|(metric, pairs)| (metric.counted(), pairs))
    };
    let mut parts: Vec<(f64, String)> =
        each().filter_map(|(name, pairs)| count(&format!("{name} per {one}"), pairs.as_ref()?)).collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut parts: Vec<String> = parts.into_iter().map(|(_, text)| text).take(2).collect();
    if !run.is_emulated() && !shown.iter().any(|e| e.c.metric == Metric::CpuPerIo.name()) {
        parts.extend(cpu(one, shown));
    }
    if !parts.is_empty() {
        return (Some(format!("with {arm}: {}", parts.join("; "))), None);
    }
    let watched = shown.iter().flat_map(|e| [e.a, e.b]).all(|c| !vehicle_shares(&c.measurements.all()).is_empty());
    let known = each().filter(|(_, pairs)| pairs.is_some()).map(|(name, _)| name);
    let alike: Vec<String> = std::iter::once("delivery paths".to_owned()).chain(known).collect();
    let unexplained =
        || format!("the probes' counts do not explain the difference: {} per {one} are similar", list(&alike));
    let is_count = COUNTS.iter().any(|metric| !is_other(metric));
    ((watched && !is_count).then(unexplained), None)
}

/// The delivery path whose share grew most.
fn path(base: &str, shown: &[Effect<'_>]) -> Option<(String, Option<String>)> {
    let shares = |cell: &CellRecord| {
        let all = cell.measurements.all();
        all.iter().any(|m| !m.vehicles.is_empty()).then(|| vehicle_shares(&all))
    };
    let both = shown.iter().map(|e| Some((shares(e.a)?, shares(e.b)?)));
    let both: Vec<(Shares, Shares)> = both.collect::<Option<_>>()?;
    let of = |shares: &Shares, vehicle| shares.iter().find(|(v, _)| *v == vehicle).map_or(0.0, |(_, share)| *share);
    let gain = |vehicle: DeliveryPath| -> Option<(Vec<f64>, f64)> {
        let pairs: Vec<(f64, f64)> = both.iter().map(|(a, b)| (of(a, vehicle), of(b, vehicle))).collect();
        let mean = pairs.iter().map(|(a, b)| b - a).sum::<f64>() / pairs.len() as f64;
        Some((pairs.into_iter().map(|(_, b)| b).collect(), mean))
    };
    let all = DeliveryPath::ALL.into_iter().filter(|v| *v != DeliveryPath::Unknown);
    let grown = all.filter_map(|v| Some((v, gain(v)?))).max_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let (vehicle, (shares, _)) = grown.filter(|(_, (_, gain))| *gain >= MOVED)?;
    let low = shares.iter().copied().fold(1.0, f64::min);
    let high = shares.iter().copied().fold(0.0, f64::max);
    let range = match (percent(low), percent(high)) {
        (a, b) if a == b => a,
        (a, b) => format!("{}–{b}", a.trim_end_matches(" %")),
    };
    let before = before(base, both.iter().map(|(a, _)| a));
    if vehicle == DeliveryPath::TimerTick {
        let cell = shown.iter().max_by(|a, b| a.size().total_cmp(&b.size()))?.b;
        let worst = cell.measurements.first()?;
        let late = |m: &Measurement| {
            let tick = m.vehicles.iter().find(|v| v.vehicle == DeliveryPath::TimerTick)?;
            tick.delay_ns.as_ref()?.p50.map(|ns| ns as f64)
        };
        let late =
            over_repeats(cell, late).map(|ns| format!(", with a median delay of {}", span(ns))).unwrap_or_default();
        let remedy = waited_for_tick(&worst.vehicles, &worst.load.ring.requested, worst.load.wait == Wait::Peek);
        let text = format!("{range} of its completions waited for the timer tick{late}{before}");
        return Some((text, remedy.map(|f| f.remedy)));
    }
    Some((format!("{range} of its completions were delivered {}{before}", by(vehicle)), None))
}

/// `; with default, by the device's interrupt and in io_uring_enter`: the main delivery path in each situation.
fn before<'a>(base: &str, situations: impl Iterator<Item = &'a Shares>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for shares in situations {
        let text = shares.first().map(|(v, _)| by(*v).to_owned());
        seen.extend(text.filter(|t| !seen.contains(t)));
    }
    if seen.is_empty() { String::new() } else { format!("; with {base}, mostly {}", list(&seen)) }
}

/// How a completion was delivered, to follow "delivered" or "mostly".
pub fn by(vehicle: DeliveryPath) -> &'static str {
    match vehicle {
        DeliveryPath::Inline => "inline, at submission",
        DeliveryPath::Enter => "in io_uring_enter",
        DeliveryPath::SyscallExit => "on return from a system call",
        DeliveryPath::ReschedIpi => "by a reschedule IPI",
        DeliveryPath::DeviceIrq => "on return from a device interrupt",
        DeliveryPath::TimerTick => "by the timer tick",
        DeliveryPath::PageFault => "on return from a page fault",
        DeliveryPath::OtherIrq => "on return from another interrupt",
        DeliveryPath::Sqpoll => "by the SQPOLL thread",
        DeliveryPath::Iopoll => "by polling the device",
        DeliveryPath::Iowq => "by io-wq workers",
        DeliveryPath::IrqDirect => "in the interrupt itself",
        DeliveryPath::Thread => "by a user-space thread",
        DeliveryPath::Kworker => "by a kernel worker",
        DeliveryPath::Unknown => "by an unknown path",
    }
}

/// A count per I/O that changed in the same direction in every situation: the change and its text.
fn count(name: &str, pairs: &[(f64, f64)]) -> Option<(f64, String)> {
    let differs = |(a, b): &(f64, f64)| (b - a).abs() >= AMOUNT && b.max(*a) >= FACTOR * b.min(*a);
    let one_way = pairs.iter().all(|(a, b)| b > a) || pairs.iter().all(|(a, b)| b < a);
    if !one_way || !pairs.iter().all(differs) {
        return None;
    }
    let most = pairs.iter().map(|(a, b)| (b - a).abs()).fold(0.0, f64::max);
    let (a, b) = (range(pairs.iter().map(|p| p.0), per_io_text), range(pairs.iter().map(|p| p.1), per_io_text));
    Some((most, format!("{name} {a} → {b}")))
}

fn cpu(one: &str, shown: &[Effect<'_>]) -> Option<String> {
    let pairs = pairs(shown, |m| Metric::CpuPerIo.of(m))?;
    let one_way = |f: fn(f64, f64) -> bool| pairs.iter().all(|(a, b)| f(*a, *b));
    if !one_way(|a, b| b > 1.1 * a) && !one_way(|a, b| a > 1.1 * b) {
        return None;
    }
    let text = |x: f64| value(Metric::CpuPerIo, x);
    let (a, b) = (range(pairs.iter().map(|p| p.0), text), range(pairs.iter().map(|p| p.1), text));
    Some(format!("CPU time per {one} {a} → {b}"))
}

/// The [`pairs`] of each count, by cell.
fn counted(shown: &[Effect<'_>]) -> [Option<Pairs>; COUNTS.len()] {
    let of = |cell| COUNTS.map(|metric| over_repeats(cell, |m| metric.of(m)));
    let both: Vec<_> = shown.iter().map(|e| (of(e.a), of(e.b))).collect();
    std::array::from_fn(|i| both.iter().map(|(a, b)| Some((a[i]?, b[i]?))).collect())
}

/// Values with the first and the other arm in every situation; `None` if any is unknown.
fn pairs(shown: &[Effect<'_>], of: impl Fn(&Measurement) -> Option<f64> + Copy) -> Option<Pairs> {
    shown.iter().map(|e| Some((over_repeats(e.a, of)?, over_repeats(e.b, of)?))).collect()
}

fn range(values: impl Iterator<Item = f64>, text: impl Fn(f64) -> String) -> String {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    match (text(low), text(high)) {
        (a, b) if a == b => a,
        (a, b) => format!("{a}–{b}"),
    }
}

/// Advice, printed as the last part of an answer.
pub struct Advice {
    pub text: String,
    /// It recommends an arm other than the first.
    pub changes: bool,
}

/// `more`: how to resolve the inconclusive comparisons.
pub fn advice(
    base: &str,
    arm: &str,
    all: &[ByArm<'_>],
    remedy: Option<String>,
    more: impl Fn() -> Option<String>,
) -> Advice {
    let stay = |text: String| Advice { text, changes: false };
    let has = |effects: &[Effect<'_>], verdict| effects.iter().any(|e| e.c.verdict == verdict);
    let with = |verdict| all.iter().filter(move |(_, e)| has(e, verdict)).map(|(name, _)| *name).collect::<Vec<_>>();
    let (better, worse) = (with(Verdict::Faster), with(Verdict::Slower));
    let effects = || all.iter().flat_map(|(_, e)| e);
    if let Some(remedy) = remedy {
        return stay(format!("{remedy} (not measured here)"));
    }
    if better.is_empty() && worse.is_empty() {
        if effects().all(|e| e.c.verdict == Verdict::Equivalent) {
            return stay(match effects().all(change::is_0) {
                true => "compare a metric that is not 0 in both arms".into(),
                false => format!("stay with {base}: the other arms gain nothing"),
            });
        }
        if effects().all(|e| e.c.verdict == Verdict::NotComparable) {
            let mut arms: Vec<String> = Vec::new();
            for cell in effects().flat_map(|e| [e.a, e.b]).filter(|cell| failed(cell).is_some()) {
                if !arms.iter().any(|arm| arm == cell.arm()) {
                    arms.push(cell.arm().to_owned());
                }
            }
            if !arms.is_empty() {
                let fail = if arms.len() == 1 { "fails" } else { "fail" };
                return stay(format!("check why {} {fail}, and measure again", list(&arms)));
            }
            if effects().any(|e| change::is_below_0(e)) {
                return stay("compare a metric that is never below 0".into());
            }
            return stay("compare arms with the same work: bytes, flags, targets".into());
        }
        let more = more().map(|more| format!(", or measure more: {more}")).unwrap_or_default();
        return stay(format!("stay with {base}{more}"));
    }
    if better.is_empty() {
        let none = if all.len() == 1 { "" } else { ": no arm is faster" };
        return stay(format!("stay with {base}{none}"));
    }
    let one = all.iter().find(|(name, _)| *name == arm).map_or(&[][..], |(_, e)| &e[..]);
    let text = match (has(one, Verdict::Faster), has(one, Verdict::Slower)) {
        (true, false) if one.iter().all(|e| e.c.verdict == Verdict::Faster) => format!("use {arm}"),
        (true, false) => format!("use {arm} there; it was not slower anywhere"),
        _ => format!("use {} where the table has ▲, {base} elsewhere", if all.len() == 1 { arm } else { "the arm" }),
    };
    Advice { text, changes: true }
}
