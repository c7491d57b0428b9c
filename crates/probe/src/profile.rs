//! CPU samples: the code that the CPUs run, by kernel stack. The events are enabled from [`begin`](Profiler::begin) to
//! [`end`](Profiler::end) only, so the samples cover exactly that time.
//!
//! **Cost** in a virtual machine with a nop load: below the detection limit of 2 % at the default frequency, 18 % at
//! ten times that frequency. Most of it is the timer interrupt; the stack takes 1.5 µs. **Memory**: 17 MiB in the
//! kernel while it is open.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, OpenObject, libbpf_sys};

use super::numbers::KernelIds;
use super::profile_skel::{ProfileSkel, ProfileSkelBuilder, types};
use super::sampled::Profile;
use super::sampling::{Clock, Sampling, period_ns};
use super::support;
use super::symbols::Symbols;
use crate::raw::read;
use crate::raw::text;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::procfs;
use iotrail_path::place;
use iotrail_path::sample::{Sample, Stack};

const _: () = assert!(size_of::<types::stack>() == 8 + 127 * 8);
const _: () = assert!(size_of::<types::sample_key>() == 32);
const _: () = assert!(size_of::<types::tally>() == 24);
const _: () = assert!(size_of::<types::event_file>() == 16);

/// Prime, so that samples do not synchronise with a tick of 100, 250 or 1000 Hz.
pub const DEFAULT_HZ: u32 = 997;

/// At higher rates the samples would mostly measure themselves.
pub const MAX_HZ: u32 = 10_000;

/// Threads whose samples are kept. Idle CPUs are always sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    All,
    /// Initial processes; further ones can be [added](Profiler::watch).
    Tgids(Vec<u32>),
}

/// Options of a profile.
#[derive(Debug, Clone)]
pub struct Subject {
    pub whom: Whom,
    /// Thread that is not sampled; 0: none.
    pub exclude_tid: u32,
    pub sampling: Sampling,
}

/// Memory of the loaded object; it must outlive the [`Profiler`].
#[derive(Default)]
pub struct ObjectSlot(Option<MaybeUninit<OpenObject>>);

/// Loaded programs and one perf event per CPU. Dropping it closes them.
pub struct Profiler<'room> {
    skel: ProfileSkel<'room>,
    _idle: Option<Link>,
    events: Vec<Event>,
    subject: Subject,
}

impl<'room> Profiler<'room> {
    /// Loads the programs and opens the events disabled.
    pub fn open(room: &'room mut ObjectSlot, subject: Subject) -> Result<Self> {
        support::quiet();
        let Sampling { clock, hz } = subject.sampling;
        if !(1..=MAX_HZ).contains(&hz) {
            return Err(Error::input(
                format!("invalid sampling rate of {hz} per second"),
                format!("use 1 to {MAX_HZ}"),
            ));
        }
        if Symbols::of_this_kernel().is_none() {
            if !procfs::is_mounted() {
                return Err(Error::machine(
                    "cannot sample the CPU: /proc is not mounted here, so kernel function names are unavailable",
                    "mount -t proc proc /proc",
                ));
            }
            return Err(Error::machine(
                "cannot sample the CPU: /proc/kallsyms shows no addresses of kernel functions",
                "run as root, or with CAP_SYSLOG, and see kernel.kptr_restrict",
            ));
        }
        let refused = |e| support::refused("cannot sample the CPU", e);
        let by_timer = clock == Clock::Time;

        let mut open = ProfileSkelBuilder::default().open(room.0.insert(MaybeUninit::uninit())).map_err(refused)?;
        let constants = open.maps.rodata_data.as_deref_mut().expect("the object has constants");
        constants.watch_all = subject.whom == Whom::All;
        constants.exclude_tid = subject.exclude_tid;
        constants.idle_by_timer = by_timer;
        constants.own_tgid = KernelIds::of_this_thread()?.tgid;
        open.progs.profile_idle.set_autoload(by_timer);
        open.progs.profile_timers.set_autoload(by_timer);
        let skel = open.load().map_err(refused)?;

        let mut profiler = Profiler { skel, _idle: None, events: vec![], subject };
        if let Whom::Tgids(tgids) = &profiler.subject.whom {
            tgids.iter().try_for_each(|tgid| profiler.watch(*tgid))?;
        }
        let program = profiler.skel.progs.profile_sample.as_fd().as_raw_fd();
        for cpu in iotrail_host::cpu::online()? {
            let event = Event::open(cpu, profiler.subject.sampling)?;
            event.run(program)?;
            profiler.events.push(event);
        }
        if by_timer {
            profiler.find_timers().map_err(refused)?;
            profiler._idle = Some(profiler.skel.progs.profile_idle.attach().map_err(refused)?);
        }
        Ok(profiler)
    }

