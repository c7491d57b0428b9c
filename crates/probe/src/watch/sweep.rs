//! Removal of closed rings from the maps.

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::MapCore;

use super::attached::Watch;
use super::tables::{self, entries};
use crate::counted::{Counted, RawRing};
use crate::raw::peek;
use crate::skel::types;
use iotrail_base::error::Result;

/// Number of rings or processes closed since the last sweep that triggers a new one, which walks all map entries.
const SWEEP: u32 = 256;

type Infos = BTreeMap<u32, types::ring_info>;

impl Watch<'_> {
    /// Removes closed rings from the maps if there are many, or always if `at_once`.
    pub(super) fn sweep(&mut self, at_once: bool) -> Result<()> {
        let bss = self.bss();
        let now = peek(&bss.rings_gone) + peek(&bss.processes_gone);
        let new = now.wrapping_sub(self.gone);
        let is_due = match at_once {
            true => new > 0 || !self.idle.is_empty(),
            false => new >= SWEEP.max(self.known_rings / 8),
        };
        if self.subject.follow.is_none() || !is_due {
            return Ok(());
        }
        // Rings from this number on may have counts whose info has not been read yet.
        let made = peek(&bss.rings_made);
        self.gone = now;
        let infos: Infos = entries(&self.skel.maps.ring_infos)?.into_iter().collect();
        let mut gone = self.gone_of(&infos)?;
        let held = self.held()?;
        gone.retain(|number, _| !held.contains(number));
        // A count may be about to move: a ring is removed if the last sweep found it in the same state.
        let was_idle = std::mem::replace(&mut self.idle, gone.keys().copied().collect());
        let mut late = BTreeSet::new();
        let mut taken = self.take_counts(&mut |ring| {
            if !gone.contains_key(&ring) {
                if ring >= made || infos.contains_key(&ring) || held.contains(&ring) {
                    return false;
                }
                late.insert(ring);
            }
            was_idle.contains(&ring)
        })?;
        self.idle.append(&mut late);
        let maps = &self.skel.maps;
        let mut swept = 0;
        for (number, info) in gone.into_iter().filter(|(number, _)| was_idle.contains(number)) {
            self.idle.remove(&number);
            // The address may belong to another ring by now, or to none.
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
        let bss = self.bss_mut();
        bss.rings_swept = bss.rings_swept.wrapping_add(swept);
        Ok(())
    }

    /// The closed rings.
    fn gone_of(&self, infos: &Infos) -> Result<Infos> {
        let living = self.followed()?;
        // Inherited or passed rings outlive their creator; their own end is observed.
        let ends_seen = self.plan.attach.contains(&"ring_ended") && self.exit_work_known;
        let with_process = |info: &types::ring_info| {
            info.others > 0 || info.of > 0 || info.interface != types::interface::INTERFACE_IO_URING || !ends_seen
        };
        let ring_gone = |info: &types::ring_info| match info.of.checked_sub(1) {
            Some(ring) => infos.get(&ring).is_none_or(|ring| ring.gone != 0),
            None => info.gone != 0,
        };
        let is_gone = |info: &types::ring_info| ring_gone(info) || (with_process(info) && !living.contains(&info.tgid));
        Ok(infos.iter().filter(|(_, info)| is_gone(info)).map(|(number, info)| (*number, *info)).collect())
    }

    /// Rings whose counts a CPU or thread has not moved to the maps yet; these rings stay in the maps.
    fn held(&self) -> Result<BTreeSet<u32>> {
        let mut held = BTreeSet::new();
        for slot in self.slots() {
            held.extend(slot.ops.iter().map(|cell| cell.key.ring));
            held.extend(slot.rings.iter().map(|cell| cell.ring));
            held.extend([slot.last_delivery.ring, slot.last_thread.ring]);
            held.extend(slot.segments.iter().filter(|s| s.count > 0).map(|s| s.ring));
        }
        for (_, state) in entries::<u32, types::thread_state>(&self.skel.maps.threads)? {
            held.extend(state.segments.iter().filter(|s| s.count > 0).map(|s| s.ring));
        }
        Ok(held)
    }

    /// Removes and returns the counts of the rings being swept, by number.
    fn take_counts(&self, is_swept: &mut dyn FnMut(u32) -> bool) -> Result<BTreeMap<u32, Counted>> {
        let maps = &self.skel.maps;
        let mut all = BTreeMap::new();
        let taken = &mut all;
        let op = |counted: &mut Counted, key: types::op_key, n| counted.op(key.opcode, &n);
        take_out(&maps.op_counts, is_swept, taken, |key| key.ring, op)?;
        take_out(&maps.ring_counts, is_swept, taken, |ring: &u32| *ring, |counted, _, n| counted.ring(&n))?;
        let delivery = |counted: &mut Counted, key, n| counted.delivery(&key, n);
        take_out(&maps.deliveries, is_swept, taken, |key: &types::delivery_key| key.ring, delivery)?;
        let errno = |counted: &mut Counted, key, n| counted.errno(&key, n);
        take_out(&maps.errnos, is_swept, taken, |key: &types::errno_key| key.ring, errno)?;
        let batch = |counted: &mut Counted, key, n| counted.batch(&key, n);
        take_out(&maps.batches, is_swept, taken, |key: &types::batch_key| key.ring, batch)?;
        let thread = |counted: &mut Counted, key: types::ring_thread_key, n| counted.thread(key.tid, &n);
        take_out(&maps.ring_threads, is_swept, taken, |key| key.ring, thread)?;
        Ok(all)
    }
}

/// Removes the swept entries of one hash, and sums them.
fn take_out<K: Copy, V: Copy>(
    map: &impl MapCore,
    is_swept: &mut dyn FnMut(u32) -> bool,
    taken: &mut BTreeMap<u32, Counted>,
    ring: fn(&K) -> u32,
    add: fn(&mut Counted, K, V),
) -> Result<()> {
    for (key, _) in entries::<K, V>(map)? {
        if is_swept(ring(&key))
            && let Some(n) = tables::take(map, &key)?
        {
            add(taken.entry(ring(&key)).or_default(), key, n);
        }
    }
    Ok(())
}
