//! Task IDs in the initial PID namespace (as in the probes), in iotrail's and in /proc's. The kernel reports them, so
//! they are correct in nested namespaces and containers.

use std::io::Read as _;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link};

use super::numbers_skel::{NumbersSkelBuilder, types};
use super::support;
use crate::raw::read;
use crate::raw::text;
use iotrail_base::error::{OrFail, Result};
use iotrail_host::pid_namespace::Standing;

const _: () = assert!(size_of::<types::task_numbers>() == 40);

/// A thread in this process's PID namespace or in a nested one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// IDs in the initial PID namespace.
    pub tid: u32,
    pub tgid: u32,
    /// TID in this process's PID namespace.
    pub here: u32,
    /// TID in /proc; `None` if /proc does not show the thread.
    pub in_proc: Option<u32>,
    /// PID of the parent process in the initial namespace. The parent may be in an outer namespace.
    pub parent: u32,
    pub is_kernel_thread: bool,
    pub comm: String,
    /// The calling thread.
    pub asking: bool,
}

/// IDs of the calling thread in the initial namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelIds {
    pub tid: u32,
    pub tgid: u32,
}

impl KernelIds {
    /// If iotrail runs in the initial PID namespace, these are its ordinary IDs.
    pub fn of_this_thread() -> Result<KernelIds> {
        let standing = Standing::of_this_process();
        if standing == Standing::Initial {
            let tid = rustix::thread::gettid().as_raw_pid() as u32;
            return Ok(KernelIds { tid, tgid: std::process::id() });
        }
        let asking = Tasks::open(standing)?.read()?.into_iter().find(|task| task.asking);
        let asking =
            asking.or_machine(format_args!("{FAILED}: the kernel does not list this thread"), "report this")?;
        Ok(KernelIds { tid: asking.tid, tgid: asking.tgid })
    }
}

/// The loaded iterator over the tasks.
#[derive(Debug)]
pub struct Tasks(Link);

impl Tasks {
    /// Loads the iterator, which takes about 10 ms.
    pub fn open(standing: Standing) -> Result<Self> {
        support::quiet();
        let failed = |e| support::refused(FAILED, e);
        let mut room = MaybeUninit::uninit();
        let mut open = NumbersSkelBuilder::default().open(&mut room).map_err(failed)?;
        let constants = open.maps.rodata_data.as_deref_mut().expect("the object has constants");
        // Deeper than any namespace if /proc shows no process of this namespace.
        constants.proc_outwards = standing.outwards().unwrap_or(u32::MAX);
        let skel = open.load().map_err(failed)?;
        skel.progs.numbers_of_tasks.attach().map(Tasks).map_err(failed)
    }

    /// Reads all current tasks: about 1 µs per task.
    pub fn read(&self) -> Result<Vec<Task>> {
        let mut bytes = vec![];
        Iter::new(&self.0)
            .and_then(|mut tasks| tasks.read_to_end(&mut bytes).map_err(libbpf_rs::Error::from))
            .or_machine(format_args!("{FAILED}: the list of tasks ends early"), "report this")?;
        let task = |of: &[u8]| {
            let of: types::task_numbers = read(of);
            Task {
                tid: of.tid,
                tgid: of.tgid,
                here: of.here,
                in_proc: (of.in_proc != 0).then_some(of.in_proc),
                parent: of.parent,
                is_kernel_thread: of.kernels != 0,
                comm: text(&of.comm),
                asking: of.reader != 0,
            }
        };
        Ok(bytes.chunks_exact(size_of::<types::task_numbers>()).map(task).collect())
    }
}

const FAILED: &str = "cannot determine the kernel's process IDs from this PID namespace";