    /// Starts to sample another process.
    pub fn watch(&self, tgid: u32) -> Result<()> {
        let failed = |e| Error::machine(format!("cannot trace process {tgid}"), "trace fewer processes").because(e);
        self.skel.maps.tgids.update(&tgid.to_ne_bytes(), &[1], MapFlags::ANY).map_err(failed)
    }

    /// Discards the samples so far and starts the events.
    pub fn begin(&mut self) -> Result<()> {
        self.events.iter().try_for_each(|e| e.control(Control::Disable))?;
        for map in [&self.skel.maps.samples, &self.skel.maps.stacks] {
            let keys: Vec<Vec<u8>> = map.keys().collect();
            keys.iter().try_for_each(|key| map.delete(key)).map_err(unreadable)?;
        }
        let cpus = libbpf_rs::num_possible_cpus().map_err(unreadable)?;
        let zero = vec![vec![0; size_of::<types::tally>()]; cpus];
        self.skel.maps.tallies.update_percpu(&0u32.to_ne_bytes(), &zero, MapFlags::ANY).map_err(unreadable)?;
        for event in &mut self.events {
            event.enabled_before_ns = event.enabled_ns()?;
        }
        self.events.iter().try_for_each(|e| e.control(Control::Enable))
    }

    /// Stops the events and returns their samples since [`begin`](Self::begin).
    pub fn end(&mut self) -> Result<Profile> {
        self.events.iter().try_for_each(|e| e.control(Control::Disable))?;
        let Sampling { clock, hz } = self.subject.sampling;
        let expected = match clock {
            Clock::Time => {
                let mut periods = 0;
                for event in &self.events {
                    periods += (event.enabled_ns()? - event.enabled_before_ns) / period_ns(hz);
                }
                Some(periods)
            }
            Clock::Cycles => None,
        };
        let tallies = self.skel.maps.tallies.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(unreadable)?;
        let tallies: Vec<types::tally> = tallies.iter().flatten().map(|bytes| read(bytes)).collect();
        let sum = |of: fn(&types::tally) -> u64| tallies.iter().map(of).sum::<u64>();
        let (unwatched, no_room) = (sum(|t| t.unwatched), sum(|t| t.no_room));
        let came = sum(|t| t.kept) + unwatched + no_room;
        let lost = no_room + expected.map_or(0, |n| n.saturating_sub(came));
        Ok(Profile { clock, hz, samples: self.samples()?, unwatched, expected, lost })
    }

    fn samples(&self) -> Result<Vec<Sample>> {
        // Read now, because programs loaded since then have their own symbols.
        let symbols = Symbols::read().or_machine("cannot read /proc/kallsyms", "run as root")?;
        let maps = &self.skel.maps;
        let mut stacks: HashMap<u64, Vec<String>> = HashMap::new();
        for key in maps.stacks.keys() {
            if let Some(value) = maps.stacks.lookup(&key, MapFlags::ANY).map_err(unreadable)? {
                stacks.insert(read(&key), named(&read::<types::stack>(&value), &symbols));
            }
        }
        let mut samples = vec![];
        for key in maps.samples.keys() {
            let Some(value) = maps.samples.lookup(&key, MapFlags::ANY).map_err(unreadable)? else { continue };
            let key: types::sample_key = read(&key);
            let mut stack = match key.stack {
                0 => Stack::User,
                // A sample is counted only after its stack was stored.
                hash => Stack::Kernel(stacks.get(&hash).cloned().unwrap_or_default()),
            };
            if let (Stack::Kernel(frames), 0, Clock::Time) = (&mut stack, key.tgid, self.subject.sampling.clock) {
                frames.drain(..place::interrupted(frames));
            }
            samples.push(Sample { tgid: key.tgid, comm: text(&key.comm), cpu: key.cpu, stack, count: read(&value) });
        }
        Ok(samples)
    }

    /// Passes the addresses of the events' hrtimers to the programs.
    fn find_timers(&self) -> libbpf_rs::Result<()> {
        let link = self.skel.progs.profile_timers.attach()?;
        let mut found = vec![];
        Iter::new(&link)?.read_to_end(&mut found).map_err(libbpf_rs::Error::from)?;
        for record in found.chunks_exact(size_of::<types::event_file>()) {
            let file: types::event_file = read(record);
            if self.events.iter().any(|e| e.file.as_raw_fd() as u64 == file.fd) {
                self.skel.maps.timers.update(&file.timer.to_ne_bytes(), &[1], MapFlags::ANY)?;
            }
        }
        Ok(())
    }
}

