//! The rings that the kernel makes, told by its io_uring_create event: proof of the flags that a program got. It costs one event for
//! each ring and nothing for a request, so that runs that are timed can have it.

use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt as _;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::created_skel::{CreatedSkelBuilder, types};
use super::support;
use crate::raw::read;
use iotrail_base::error::{Error, Result};

/// A ring that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedRing {
    /// Its process, in the PID namespace of this one.
    pub tgid: u32,
    /// struct io_uring_params, flags: as the kernel took them.
    pub flags: u32,
}

/// What looks, from now on and until it is dropped.
#[derive(Debug)]
pub struct Created {
    link: Link,
    seen: MapHandle,
}

impl Created {
    pub fn open() -> Result<Self> {
        support::quiet();
        let failed = |e: libbpf_rs::Error| {
            let (why, remedy) = support::refusal(&e);
            Error::machine(format!("cannot watch which rings are made: {why}"), remedy).because(e)
        };
        let ns = std::fs::metadata("/proc/self/ns/pid")
            .map_err(|e| Error::machine("cannot tell this PID namespace", "mount /proc").because(e))?;
        let mut room = MaybeUninit::uninit();
        let mut open = CreatedSkelBuilder::default().open(&mut room).map_err(failed)?;
        open.maps.rodata_data.as_deref_mut().expect("the object has constants").reader_ns = ns.ino() as u32;
        let skel = open.load().map_err(failed)?;
        let link = skel.progs.ring_created.attach().map_err(failed)?;
        let seen = MapHandle::try_from(&skel.maps.bss).map_err(failed)?;
        Ok(Created { link, seen })
    }

    /// Rings of this PID namespace and of those within it, in their order; and how many more there were than are kept.
    pub fn end(self) -> Result<(Vec<CreatedRing>, u64)> {
        drop(self.link);
        let cannot = |e| Error::machine("cannot read which rings were made", "report this").because(e);
        let bytes = self.seen.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(cannot)?;
        let bss: Box<types::bss> = Box::new(read(&bytes.unwrap_or_default()));
        let kept = bss.created.iter().take(usize::try_from(bss.created_all).unwrap_or(usize::MAX));
        let here = kept.filter(|ring| ring.tgid != 0).map(|ring| CreatedRing { tgid: ring.tgid, flags: ring.flags });
        Ok((here.collect(), bss.created_all.saturating_sub(bss.created.len() as u64)))
    }
}
