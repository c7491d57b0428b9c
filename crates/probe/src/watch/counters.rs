//! The probes' counters, read out of their maps and the CPUs' slots.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags, libbpf_sys};

use super::tables::{self, entries};
use super::{Raw, Watch, types};
use crate::cost::Runs;
use crate::counted::{Counted, RawRing};
use crate::raw::read;
use crate::rings::Process;
use iotrail_base::error::{Error, Result};

/// Rings or processes that have gone since the last time that the maps were swept: it costs a walk through all that is in them.
const SWEEP: u32 = 256;

/// A key's bytes, to be looked up by.
type Key<const N: usize> = [u8; N];

/// Counts of rings by their numbers.
type ByNumber = Vec<(u32, Counted)>;

/// A hash as it was read.
type Table<const N: usize, V> = HashMap<Key<N>, V>;

/// The hashes of which the slots hold a part.
struct Tables {
    ops: Table<8, types::op_count>,
    rings: Table<4, types::ring_count>,
    deliveries: Table<32, u64>,
    ipis: Table<24, u64>,
    returns: Table<16, u64>,
    threads: Table<8, types::ring_thread>,
}

/// Followed requests of native and POSIX AIO at the end.
#[derive(Default)]
pub(super) struct OpenAio {
    pub unfinished: u64,
    /// Native aio's that are complete, and POSIX AIO's.
    pub unreaped: u64,
}

