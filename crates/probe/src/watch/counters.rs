//! Reads the probes' counters from their maps and the CPUs' slots.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use libbpf_rs::MapCore;

use super::attached::Watch;
use super::tables::{self, entries};
use crate::counted::{Counted, RawRing};
use crate::observed::Raw;
use crate::raw::{peek, read};
use crate::rings::Process;
use crate::skel::types;
use iotrail_base::error::Result;

/// Bytes of a key.
type Key<const N: usize> = [u8; N];

/// Counts of rings by ring number.
type ByNumber = Vec<(u32, Counted)>;

/// Contents of a hash at one reading.
type Table<const N: usize, V> = HashMap<Key<N>, V>;

/// Contents of the hashes that have part of their counts in the slots.
struct Tables {
    ops: Table<8, types::op_count>,
    rings: Table<4, types::ring_count>,
    deliveries: Table<32, u64>,
    ipis: Table<24, u64>,
    returns: Table<16, u64>,
    threads: Table<8, types::ring_thread>,
}

impl Watch<'_> {
    /// Copies the slots, which programs may be writing. No count has another key's value.
    pub(super) fn slots(&self) -> Vec<types::cpu_slot> {
        const ATTEMPTS: usize = 100;
        let slots = &self.bss().slots;
        let read = |slot: &types::cpu_slot| {
            let once = || peek(slot);
            let (mut before, mut now) = (once(), once());
            for _ in 0..ATTEMPTS {
                let after = once();
                if keys(&before) == keys(&now) && keys(&now) == keys(&after) {
                    break;
                }
                (before, now) = (now, after);
            }
            now
        };
        slots.iter().take(self.cpus).map(read).collect()
    }

    /// Current counters, without requests in flight.
    pub(super) fn counters(&self) -> Result<Raw> {
        let (slots, tables) = self.settled()?;
        let maps = &self.skel.maps;
        let irqs = entries::<types::irq_key, types::irq_count>(&maps.irqs)?.into_iter();
        let mut raw = Raw {
            misses: self.misses_since_begin()?,
            irqs: irqs.map(|(key, count)| (key.line, key.cpu, count)).collect(),
            returns: tables.returns.iter().map(|(key, n)| (read(key), *n)).collect(),
            ipis: tables.ipis.iter().map(|(key, n)| (read(key), *n)).collect(),
            ..Raw::default()
        };
        for (cpu, slot) in slots.iter().enumerate() {
            if slot.last_line_count.count > 0 {
                raw.irqs.push((slot.last_irq - 1, cpu as u32, slot.last_line_count));
            }
        }
        if self.subject.follow.is_some() {
            (raw.rings, raw.among_others) = self.rings(&tables)?;
            raw.native_aio = self.native_aio
                || raw.rings.iter().any(|r| r.info.interface == types::interface::INTERFACE_AIO && r.info.tgid != 0);
            raw.forgotten = self.past.forgotten.clone();
            raw.disarmed = entries(&maps.disarmed)?;
            self.processes(&mut raw)?;
            raw.sampled_events = self.sampled_events();
            let bss = self.bss();
            raw.workers = (bss.workers_made.into(), bss.workers_most.into());
        } else {
            raw.deliveries = tables.deliveries.iter().map(|(key, n)| (read(key), *n)).collect();
        }
        raw.slots = slots;
        Ok(raw)
    }

    /// Reads the hashes and the slots' counts consistently. A CPU moves a key's count to the hash when it reassigns the
    /// cell. A count that moved while the hashes were read is looked up again, so that it is neither missed nor counted
    /// twice. If keys change continuously, some counts may be missed until the next reading. None is counted twice,
    /// because the slots are read after the hashes.
    fn settled(&self) -> Result<(Vec<types::cpu_slot>, Tables)> {
        const ATTEMPTS: usize = 3;
        let maps = &self.skel.maps;
        let (mut then, mut moved) = (self.slots(), true);
        let mut tables = Tables {
            ops: entries(&maps.op_counts)?.into_iter().collect(),
            rings: entries(&maps.ring_counts)?.into_iter().collect(),
            deliveries: entries(&maps.deliveries)?.into_iter().collect(),
            ipis: entries(&maps.ipis)?.into_iter().collect(),
            returns: entries(&maps.returns)?.into_iter().collect(),
            threads: entries(&maps.ring_threads)?.into_iter().collect(),
        };
        for _ in 0..ATTEMPTS {
            let now = self.slots();
            moved = false;
            for (a, b) in then.iter().zip(&now) {
                for (a, b) in a.ops.iter().zip(&b.ops) {
                    let of = |c: &types::op_cell| (key(&c.key), c.count.requests.wrapping_add(c.count.completions));
                    moved |= resettle(&maps.op_counts, &mut tables.ops, of(a), of(b))?;
                }
                for (a, b) in a.rings.iter().zip(&b.rings) {
                    let of = |c: &types::ring_cell| (key(&c.ring), c.count.inlined + c.count.iowq + c.count.sqpoll);
                    moved |= resettle(&maps.ring_counts, &mut tables.rings, of(a), of(b))?;
                }
                let of = |s: &types::cpu_slot| (key(&s.last_delivery), s.last_delivery_count);
                moved |= resettle(&maps.deliveries, &mut tables.deliveries, of(a), of(b))?;
                let of = |s: &types::cpu_slot| (key(&s.last_ipi), s.last_ipi_count);
                moved |= resettle(&maps.ipis, &mut tables.ipis, of(a), of(b))?;
                let of = |s: &types::cpu_slot| (key(&s.last_return), s.last_return_count);
                moved |= resettle(&maps.returns, &mut tables.returns, of(a), of(b))?;
                let of = |s: &types::cpu_slot| (key(&s.last_thread), s.last_thread_waits);
                moved |= resettle(&maps.ring_threads, &mut tables.threads, of(a), of(b))?;
            }
            then = now;
            if !moved {
                break;
            }
        }
        if moved {
            then = self.slots();
        }
        for slot in &then {
            *tables.deliveries.entry(key(&slot.last_delivery)).or_default() += slot.last_delivery_count;
            *tables.ipis.entry(key(&slot.last_ipi)).or_default() += slot.last_ipi_count;
            *tables.returns.entry(key(&slot.last_return)).or_default() += slot.last_return_count;
            tables.threads.entry(key(&slot.last_thread)).or_default().waits += slot.last_thread_waits;
            // Counts of rings are added where the rings are combined.
        }
        self.add_cells(&then, &mut tables);
        Ok((then, tables))
    }

    fn add_cells(&self, slots: &[types::cpu_slot], tables: &mut Tables) {
        for slot in slots {
            for cell in &slot.ops {
                let mut sum = Counted::default();
                sum.op(0, tables.ops.get(&key(&cell.key)).unwrap_or(&types::op_count::default()));
                sum.part(0, &cell.count);
                tables.ops.insert(key(&cell.key), sum.ops[&0]);
            }
            for cell in slot.rings.iter().filter(|cell| cell.used != 0) {
                let mut sum = Counted::default();
                sum.ring(tables.rings.get(&key(&cell.ring)).unwrap_or(&types::ring_count::default()));
                sum.ring(&cell.count);
                tables.rings.insert(key(&cell.ring), sum.ring);
            }
        }
    }

    /// Every ring and context, in the maps or already swept; and by number, the counts of those reported among the
    /// others that stay in the maps.
    fn rings(&self, tables: &Tables) -> Result<(Vec<RawRing>, ByNumber)> {
        let mut by_number: BTreeMap<u32, Counted> = BTreeMap::new();
        for (k, n) in &tables.ops {
            let k: types::op_key = read(k);
            if n.requests | n.completions | n.unposted | n.punted_asked | n.punted_would_block | n.punted_drained != 0 {
                by_number.entry(k.ring).or_default().op(k.opcode, n);
            }
        }
        for (k, n) in &tables.rings {
            by_number.entry(read(k)).or_default().ring(n);
        }
        for (k, n) in tables.deliveries.iter().filter(|(_, n)| **n > 0) {
            let k: types::delivery_key = read(k);
            by_number.entry(k.ring).or_default().delivery(&k, *n);
        }
        for (k, n) in entries::<types::errno_key, u64>(&self.skel.maps.errnos)? {
            by_number.entry(k.ring).or_default().errno(&k, n);
        }
        for (k, n) in entries::<types::batch_key, u64>(&self.skel.maps.batches)? {
            by_number.entry(k.ring).or_default().batch(&k, n);
        }
        for (k, n) in entries::<types::buffer_key, types::buffer_count>(&self.skel.maps.buffer_counts)? {
            by_number.entry(k.ring).or_default().buffers.insert(k.group, n);
        }
        for (k, n) in &tables.threads {
            let k: types::ring_thread_key = read(k);
            if k.tid != 0 {
                by_number.entry(k.ring).or_default().thread(k.tid, n);
            }
        }
        let mut rings: Vec<RawRing> = entries::<u32, types::ring_info>(&self.skel.maps.ring_infos)?
            .into_iter()
            .map(|(number, info)| RawRing { number, info, counted: by_number.remove(&number).unwrap_or_default() })
            .collect();
        let mut among_others = vec![];
        for ring in rings.iter_mut().filter(|ring| ring.is_others()) {
            ring.counted = self.past.untold(ring.number, std::mem::take(&mut ring.counted));
            among_others.push((ring.number, ring.counted.clone()));
        }
        for (number, counted) in by_number {
            let counted = self.past.untold(number, counted);
            among_others.push((number, counted.clone()));
            rings.push(self.past.as_late(number, counted));
        }
        Ok((self.past.all(rings), among_others))
    }

    fn processes(&self, raw: &mut Raw) -> Result<()> {
        let living = entries::<u32, types::process_info>(&self.skel.maps.followed)?.into_iter();
        raw.processes = living
            .map(|(tgid, info)| Process { tgid, comm: crate::raw::text(&info.comm), executed_ns: info.executed_ns })
            .collect();
        if let Some(trails) = &self.trails {
            let lost: u64 = raw.slots.iter().map(|s| s.losses[types::loss::LOSS_NAME.0 as usize]).sum();
            let (named, more) = trails.ended()?;
            let known: BTreeSet<u32> = raw.processes.iter().map(|p| p.tgid).collect();
            raw.processes.extend(named.into_iter().filter(|p| !known.contains(&p.tgid)));
            raw.more_processes = more + lost;
        }
        Ok(())
    }
}

