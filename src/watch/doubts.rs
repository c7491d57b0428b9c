//! Where the probes' counts must not be taken at their word.

use crate::measurement::Warning;
use crate::probe::observed::Observed;

pub fn doubts(o: &Observed) -> Vec<Warning> {
    let mut doubts = vec![];
    if o.lost > 0 {
        doubts.push(Warning::new(
            "events_lost",
            format!("{} events were lost: a counter's map was full or a probe interrupted itself", o.lost),
            "take the counts as lower bounds",
        ));
    }
    for m in &o.missed {
        doubts.push(Warning::new(
            "events_missed",
            format!("{} missed {} events, which arrived while it was running", m.program, m.events),
            "its count is low by at most that; `iotrail check --json` says what each program is for",
        ));
    }
    // The kernel's own count is the observer that nothing escapes.
    for i in &o.interrupts {
        // The two are not read at the same instant: a few apart is no miss.
        let Some(proc) = i.proc_count.filter(|p| p.saturating_sub(i.count) > 5) else { continue };
        if (i.count as f64) < 0.99 * proc as f64 {
            doubts.push(Warning::new(
                "interrupts_missed",
                format!(
                    "the probes saw {} of the {proc} interrupts {} {} on CPU {} that /proc/interrupts counted",
                    i.count, i.vector, i.name, i.cpu
                ),
                "counts of interrupts and their wake-ups are low by that share; completions are not affected",
            ));
        }
    }
    doubts
}