impl Watch<'_> {
    /// The slots as they are now; programs may be writing to them. No count stands by another one's key.
    pub(super) fn slots(&self) -> Vec<types::cpu_slot> {
        const ATTEMPTS: usize = 100;
        let slots = &self.skel.maps.bss_data.as_deref().expect("the object has counters").slots;
        let read = |slot: &types::cpu_slot| {
            // SAFETY: live and aligned; all fields are integers, so that what is torn is only a wrong number.
            let once = || unsafe { std::ptr::read_volatile(slot) };
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

    /// The counters as they are, but for what is parked and unfinished.
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
            self.processes(&mut raw)?;
            raw.sampled_events = self.sampled_events();
            let bss = self.skel.maps.bss_data.as_deref().expect("the object has counters");
            raw.workers = (bss.workers_made.into(), bss.workers_most.into());
        } else {
            raw.deliveries = tables.deliveries.iter().map(|(key, n)| (read(key), *n)).collect();
        }
        raw.slots = slots;
        Ok(raw)
    }

    /// The hashes with what the slots hold. A CPU hands over a key's count when it has another key to count: what it handed over while
    /// the hashes were read is looked up once more, so that it is neither missed nor counted twice. Where keys change all the time
    /// some may be missed, until the next look; none is counted twice, since the slots are read after the hashes.
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
            // Those of rings are added where rings are put together.
        }
        self.add_cells(&then, &mut tables);
        Ok((then, tables))
    }

    fn add_cells(&self, slots: &[types::cpu_slot], tables: &mut Tables) {
        for slot in slots {
            for cell in &slot.ops {
                let mut sum = Counted::default();
                sum.op(0, tables.ops.get(&key(&cell.key)).unwrap_or(&types::op_count::default()));
                sum.op(0, &cell.count);
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

    /// Each ring and context that is in the maps or was taken out of them; and by number, what of it is told among the others and stays
    /// in the maps.
    fn rings(&self, tables: &Tables) -> Result<(Vec<RawRing>, ByNumber)> {
        let mut by_number: BTreeMap<u32, Counted> = BTreeMap::new();
        for (k, n) in &tables.ops {
            let k: types::op_key = read(k);
            if n.requests | n.completions | n.punted_asked | n.punted_would_block | n.punted_drained != 0 {
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

    /// Takes the counts of rings that are no more out of the maps, where they are many, or at once.
    pub(super) fn sweep(&mut self, at_once: bool) -> Result<()> {
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has counters");
        // SAFETY: live and aligned; programs are writing, and a count that is a moment old is as good.
        let now = unsafe { std::ptr::read_volatile(&bss.rings_gone) + std::ptr::read_volatile(&bss.processes_gone) };
        let new = now.wrapping_sub(self.gone);
        let is_due = match at_once {
            true => new > 0 || !self.idle.is_empty(),
            false => new >= SWEEP.max(self.known_rings / 8),
        };
        if self.subject.follow.is_none() || !is_due {
            return Ok(());
        }
        self.gone = now;
        // Whoever is numbered from here on may have counts before its entry is read.
        // SAFETY: as above.
        let made = unsafe { std::ptr::read_volatile(&bss.rings_made) };
        let maps = &self.skel.maps;
        let infos: BTreeMap<u32, types::ring_info> = entries(&maps.ring_infos)?.into_iter().collect();
        let living: BTreeSet<u32> =
            entries::<u32, types::process_info>(&maps.followed)?.into_iter().map(|(tgid, _)| tgid).collect();
        // Rings that are passed on outlive the process that made them, where their own end is seen.
        let ends_seen = self.plan.attach.contains(&"ring_ended") && self.exit_work_known;
        let with_process = |info: &types::ring_info| {
            info.others > 0 || info.of > 0 || info.interface != types::interface::INTERFACE_IO_URING || !ends_seen
        };
        let ring_gone = |info: &types::ring_info| match info.of.checked_sub(1) {
            Some(ring) => infos.get(&ring).is_none_or(|ring| ring.gone != 0),
            None => info.gone != 0,
        };
        let is_gone = |info: &types::ring_info| ring_gone(info) || (with_process(info) && !living.contains(&info.tgid));
        // What a CPU or a thread has not handed over yet comes to the map later: it stays there until then.
        let mut held = BTreeSet::new();
        for slot in self.slots() {
            held.extend(slot.ops.iter().map(|cell| cell.key.ring));
            held.extend(slot.rings.iter().map(|cell| cell.ring));
            held.extend([slot.last_delivery.ring, slot.last_thread.ring]);
            held.extend(slot.segments.iter().filter(|s| s.count > 0).map(|s| s.ring));
        }
        for (_, state) in entries::<u32, types::thread_state>(&maps.threads)? {
            held.extend(state.segments.iter().filter(|s| s.count > 0).map(|s| s.ring));
        }
        let gone = infos.iter().filter(|(number, info)| is_gone(info) && !held.contains(number));
        let gone: BTreeMap<u32, types::ring_info> = gone.map(|(number, info)| (*number, *info)).collect();
        // It may be about to be handed over: it is taken where the last sweep found it so as well.
        let was_idle = std::mem::replace(&mut self.idle, gone.keys().copied().collect());
        let mut late = BTreeSet::new();
        let mut is_swept = |ring: u32| {
            if !gone.contains_key(&ring) {
                if ring >= made || infos.contains_key(&ring) || held.contains(&ring) {
                    return false;
                }
                late.insert(ring);
            }
            was_idle.contains(&ring)
        };
        let mut taken: BTreeMap<u32, Counted> = BTreeMap::new();
        for (key, _) in entries::<types::op_key, types::op_count>(&maps.op_counts)? {
            if is_swept(key.ring)
                && let Some(n) = tables::take(&maps.op_counts, &key)?
            {
                taken.entry(key.ring).or_default().op(key.opcode, &n);
            }
        }
        for (ring, _) in entries::<u32, types::ring_count>(&maps.ring_counts)? {
            if is_swept(ring)
                && let Some(n) = tables::take(&maps.ring_counts, &ring)?
            {
                taken.entry(ring).or_default().ring(&n);
            }
        }
        for (key, _) in entries::<types::delivery_key, u64>(&maps.deliveries)? {
            if is_swept(key.ring)
                && let Some(n) = tables::take(&maps.deliveries, &key)?
            {
                taken.entry(key.ring).or_default().delivery(&key, n);
            }
        }
        for (key, _) in entries::<types::errno_key, u64>(&maps.errnos)? {
            if is_swept(key.ring)
                && let Some(n) = tables::take(&maps.errnos, &key)?
            {
                taken.entry(key.ring).or_default().errno(&key, n);
            }
        }
        for (key, _) in entries::<types::batch_key, u64>(&maps.batches)? {
            if is_swept(key.ring)
                && let Some(n) = tables::take(&maps.batches, &key)?
            {
                taken.entry(key.ring).or_default().batch(&key, n);
            }
        }
        for (key, _) in entries::<types::ring_thread_key, types::ring_thread>(&maps.ring_threads)? {
            if is_swept(key.ring)
                && let Some(n) = tables::take(&maps.ring_threads, &key)?
            {
                taken.entry(key.ring).or_default().thread(key.tid, &n);
            }
        }
        self.idle.append(&mut late);
        let mut swept = 0;
        for (number, info) in gone.into_iter().filter(|(number, _)| was_idle.contains(number)) {
            self.idle.remove(&number);
            // It stands under another one's number by now, or under none.
            if info.gone == 0 && tables::lookup(&maps.ring_numbers, &info.address)? == Some(number) {
                tables::delete(&maps.ring_numbers, &info.address)?;
            }
            tables::delete(&maps.ring_infos, &number)?;
            swept += u32::from(info.others == 0);
            self.native_aio |= info.interface == types::interface::INTERFACE_AIO;
            self.past.take(RawRing { number, info, counted: taken.remove(&number).unwrap_or_default() });
        }
        taken.iter().for_each(|(number, counted)| self.past.late(*number, counted));
        self.past.thin(self.told_below);
        self.known_rings = infos.len() as u32 - swept;
        let bss = self.skel.maps.bss_data.as_deref_mut().expect("the object has counters");
        bss.rings_swept = bss.rings_swept.wrapping_add(swept);
        Ok(())
    }

    /// Requests that have a place among the followed: those of which no run of task work has told what carried their completion,
    /// and those that are open.
    pub(super) fn kept(&self) -> Result<(Vec<types::trail>, Vec<types::trail>)> {
        let (mut completed, mut open) = (vec![], vec![]);
        for (bucket, tags) in entries::<u32, [u64; 8]>(&self.skel.maps.requests)? {
            for (way, tag) in (0..).zip(tags).filter(|(_, tag)| *tag != 0) {
                let index: u32 = bucket * 8 + way;
                if let Some(trail) =
                    self.skel.maps.trails.lookup(&index.to_ne_bytes(), MapFlags::ANY).map_err(unreadable)?
                {
                    // `COMPLETED` of follow.h.
                    if tag & 1 == 1 { &mut completed } else { &mut open }.push(read(&trail));
                }
            }
        }
        Ok((completed, open))
    }

    /// Followed requests of native and POSIX AIO whose result was not seen to be reaped.
    pub(super) fn open_aio(&self) -> Result<OpenAio> {
        let mut open = OpenAio::default();
        for (_, request) in entries::<types::aio_key, types::aio_request>(&self.skel.maps.aio_requests)? {
            let followed = match request.several {
                0 => u64::from(request.weight > 0),
                _ => request.followed.into(),
            };
            // Of POSIX AIO they have ended from the start: when one is complete, no probe sees.
            match request.ended > request.more.into() {
                true => open.unreaped += followed,
                false => open.unfinished += followed,
            }
        }
        Ok(open)
    }

    /// Of open requests, takes out those whose completion found the queue full: all that was seen of it is its user data.
    pub(super) fn without_overflowed(&self, open: &mut Vec<types::trail>) -> Result<u64> {
        let overflowed = entries::<types::many_key, u64>(&self.skel.maps.overflowed)?;
        let mut left: HashMap<(u32, u64), u64> =
            overflowed.into_iter().map(|(key, n)| ((key.ring, key.user_data), n)).collect();
        let before = open.len();
        open.retain(|trail| match left.get_mut(&(trail.ring, trail.user_data)) {
            Some(n) if *n > 0 => {
                *n -= 1;
                false
            }
            _ => true,
        });
        Ok((before - open.len()) as u64)
    }

    pub(super) fn misses_since_begin(&self) -> Result<BTreeMap<&'static str, u64>> {
        let mut misses = self.recursion_misses()?;
        for (name, before) in &self.misses_before {
            misses.entry(name).and_modify(|n| *n -= before);
        }
        Ok(misses)
    }

    /// Events that each program did not see because it was already running on that CPU.
    pub(super) fn recursion_misses(&self) -> Result<BTreeMap<&'static str, u64>> {
        Ok(self.infos()?.map(|(name, info)| (name, info.recursion_misses)).collect())
    }

    /// Runs of each program since it was loaded, and the nanoseconds that they took, where the kernel measures them.
    pub(super) fn runs(&self) -> Result<Runs> {
        Ok(self.infos()?.map(|(name, info)| (name, (info.run_cnt, info.run_time_ns))).collect())
    }

    /// What the kernel says of each program.
    fn infos(&self) -> Result<impl Iterator<Item = (&'static str, libbpf_sys::bpf_prog_info)>> {
        let mut infos = vec![];
        for program in self.skel.object().progs() {
            let Some(name) = self.plan.attach.iter().find(|name| program.name() == **name) else { continue };
            let mut info = libbpf_sys::bpf_prog_info::default();
            let mut size = size_of::<libbpf_sys::bpf_prog_info>() as u32;
            // SAFETY: info is a plain struct of that size, which the kernel fills up to its own version's length.
            let failed =
                unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &mut info, &mut size) };
            if failed != 0 {
                return Err(Error::machine("cannot read what the kernel says of the probes", "report this")
                    .because(std::io::Error::last_os_error()));
            }
            infos.push((*name, info));
        }
        Ok(infos.into_iter())
    }
}

pub(super) fn unreadable(e: libbpf_rs::Error) -> Error {
    Error::machine("cannot read the probes' counters", "report this").because(e)
}

/// What the counts of a slot stand for.
fn keys(slot: &types::cpu_slot) -> impl PartialEq {
    let ops = slot.ops.map(|cell| (cell.key.ring, cell.key.opcode));
    let rings = slot.rings.map(|cell| (cell.ring, cell.used));
    let last: (Key<32>, Key<24>, Key<16>) = (key(&slot.last_delivery), key(&slot.last_ipi), key(&slot.last_return));
    let last_thread: Key<8> = key(&slot.last_thread);
    (ops, rings, last, last_thread, slot.last_irq)
}

fn key<K: Copy, const N: usize>(of: &K) -> Key<N> {
    assert_eq!(size_of::<K>(), N, "a key's size");
    // SAFETY: a live value of plain integers without padding, of that size.
    unsafe { std::ptr::read_unaligned(std::ptr::from_ref(of).cast()) }
}

/// Reads once more what one place of a slot has handed over since; whether it has.
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