/// The keys of a slot's cells, for comparison.
fn keys(slot: &types::cpu_slot) -> impl PartialEq {
    let ops = slot.ops.map(|cell| (cell.key.ring, cell.key.opcode));
    let rings = slot.rings.map(|cell| (cell.ring, cell.used));
    let last: (Key<32>, Key<24>, Key<16>) = (key(&slot.last_delivery), key(&slot.last_ipi), key(&slot.last_return));
    let last_thread: Key<8> = key(&slot.last_thread);
    (ops, rings, last, last_thread, slot.last_irq)
}

fn key<K: Copy, const N: usize>(of: &K) -> Key<N> {
    assert_eq!(size_of::<K>(), N, "a key's size");
    // SAFETY: the value is live and consists of N bytes of plain integers without padding.
    unsafe { std::ptr::read_unaligned(std::ptr::from_ref(of).cast()) }
}

/// Rereads the hash entries of a slot's cell if it moved its count since the last reading. Returns whether it did.
fn resettle<const N: usize, V: Copy>(
    map: &impl MapCore,
    table: &mut Table<N, V>,
    then: (Key<N>, u64),
    now: (Key<N>, u64),
) -> Result<bool> {
    if then.0 == now.0 && then.1 <= now.1 {
        return Ok(false);
    }
    for key in [then.0, now.0] {
        if let Some(value) = tables::lookup(map, &key)? {
            table.insert(key, value);
        }
    }
    Ok(true)
}
