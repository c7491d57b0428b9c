//! What studies count and no comparison of ours is about.

use iotrail_schema::measurement::Measurement;
use iotrail_schema::vehicle::Vehicle;

use crate::compare::Metric;
use crate::delivered::tick_rate;
use crate::per_io;

/// A number of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Metric(Metric),
    ReschedIpis,
    DeviceIrqs,
    ContextSwitches,
    PageFaults,
    /// The share of the completions that waited for the timer tick.
    TimerTickShare,
    /// The median delay of these, in ticks.
    TimerTickDelay,
}

const OWN: [(&str, Figure); 6] = [
    ("resched_ipis_per_io", Figure::ReschedIpis),
    ("device_irqs_per_io", Figure::DeviceIrqs),
    ("context_switches_per_io", Figure::ContextSwitches),
    ("page_faults_per_io", Figure::PageFaults),
    ("timer_tick_share", Figure::TimerTickShare),
    ("timer_tick_delay", Figure::TimerTickDelay),
];

impl Figure {
    /// `None`: nothing is called so.
    pub fn named(name: &str) -> Option<Figure> {
        let own = OWN.iter().find(|(own, _)| *own == name).map(|(_, figure)| *figure);
        own.or_else(|| name.parse().ok().map(Figure::Metric))
    }

    pub fn of(self, m: &Measurement) -> Option<f64> {
        match self {
            Figure::Metric(metric) => metric.of(m),
            Figure::ReschedIpis => m.per_io.resched_ipis,
            Figure::DeviceIrqs => m.per_io.device_irqs,
            Figure::ContextSwitches => m.per_io.context_switches,
            Figure::PageFaults => per_io::mode_switches(m, "page_fault"),
            Figure::TimerTickShare => {
                let of = |is: &dyn Fn(Vehicle) -> bool| -> u64 {
                    m.vehicles.iter().filter(|v| is(v.vehicle)).map(|v| v.completions).sum()
                };
                let all = of(&|_| true);
                (all > 0).then(|| of(&|v| v == Vehicle::TimerTick) as f64 / all as f64)
            }
            Figure::TimerTickDelay => {
                let ticked = m.vehicles.iter().filter(|v| v.vehicle == Vehicle::TimerTick);
                // One path may have several entries, by what is behind it: the one with most of the completions.
                let most = ticked.max_by_key(|v| v.completions)?;
                Some(most.delay_ns.as_ref()?.p50? as f64 / 1e9 * tick_rate(m)?)
            }
        }
    }
}

/// How much of its CPUs the load kept busy; `None`: not known.
pub fn busy(m: &Measurement) -> Option<f64> {
    let mut cpus = m.load.cpus.clone();
    cpus.sort_unstable();
    cpus.dedup();
    let cpus = if cpus.is_empty() { m.load.jobs as usize } else { cpus.len() };
    let spent = m.cpu.user_ns? + m.cpu.system_ns? + m.cpu.helpers_ns.unwrap_or(0);
    (m.elapsed_ns > 0 && cpus > 0).then(|| spent as f64 / (m.elapsed_ns as f64 * cpus as f64))
}
