//! Starts and ends the threads' account and their system-call counts, and reads them from the maps.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read as _;

use libbpf_rs::{Iter, MapCore, MapFlags, MapMut};

use super::attached::{Span, Watch};
use super::errors::unreadable;
use super::tables::entries;
use crate::account::{self, Sleep, ThreadEntries};
use crate::calls::{self, CallWindow};
use crate::raw::read;
use crate::skel::types;
use iotrail_base::error::Result;
use iotrail_path::sleep;
use iotrail_schema::account::{CallRecord, Reason, ThreadAccount, ThreadState};
use iotrail_stats::expansion::Rest;

/// The only program that is not attached: user space runs it at both ends of the accounted time.
pub(super) const WALK: &str = "account_walk";

/// include/linux/sched.h
const PF_EXITING: u32 = 4;

/// Maximum number of listed threads.
const LISTED: usize = 1024;

impl Watch<'_> {
    /// Starts to account the threads' states.
    pub(super) fn open_account(&mut self) -> Result<()> {
        self.open_calls()?;
        self.open_span()
    }

    fn open_span(&mut self) -> Result<()> {
        let now = iotrail_host::clock::monotonic_ns();
        let bss = self.bss_mut();
        bss.account_opened_ns = now;
        if bss.accounts_began_ns == 0 {
            bss.accounts_began_ns = now;
        }
        bss.account_ends = 0;
        self.account_spans += 1;
        self.bss_mut().account_span = self.account_spans;
        self.walk_threads()
    }

    /// Ends the account if it was started. Call it before the programs are detached.
    pub fn close_account(&mut self) -> Result<()> {
        if self.bss().account_span == 0 {
            return Ok(());
        }
        self.bss_mut().account_ends = 1;
        let done = self.walk_threads();
        self.bss_mut().account_span = 0;
        // Calls of completely traced time are known without a window.
        let is_window = match (&self.costly, &self.light) {
            (Some(costly), _) => matches!(costly.opened, Some((_, Span::Window))),
            (None, light) => light.as_ref().is_some_and(|light| light.since.is_none()),
        };
        match is_window {
            true => self.close_calls()?,
            false => self.call_windows.opened = None,
        }
        done
    }

    /// Accounts of all threads so far, by TID. Exited threads are returned for the last time.
    pub fn threads_turn(&mut self) -> Result<Vec<(u32, ThreadAccount)>> {
        self.bss_mut().account_ends = 1;
        self.walk_threads()?;
        let mut known = self.known_of_threads()?;
        let totals = entries::<u32, types::thread_total>(&self.skel.maps.thread_totals)?;
        let gone: BTreeSet<u32> =
            totals.iter().filter(|(_, total)| total.flags & PF_EXITING != 0).map(|(number, _)| *number).collect();
        if !gone.is_empty() {
            forget(&self.skel.maps.thread_totals, |key| gone.contains(&read::<u32>(key)))?;
            forget(&self.skel.maps.sleeps, |key| gone.contains(&read::<types::sleep_key>(key).thread))?;
            forget(&self.skel.maps.holders, |key| gone.contains(&read::<types::holder_key>(key).thread))?;
            forget(&self.skel.maps.kernel_times, |key| gone.contains(&read::<types::kernel_key>(key).thread))?;
        }
        self.open_span()?;
        let of = |(number, total)| (number, account::thread(&total, &known.remove(&number).unwrap_or_default(), false));
        Ok(totals.into_iter().map(of).collect())
    }

    /// Starts a call window, to which all later counts belong.
    pub(super) fn open_calls(&mut self) -> Result<()> {
        let counts = self.call_counts()?;
        let now = iotrail_host::clock::monotonic_ns();
        self.call_windows.opened = Some((now, self.completions(), counts));
        Ok(())
    }

    pub(super) fn close_calls(&mut self) -> Result<()> {
        let window = self.open_call_window()?;
        self.call_windows.opened = None;
        self.call_windows.windows.extend(window);
        Ok(())
    }

    /// The open window, up to now.
    fn open_call_window(&self) -> Result<Option<CallWindow>> {
        let Some((opened, completions, before)) = &self.call_windows.opened else { return Ok(None) };
        let now = iotrail_host::clock::monotonic_ns();
        let grown = self.call_counts()?.into_iter().zip(before).map(|(now, before)| now - before);
        let counts = calls::reported().iter().copied().zip(grown).filter(|(_, n)| *n > 0).collect();
        Ok(Some(CallWindow { ns: now - opened, completions: self.completions() - completions, counts }))
    }

    fn call_counts(&self) -> Result<Vec<u64>> {
        calls::reported().iter().map(|nr| Ok(self.call_count(*nr)?.count)).collect()
    }

    fn call_count(&self, nr: u32) -> Result<types::call_count> {
        let mut sum = types::call_count::default();
        let found = self.skel.maps.call_counts.lookup_percpu(&nr.to_ne_bytes(), MapFlags::ANY).map_err(unreadable)?;
        for of_cpu in found.unwrap_or_default() {
            let more: types::call_count = read(&of_cpu);
            sum.count += more.count;
            sum.completions += more.completions;
            sum.time_limits += more.time_limits;
            sum.signals += more.signals;
            sum.nothing += more.nothing;
            sum.partial += more.partial;
            sum.results = sum.results.saturating_add(more.results);
        }
        Ok(sum)
    }

    /// System calls of the traced threads, most frequent first; `None` if most of them were missed. `threads`: the
    /// threads that blocked in them.
    pub fn calls(&self, threads: &[ThreadAccount]) -> Result<Option<Vec<CallRecord>>> {
        let none = Rest { span: 0.0, counted: 0.0, slowed: 1.0 };
        let (windows, rest) = match (&self.windows, &self.light, self.sampled_events()) {
            // The same windows, completions and time as the other numbers of system calls.
            (_, Some(light), events) => {
                let mut events = events.unwrap_or_else(|| light.events.clone());
                events.all = light.events.all;
                (self.call_windows.windows.clone(), events.rest())
            }
            (None, None, Some(events)) => {
                let open = self.open_call_window()?;
                ([self.call_windows.windows.clone(), Vec::from_iter(open)].concat(), events.rest())
            }
            // Requested windows are not extrapolated.
            (Some(_), None, _) | (None, None, None) => (vec![], none),
        };
        let mut errors: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
        for (key, n) in entries::<types::call_error, u64>(&self.skel.maps.call_errors)? {
            errors.entry(key.nr).or_default().push((key.errno, n));
        }
        let wakes = entries::<types::wake_key, types::wake>(&self.skel.maps.wakes)?;
        let mut blocked: BTreeMap<&str, u64> = BTreeMap::new();
        for row in threads.iter().flat_map(|thread| &thread.rows).filter(|row| row.state == ThreadState::Blocked) {
            *blocked.entry(row.syscall.as_deref().unwrap_or_default()).or_default() += row.ns;
        }
        let mut records = vec![];
        for nr in calls::reported() {
            let seen = self.call_count(*nr)?;
            if seen.count == 0 {
                continue;
            }
            let Some(total) = calls::total(*nr, seen.count, &windows, rest) else { return Ok(None) };
            let errors = errors.remove(nr).unwrap_or_default();
            let record = calls::record(*nr, &seen, &errors, total);
            let blocked_ns = blocked.get(record.syscall.as_str()).copied().unwrap_or_default();
            let woken_by = calls::woken_by(*nr, &wakes);
            records.push(CallRecord { blocked_ns, woken_by, ..record });
        }
        records.sort_by_key(|record| std::cmp::Reverse(record.count));
        Ok(Some(records))
    }

    fn walk_threads(&self) -> Result<()> {
        let link = self.skel.progs.account_walk.attach().map_err(unreadable)?;
        let mut nothing = vec![];
        Iter::new(&link).map_err(unreadable)?.read_to_end(&mut nothing).map_err(|e| unreadable(e.into()))?;
        Ok(())
    }

    /// The traced threads with the longest wall time first, and the number of unlisted threads.
    pub fn threads(&self) -> Result<(Vec<ThreadAccount>, u64)> {
        let mut known = self.known_of_threads()?;
        let sampled = self.windows.is_some();
        let mut threads: Vec<ThreadAccount> = entries::<u32, types::thread_total>(&self.skel.maps.thread_totals)?
            .into_iter()
            .map(|(number, total)| account::thread(&total, &known.remove(&number).unwrap_or_default(), sampled))
            .collect();
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.wall_ns), thread.tid));
        let more = u64::from(self.bss().accounts_made).saturating_sub(threads.len().min(LISTED) as u64);
        threads.truncate(LISTED);
        Ok((threads, more))
    }

    /// By TID.
    fn known_of_threads(&self) -> Result<HashMap<u32, ThreadEntries>> {
        let mut reasons: BTreeMap<u64, Option<Reason>> = BTreeMap::new();
        let mut threads: HashMap<u32, ThreadEntries> = HashMap::new();
        for (key, sum) in entries::<types::sleep_key, types::sleep_sum>(&self.skel.maps.sleeps)? {
            let reason = match reasons.get(&key.stack) {
                Some(known) => known.clone(),
                None => {
                    let reason = self.reason(key.stack)?;
                    reasons.insert(key.stack, reason.clone());
                    reason
                }
            };
            let is_lock = key.flags.0 & types::sleep_flag::SLEEP_LOCK.0 != 0;
            let reason = if is_lock { Some(Reason::Lock) } else { reason };
            threads.entry(key.thread).or_default().sleeps.push(Sleep { key, sum, reason });
        }
        for (key, holder) in entries::<types::holder_key, types::holder>(&self.skel.maps.holders)? {
            threads.entry(key.thread).or_default().holders.push((key.tid, holder));
        }
        // The system call at a tick is unknown between windows.
        if self.sampled_events().is_none() && self.windows.is_none() {
            for (key, ns) in entries::<types::kernel_key, u64>(&self.skel.maps.kernel_times)? {
                threads.entry(key.thread).or_default().kernel_ns.insert(key.nr, ns);
            }
        }
        Ok(threads)
    }

    /// `None` if no stack was sampled or symbols are hidden.
    fn reason(&self, stack: u64) -> Result<Option<Reason>> {
        let Some(symbols) = self.symbols.filter(|_| stack != 0) else { return Ok(None) };
        let found = self.skel.maps.sleep_stacks.lookup(&stack.to_ne_bytes(), MapFlags::ANY).map_err(unreadable)?;
        let Some(found) = found else { return Ok(None) };
        let frames = read::<types::sleep_stack>(&found).frames;
        // All addresses on a sleeper's stack are return addresses.
        let names: Vec<&str> =
            frames.iter().take_while(|frame| **frame != 0).filter_map(|frame| symbols.caller(*frame)).collect();
        Ok(sleep::reason(&names))
    }
}

fn forget(map: &MapMut<'_>, is_gone: impl Fn(&[u8]) -> bool) -> Result<()> {
    let keys: Vec<Vec<u8>> = map.keys().filter(|key| is_gone(key)).collect();
    keys.iter().try_for_each(|key| map.delete(key)).map_err(unreadable)
}
