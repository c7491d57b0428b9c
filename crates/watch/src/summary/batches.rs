//! io_uring_enter calls, estimated from the requests selected in them.

use super::part::estimated;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::Batches;
use iotrail_schema::trace_record::{EnterBatch, Estimate};
use iotrail_stats::estimate::{self, Stratum};

pub(super) fn enter_batches(batches: &Batches, one_in: u32) -> Vec<EnterBatch> {
    let record = |(at_least, taken): (&u64, &Stratum)| EnterBatch {
        at_least: *at_least,
        requests: taken.items(),
        estimated: Some(taken.stands_for(one_in)),
        calls: taken.total(one_in),
        calls_ci95: estimate::interval(&[*taken], one_in).map(|t| [t.lo, t.hi]),
    };
    batches.iter().map(record).collect()
}

pub(super) fn enter_calls(batches: &Batches, one_in: u32) -> Option<Estimate> {
    estimated(batches.values().copied(), one_in)
}

/// Over all rings, with or without their own record.
pub(super) fn of_all(observed: &Observed) -> Batches {
    let mut batches = Batches::new();
    let of_others = observed.others.iter().map(|others| &others.batches);
    for (at_least, taken) in observed.rings.iter().map(|ring| &ring.batches).chain(of_others).flatten() {
        batches.entry(*at_least).or_default().add(taken);
    }
    batches
}
