//! The probes' counters, read out of their maps and the CPUs' slots.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags, libbpf_sys};

use super::{RINGS_MAX, Raw, RawRing, Watch, trails, types};
use crate::error::{Error, Result};
use crate::probe::rings::Process;

impl Watch<'_> {
    /// The slots as they are now; programs may be writing to them.
    pub(super) fn slots(&self) -> Vec<types::cpu_slot> {
        let slots = &self.skel.maps.bss_data.as_deref().expect("the object has counters").slots;
        // SAFETY: live and aligned; all fields are integers, so that what is torn is only a wrong number.
        slots.iter().map(|slot| unsafe { std::ptr::read_volatile(slot) }).collect()
    }

    /// The counters as they are, but for what is parked and unfinished.
    pub(super) fn counters(&self) -> Result<Raw> {
        let slots = self.slots();
        let maps = &self.skel.maps;
        let mut raw = Raw {
            misses: self.misses_since_begin()?,
            deliveries: per_cpu(&maps.deliveries)?,
            irqs: per_cpu(&maps.irqs)?,
            returns: per_cpu(&maps.returns)?,
            ipis: per_cpu(&maps.ipis)?,
            ..Raw::default()
        };
        // What the slots hold of their last keys.
        for (cpu, slot) in slots.iter().enumerate() {
            let cpu = cpu as u32;
            raw.deliveries.push((slot.last_delivery, cpu, slot.last_delivery_count));
            raw.ipis.push((slot.last_ipi, cpu, slot.last_ipi_count));
            raw.returns.push((slot.last_return, cpu, slot.last_return_count));
            if slot.last_line_count.count > 0 {
                raw.irqs.push((slot.last_irq - 1, cpu, slot.last_line_count));
            }
        }
        raw.slots = slots;
        if self.subject.follow.is_some() {
            raw.rings = self.rings()?;
            raw.processes = entries::<u32, types::process_info>(&maps.followed)?
                .into_iter()
                .map(|(tgid, info)| Process { tgid, comm: trails::text(&info.comm), executed_ns: info.executed_ns })
                .collect();
            let bss = self.skel.maps.bss_data.as_deref().expect("the object has counters");
            raw.workers = (bss.workers_made.into(), bss.workers_most.into());
        }
        Ok(raw)
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

    /// Each numbered ring: what it is, and its counts on all CPUs.
    fn rings(&self) -> Result<Vec<RawRing>> {
        let made = self.skel.maps.bss_data.as_deref().expect("the object has counters").rings_made;
        let errnos = per_cpu::<types::errno_key, u64>(&self.skel.maps.errnos)?;
        let mut rings = vec![];
        for number in 0..made.min(RINGS_MAX) {
            let key = number.to_ne_bytes();
            let info = self.skel.maps.ring_infos.lookup(&key, MapFlags::ANY).map_err(unreadable)?;
            let counts = self.skel.maps.ring_counts.lookup_percpu(&key, MapFlags::ANY).map_err(unreadable)?;
            let mut sum = types::ring_count::default();
            for count in counts.iter().flatten() {
                add(&mut sum, &read(count));
            }
            let of_ring = errnos.iter().filter(|(key, ..)| key.ring == number).map(|(key, _, n)| (*key, *n)).collect();
            rings.push((info.map(|i| read(&i)).unwrap_or_default(), sum, of_ring));
        }
        Ok(rings)
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
        let mut misses = BTreeMap::new();
        for program in self.skel.object().progs() {
            let Some(name) = self.plan.attach.iter().find(|name| program.name() == **name) else { continue };
            let mut info = libbpf_sys::bpf_prog_info::default();
            let mut size = size_of::<libbpf_sys::bpf_prog_info>() as u32;
            // SAFETY: info is a plain struct of that size, which the kernel fills up to its own version's length.
            let failed =
                unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &mut info, &mut size) };
            if failed != 0 {
                return Err(Error::machine("cannot read how many events the probes missed", "report this")
                    .because(std::io::Error::last_os_error()));
            }
            misses.insert(*name, info.recursion_misses);
        }
        Ok(misses)
    }
}

pub(super) fn unreadable(e: libbpf_rs::Error) -> Error {
    Error::machine("cannot read the probes' counters", "report this").because(e)
}

/// All entries of a per-CPU hash: key, CPU, value.
fn per_cpu<K: Copy, V: Copy>(map: &impl MapCore) -> Result<Vec<(K, u32, V)>> {
    let mut all = vec![];
    for key in map.keys() {
        if let Some(values) = map.lookup_percpu(&key, MapFlags::ANY).map_err(unreadable)? {
            all.extend(values.iter().enumerate().map(|(cpu, value)| (read::<K>(&key), cpu as u32, read::<V>(value))));
        }
    }
    Ok(all)
}

/// All entries of a map.
pub(super) fn entries<K: Copy, V: Copy>(map: &impl MapCore) -> Result<Vec<(K, V)>> {
    let mut all = vec![];
    for key in map.keys() {
        if let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(unreadable)? {
            all.push((read::<K>(&key), read::<V>(&value)));
        }
    }
    Ok(all)
}

/// Adds one CPU's counts.
fn add(sum: &mut types::ring_count, one: &types::ring_count) {
    for (sum, one) in sum.ops.iter_mut().zip(&one.ops) {
        // One that was not taken may be counted down on another CPU.
        sum.requests = sum.requests.wrapping_add(one.requests);
        sum.skips += one.skips;
        sum.completions += one.completions;
        sum.bytes += one.bytes;
        sum.errors += one.errors;
        sum.shorts += one.shorts;
        sum.more += one.more;
        sum.notifications += one.notifications;
        sum.punted_asked += one.punted_asked;
        sum.punted_would_block += one.punted_would_block;
    }
    sum.inlined += one.inlined;
    sum.sqpoll += one.sqpoll;
    sum.iowq += one.iowq;
    sum.iopoll += one.iopoll;
    sum.overflows += one.overflows;
    sum.unseen += one.unseen;
}

/// A record as the programs wrote it.
pub(in crate::probe) fn read<T: Copy>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>(), "a record is shorter than record.h says");
    // SAFETY: the bytes are a whole T, written by the programs with the layout that T was generated from; all of its
    // fields are integers, for which every bit pattern is valid.
    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
}
