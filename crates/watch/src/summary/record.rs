//! Builds the record of a trace.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::contexts::{context, others};
use super::followed::Summary;
use super::open::open;
use super::part::Part;
use super::rings::{ring, share_threads, sq_tids, sqpoll};
use super::seen::{ProcView, Span};
use super::total::{count_intervals, total};
use crate::{files, rings, threads};
use iotrail_answer::warnings::doubt;
use iotrail_path::waits::Limit;
use iotrail_probe::function::sees_ends;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::RingCounts;
use iotrail_schema::account::{Account, End, Start};
use iotrail_schema::measurement::Warning;
use iotrail_schema::trace_record::{IowqRecord, OpcodeRecord, RingRecord, SCHEMA, Total, TraceCpu, TraceRecord};

/// Numbers of the `most` busiest rings.
fn busiest(rings: &[RingCounts], most: usize) -> BTreeSet<u32> {
    let mut all: Vec<&RingCounts> = rings.iter().collect();
    all.sort_by_key(|counts| Reverse(counts.opcodes.iter().map(|op| op.completions).sum::<u64>()));
    all.into_iter().take(most).map(|counts| counts.ring).collect()
}

impl Summary {
    pub fn record(mut self, observed: Observed, seen: &ProcView<'_>, span: Span) -> TraceRecord {
        let none = Part::default();
        let limits: BTreeMap<Option<u32>, BTreeMap<String, Limit>> =
            self.parts.iter_mut().map(|(ring, part)| (*ring, part.settle())).collect();
        let is_wait = |ring: u32, opcode: &str, armed: Option<u8>| {
            let limit = limits.get(&Some(ring)).and_then(|of_ring| of_ring.get(opcode));
            limit.is_some_and(|limit| limit.is_wait(armed))
        };
        let mut orders = self.passages.by_ring(sees_ends(&observed.programs), &is_wait);
        let part = |ring: u32| self.parts.get(&Some(ring)).unwrap_or(&none);
        let one_in = self.one_in(&observed.follow_loss);
        let sq_tids = sq_tids(&observed.rings, &self.parts);
        let matched = rings::matched(&observed.rings, &seen.rings, &sq_tids, &rings::partly_told(&observed.others));
        let threads = threads::of_rings(&observed.rings, |ring| self.parts.get(&Some(ring)).map(|part| &part.threads));
        let listed = busiest(&observed.rings, self.listed);
        let all_rings = observed.rings.len();
        let left_out = (listed.len() < all_rings).then(|| {
            let text = format!("only the busiest {} of {all_rings} rings are listed", listed.len());
            Warning::new("rings_left_out", text, "")
        });
        let mut rings: Vec<RingRecord> = observed
            .rings
            .iter()
            .zip(matched)
            .zip(threads)
            .filter(|((counts, _), _)| listed.contains(&counts.ring))
            .map(|((counts, found), threads)| {
                let sqpoll = sqpoll(counts, found, sq_tids.get(&counts.ring).copied(), seen);
                let order = orders.remove(&counts.ring);
                let count_intervals = count_intervals(&observed, Some(counts.ring));
                let napi = rings::napi(found, counts, &seen.rings);
                RingRecord {
                    order,
                    threads,
                    count_intervals,
                    napi,
                    ..ring(counts, found, part(counts.ring), one_in, sqpoll)
                }
            })
            .collect();
        share_threads(&mut rings);
        let contexts = observed.contexts.iter().map(|counts| context(counts, part(counts.context), one_in)).collect();
        let others = observed.others.iter().map(|counts| others(counts, &none, one_in)).collect();
        let mut all = Part::default();
        self.parts.values().for_each(|part| all.add(part));
        let open = observed.open.iter().filter_map(|counts| open(counts, &observed.rings, seen.files)).collect();
        let (files, other_files) = files::records(&self.files, &|key| seen.files.name(key), one_in);
        let emulated = doubt::emulated(&span.host).into_iter().collect();
        let times = all.times();
        let total = total(observed, &all, &times, &self, span.elapsed_ns, &seen.rings, &is_wait);
        // Weights of traced requests are estimates. If each request has a single completion, the number of requests is
        // exact.
        let each = |o: &OpcodeRecord| o.more == 0 && o.waits.is_none();
        let requests = times.account().map(|mut requests| {
            if total.opcodes.iter().all(each) {
                requests.stands_for(total.ios);
            }
            // AIO requests begin at their call and end at their reaping.
            if rings.is_empty() {
                (requests.from, requests.to) = (Start::Intended, End::Reaped);
            }
            requests
        });
        TraceRecord {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_unix_s: span.started_unix_s,
            subject: span.subject,
            ended_by: None,
            total: Total {
                cpu: TraceCpu {
                    user_ns: span.cpu.map(|cpu| cpu.user_ns),
                    system_ns: span.cpu.map(|cpu| cpu.system_ns),
                },
                processes: span.processes,
                // A sample of /proc also finds workers that slept throughout.
                iowq: IowqRecord {
                    most_at_once: span.most_workers.max(total.iowq.most_at_once),
                    cpu_ns: span.workers_cpu_ns,
                    ..total.iowq
                },
                host: span.host,
                open,
                files,
                other_files,
                warnings: [span.warnings, emulated, total.warnings, left_out.into_iter().collect()].concat(),
                ..total
            },
            rings,
            contexts,
            account: Some(Account { requests, ..Account::default() }),
            calls: None,
            state: None,
            stacks: None,
            others,
            findings: vec![],
        }
    }
}