fn unreadable(e: libbpf_rs::Error) -> Error {
    Error::machine("cannot read the CPU samples", "report this").because(e)
}

fn named(stack: &types::stack, symbols: &Symbols) -> Vec<String> {
    let addresses = &stack.address[..(stack.frames as usize).min(stack.address.len())];
    let name = |(i, address): (usize, &u64)| {
        // All addresses except the innermost are return addresses.
        let function = if i == 0 { symbols.function(*address) } else { symbols.caller(*address) };
        function.unwrap_or("[unknown]").to_owned()
    };
    addresses.iter().enumerate().map(name).collect()
}

/// A perf event on one CPU.
struct Event {
    file: OwnedFd,
    cpu: u32,
    enabled_before_ns: u64,
}

#[derive(Clone, Copy)]
enum Control {
    Enable = 0x2400,
    Disable = 0x2401,
}

/// `PERF_EVENT_IOC_SET_BPF`.
const SET_BPF: libc::c_ulong = 0x4004_2408;

impl Event {
    fn open(cpu: u32, Sampling { clock, hz }: Sampling) -> Result<Self> {
        let mut attr = libbpf_sys::perf_event_attr {
            size: size_of::<libbpf_sys::perf_event_attr>() as u32,
            read_format: libbpf_sys::PERF_FORMAT_TOTAL_TIME_ENABLED.into(),
            ..Default::default()
        };
        attr.set_disabled(1);
        match clock {
            Clock::Time => {
                attr.type_ = libbpf_sys::PERF_TYPE_SOFTWARE;
                attr.config = libbpf_sys::PERF_COUNT_SW_CPU_CLOCK.into();
                attr.__bindgen_anon_1.sample_period = period_ns(hz);
            }
            Clock::Cycles => {
                attr.type_ = libbpf_sys::PERF_TYPE_HARDWARE;
                attr.config = libbpf_sys::PERF_COUNT_HW_CPU_CYCLES.into();
                attr.set_freq(1);
                attr.__bindgen_anon_1.sample_freq = hz.into();
            }
        }
        let (every_task, no_group, close_on_exec) = (-1, -1, libbpf_sys::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: `attr` outlives the call and contains its size; the call returns a new descriptor or an error.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &attr, every_task, cpu as i32, no_group, u64::from(close_on_exec))
        };
        if fd < 0 {
            let e = std::io::Error::last_os_error();
            let remedy = match (clock, e.raw_os_error()) {
                (Clock::Cycles, Some(libc::ENOENT | libc::EOPNOTSUPP)) => {
                    "there is no cycle counter here, as in most virtual machines: sample by time"
                }
                (_, Some(libc::EACCES | libc::EPERM)) => "run as root, or with CAP_PERFMON",
                (_, Some(libc::EMFILE)) => "raise ulimit -n: sampling takes a file per CPU",
                _ => "report this kernel's version and its configuration",
            };
            return Err(Error::machine(format!("cannot sample CPU {cpu}"), remedy).because(e));
        }
        // SAFETY: the kernel has just created it; nothing else owns it.
        let file = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        Ok(Event { file, cpu, enabled_before_ns: 0 })
    }

    fn run(&self, program: i32) -> Result<()> {
        self.ioctl(SET_BPF, program as libc::c_ulong, "run a program at its samples")
    }

    fn control(&self, what: Control) -> Result<()> {
        self.ioctl(what as libc::c_ulong, 0, "start or stop its samples")
    }

    fn ioctl(&self, request: libc::c_ulong, argument: libc::c_ulong, what: &str) -> Result<()> {
        // SAFETY: these requests take a number, not a pointer; `self` keeps the descriptor open.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), request, argument) } {
            0 => Ok(()),
            _ => Err(Error::machine(format!("CPU {}: cannot {what}", self.cpu), "report this")
                .because(std::io::Error::last_os_error())),
        }
    }

    /// Total enabled time.
    fn enabled_ns(&self) -> Result<u64> {
        let failed = |e| Error::machine(format!("cannot read the event of CPU {}", self.cpu), "report this").because(e);
        let mut file = File::from(self.file.try_clone().map_err(failed)?);
        let mut counts = [0u8; 16];
        file.read_exact(&mut counts).map_err(failed)?;
        Ok(u64::from_ne_bytes(counts[8..].try_into().expect("eight bytes")))
    }
}
