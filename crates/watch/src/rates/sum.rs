//! Counts and traced requests of an interval, and their rates.

use std::collections::BTreeMap;

use crate::summary::Part;
use iotrail_path::times::Times;
use iotrail_probe::rings::{OpcodeCounts, RingCounts};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::setup_flag;
use iotrail_schema::top_record::{DeliveryPathShare, OpcodeRates, Rates, RingRates};
use iotrail_stats::durations::Durations;

/// Counts and traced requests of an interval.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub requests: u64,
    pub completions: u64,
    pub bytes: u64,
    pub errors: u64,
    pub punts: u64,
    pub overflows: u64,
    pub vehicles: BTreeMap<DeliveryPath, u64>,
    pub times: Times,
    pub delays: Durations,
}

impl Sum {
    pub fn take(&mut self, ring: &RingCounts, part: &Part) {
        self.counted(&ring.opcodes, ring.overflows, &ring.vehicles);
        self.followed(part);
    }

    /// Adds another sum.
    pub fn and(mut self, other: &Sum) -> Sum {
        self.add(other);
        self
    }

    pub fn counted(&mut self, opcodes: &[OpcodeCounts], overflows: u64, vehicles: &[DeliveryPathCount]) {
        for o in opcodes {
            self.requests += o.requests;
            self.completions += o.completions;
            self.bytes += o.bytes;
            self.errors += o.errors;
            self.punts += punts(o);
        }
        self.overflows += overflows;
        self.carried(vehicles);
    }

    /// Completions with an observed delivery path.
    pub fn of_context(&mut self, opcodes: &[OpcodeCounts], vehicles: &[DeliveryPathCount]) {
        for o in opcodes {
            self.requests += o.requests;
            self.bytes += o.bytes;
            self.errors += o.errors;
        }
        self.completions += vehicles.iter().map(|v| v.completions).sum::<u64>();
        self.carried(vehicles);
    }

    pub fn carried(&mut self, vehicles: &[DeliveryPathCount]) {
        for v in vehicles {
            *self.vehicles.entry(v.vehicle).or_default() += v.completions;
        }
    }

    pub fn followed(&mut self, part: &Part) {
        self.times.add(&part.times());
        self.delays.add(&part.delays.all());
    }

    pub fn add(&mut self, other: &Sum) {
        self.requests += other.requests;
        self.completions += other.completions;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.punts += other.punts;
        self.overflows += other.overflows;
        for (vehicle, n) in &other.vehicles {
            *self.vehicles.entry(*vehicle).or_default() += n;
        }
        self.times.add(&other.times);
        self.delays.add(&other.delays);
    }

    /// `one_in`: as in [`Durations::latency`].
    pub fn rates(&self, per_s: &dyn Fn(u64) -> f64, one_in: u32) -> Rates {
        let carried: u64 = self.vehicles.values().sum();
        let mut vehicles: Vec<DeliveryPathShare> = self
            .vehicles
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(&vehicle, &completions)| DeliveryPathShare {
                vehicle,
                completions,
                share: completions as f64 / carried as f64,
            })
            .collect();
        vehicles.sort_by_key(|v| std::cmp::Reverse(v.completions));
        Rates {
            requests_per_s: per_s(self.requests),
            completions_per_s: per_s(self.completions),
            bytes_per_s: per_s(self.bytes),
            errors_per_s: per_s(self.errors),
            punts_per_s: per_s(self.punts),
            overflows: self.overflows,
            latency_ns: self.times.latency(one_in),
            waits: self.times.waits(one_in),
            delivery_delay_ns: self.delays.latency(one_in),
            vehicles,
        }
    }
}

fn punts(o: &OpcodeCounts) -> u64 {
    o.punted_asked + o.punted_would_block + o.punted_drained
}

pub(super) fn ring_rates(
    grown: &RingCounts,
    sum: &Sum,
    part: &Part,
    fds: Vec<u32>,
    sqpoll_cpu: Option<f64>,
    per_s: &dyn Fn(u64) -> f64,
    one_in: u32,
) -> RingRates {
    let opcode = |o: &OpcodeCounts| OpcodeRates {
        opcode: o.opcode.clone(),
        requests_per_s: per_s(o.requests),
        completions_per_s: per_s(o.completions),
        bytes_per_s: per_s(o.bytes),
        errors_per_s: per_s(o.errors),
        punts_per_s: per_s(punts(o)),
        latency_ns: part.by_opcode.get(&o.opcode).map(|times| times.latency(one_in)).unwrap_or_default(),
        waits: part.by_opcode.get(&o.opcode).and_then(|times| times.waits(one_in)),
    };
    let mut opcodes: Vec<&OpcodeCounts> = grown.opcodes.iter().filter(|o| o.requests + o.completions > 0).collect();
    opcodes.sort_by_key(|o| std::cmp::Reverse((o.completions, o.requests)));
    let mut carried = part.vehicles(&grown.vehicles);
    carried.sort_by_key(|v| std::cmp::Reverse(v.completions));
    RingRates {
        ring: grown.ring,
        tgid: grown.tgid,
        comm: grown.comm.clone(),
        use_of: grown.of,
        fds,
        flags: setup_flag::names(grown.setup_flags, Some(grown.cq_entries)),
        sq_entries: grown.sq_entries,
        cq_entries: grown.cq_entries,
        rates: sum.rates(per_s, one_in),
        sqpoll_cpu,
        opcodes: opcodes.into_iter().map(opcode).collect(),
        carried,
        stages: sum.times.stages(one_in),
    }
}
