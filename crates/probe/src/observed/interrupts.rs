//! Interrupts, IPIs, and returns to user mode.

use std::collections::BTreeMap;

use super::readout::Raw;
use crate::carrier::{fired_name, handler, vector};
use crate::skel::types;
use crate::subject::Subject;
use crate::support::{Facts, Plan};
use crate::symbols::Symbols;
use iotrail_host::irq::Interrupts;
use iotrail_path::entry::{self, Entry, Fired};
use iotrail_schema::measurement::{Interrupt, Ipi};
use iotrail_schema::waker::Line;

const DEVICE: types::vector = types::vector::VEC_MAX;

fn cause(entry: &Entry) -> &'static str {
    match entry {
        Entry::TimerTick => "timer_tick",
        Entry::ReschedIpi => "resched_ipi",
        Entry::DeviceIrq => "device_irq",
        Entry::PageFault | Entry::Other(_) => "other",
    }
}

pub(super) fn ipis(raw: &Raw, symbols: Option<&Symbols>) -> Vec<Ipi> {
    let mut by_site = BTreeMap::new();
    for (key, count) in raw.ipis.iter().filter(|(_, count)| *count > 0) {
        let site = symbols.and_then(|s| s.caller(key.site)).map_or(format!("{:#x}", key.site), str::to_owned);
        *by_site.entry((site, key.from_cpu, key.to_cpu)).or_insert(0) += count;
    }
    by_site
        .into_iter()
        .map(|((site, from_cpu, to_cpu), count)| Ipi { site: site.into(), from_cpu, to_cpu, count })
        .collect()
}

pub(super) fn returns(
    raw: &Raw,
    symbols: Option<&Symbols>,
    page_faults: Option<u64>,
    line: &dyn Fn(u32) -> Line,
) -> Option<BTreeMap<&'static str, u64>> {
    let symbols = symbols?;
    let mut by_cause = BTreeMap::from([("page_fault", page_faults?)]);
    for (key, count) in raw.returns.iter().filter(|(_, count)| *count > 0) {
        let fired = match key.vector {
            DEVICE => Fired::Line,
            types::vector::VEC_UNTRACED_TIMER => Fired::Timer,
            vector => Fired::Vector(fired_name(vector).into()),
        };
        let line = key.line.checked_sub(1).map(line).and_then(|l| l.name);
        let entry = entry::of(symbols.caller(key.entry), Some(&fired), line.as_deref());
        // An interrupt within a softirq or page fault shares that entry.
        let own = entry::of(None, Some(&fired), line.as_deref());
        if let Some(entry) = entry.filter(|e| Some(e) == own.as_ref()) {
            *by_cause.entry(cause(&entry)).or_insert(0) += count;
        }
    }
    Some(by_cause)
}

/// Interrupts in which I/O of traced processes ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credits {
    /// Observed number.
    pub seen: u64,
    /// Estimated total with its 95 % interval, if the count is partial.
    pub estimate: Option<(f64, (f64, f64))>,
}

impl Credits {
    /// Estimated interrupts of a line and their interval, from its `credited` share of the observed ones; at most
    /// `count`. The share adds a binomial error.
    fn of_line(self, credited: u64, count: u64) -> (f64, Option<[f64; 2]>) {
        let (credited, most) = (credited as f64, count as f64);
        let Some((all, (lo, hi))) = self.estimate else { return (credited, None) };
        let share = if self.seen > 0 { credited / self.seen as f64 } else { 0.0 };
        if share == 0.0 {
            return (0.0, Some([0.0, hi.min(most)]));
        }
        let binomial = 1.96 * (1.0 / credited - 1.0 / self.seen as f64).max(0.0).sqrt() * all;
        let below = (all - lo).hypot(binomial);
        let above = (hi - all).hypot(binomial);
        let of = |x: f64| (x * share).clamp(credited, most.max(credited));
        (of(all), Some([of(all - below), of(all + above)]))
    }
}

/// Interrupts by line: the target's, those that ended the program's I/O, and those that interrupted a traced thread.
/// `credits`: `None` if interrupts cannot be attributed.
pub(super) fn interrupts(
    raw: &Raw,
    subject: &Subject,
    credits: Option<Credits>,
    proc_interrupts: Option<&Interrupts>,
) -> Vec<Interrupt> {
    let mut rows: BTreeMap<(String, u32), (String, types::irq_count)> = BTreeMap::new();
    for (irq, cpu, n) in &raw.irqs {
        let name = proc_interrupts.and_then(|p| handler(p, *irq)).unwrap_or_default();
        let (_, row) = rows.entry((irq.to_string(), *cpu)).or_insert((name, types::irq_count::default()));
        row.count += n.count;
        row.on_watched += n.on_watched;
        row.credited += n.credited;
        row.spent_ns += n.spent_ns;
        row.threaded += n.threaded;
    }
    let of_target = |line: &str| subject.target_irqs.iter().any(|irq| irq.to_string() == line);
    rows.retain(|(line, _), (_, n)| n.on_watched + n.credited > 0 || (n.count > 0 && of_target(line)));
    for (cpu, slot) in raw.slots.iter().enumerate() {
        for (i, n) in slot.vectors.iter().enumerate().filter(|(_, n)| n.on_watched > 0) {
            let (mnemonic, name) = vector(types::vector(i as u32));
            let key = (mnemonic.into(), cpu as u32);
            let (_, row) = rows.entry(key).or_insert((name.into(), types::irq_count::default()));
            row.count += n.count;
            row.on_watched += n.on_watched;
        }
    }
    rows.into_iter()
        .map(|((vector, cpu), (name, types::irq_count { count, on_watched, credited, spent_ns, threaded }))| {
            let of_line = credits.filter(|_| vector.parse::<u32>().is_ok()).map(|c| c.of_line(credited, count));
            Interrupt {
                // Only line handlers are timed and end I/O. IRQ threads are not timed.
                spent_ns: Some(spent_ns)
                    .filter(|_| subject.spans_timed && threaded == 0 && vector.parse::<u32>().is_ok()),
                credited: of_line.map(|(estimate, _)| estimate.round() as u64),
                credited_ci95: of_line.and_then(|(_, interval)| interval),
                proc_count: proc_interrupts.and_then(|p| p.count(&vector, cpu)),
                vector: vector.into(),
                name: name.into(),
                cpu,
                count,
                on_watched,
            }
        })
        .collect()
}

/// Programs without which device interrupts cannot be attributed.
const CREDITS: [&str; 6] = [
    "interrupt_handler_entry",
    "interrupt_handler_exit",
    "interrupt_softirq_raise",
    "interrupt_softirq_entry",
    "interrupt_softirq_exit",
    "credit_block",
];

/// Number of device interrupts in which I/O of a traced process ended.
pub(super) fn credited(raw: &Raw) -> u64 {
    raw.irqs.iter().map(|(.., n)| n.credited).sum()
}

/// Whether the attached programs can attribute interrupts. VMBus devices (Hyper-V) do not use interrupt lines.
pub(super) fn tells_whose(plan: &Plan) -> bool {
    CREDITS.iter().all(|program| plan.attach.contains(program)) && !Facts::of_this_kernel().hyper_v
}

/// Number of reschedule IPIs for traced threads. The target of the kick or wake-up decides, whatever its sender.
pub(super) fn resched_ipis(raw: &Raw) -> u64 {
    let for_watched = types::ipi_flag::IPI_RESCHED.0 | types::ipi_flag::IPI_FOR_WATCHED.0;
    raw.ipis.iter().filter(|(key, ..)| key.flags.0 & for_watched == for_watched).map(|(.., n)| n).sum()
}
