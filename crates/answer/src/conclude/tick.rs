//! Arms whose completions were mostly delivered by the timer tick: their rate compared with the tick rate, and the
//! cause.

use super::part::{Part, find};
use crate::delivered::{tick_rate, why_the_tick};
use crate::diagnose::notify::waited_for_tick;
use crate::group::vehicle_shares;
use crate::spread::{Spread, over_repeats};
use crate::unit::Unit;
use iotrail_base::words::{count, three_digits};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::measurement::Wait;

pub fn of(part: &Part<'_>) -> Vec<String> {
    part.run.arms.iter().filter_map(|arm| of_arm(part, arm)).collect()
}

fn of_arm(part: &Part<'_>, arm: &str) -> Option<String> {
    let mut parts = Vec::new();
    let mut why: Option<&Measurement> = None;
    let one = Unit::of_run(part.run).one();
    for row in &part.group.rows {
        let Some(cell) = find(row, arm) else { continue };
        if vehicle_shares(&cell.measurements.all()).first().is_none_or(|(v, _)| *v != DeliveryPath::TimerTick) {
            continue;
        }
        let (Some(rate), Some(m)) = (over_repeats(cell, |m| m.iops), cell.measurements.first()) else { continue };
        // Completions that became ready shortly before a tick did not wait for it.
        if waited_for_tick(&m.vehicles, &m.load.ring.requested, m.load.wait == Wait::Peek).is_none() {
            continue;
        }
        why = why.or(Some(m));
        let per_second = count(rate.round());
        let against = match Spread::over(cell, tick_rate).map(|s| s.median) {
            Some(ticks) => format!(
                "{per_second} {one}s and {} ticks per second, {} per tick",
                count(ticks.round()),
                three_digits(rate / ticks)
            ),
            None => format!("{per_second} {one}s per second"),
        };
        let place = part.at_row(row);
        parts.push(format!("{against}{}{place}", if place.is_empty() { "" } else { "," }));
    }
    Some(format!(
        "With {arm} completions wait for the timer tick ({}). {}.",
        parts.join("; "),
        why_the_tick(&why?.load.ring.requested, why?.load.wait == Wait::Peek)
    ))
}
