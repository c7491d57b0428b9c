//! Rings as the kernel created them, from io_uring_create: proof of the flags that a program got. Costs one event per
//! ring and none per request, so timed runs can use it.

use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt as _;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::created_skel::{CreatedSkelBuilder, types};
use super::support;
use crate::raw::read;
use iotrail_base::error::{Error, OrFail, Result};

/// One created ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedRing {
    /// PID of its process in iotrail's namespace.
    pub tgid: u32,
    /// Flags of struct io_uring_params as the kernel accepted them.
    pub flags: u32,
}

/// The attached program. Dropping it detaches the program.
#[derive(Debug)]
pub struct Created {
    link: Link,
    seen: MapHandle,
}

impl Created {
    pub fn open() -> Result<Self> {
        support::quiet();
        let failed = |e| support::refused("cannot trace the creation of rings", e);
        let ns =
            std::fs::metadata("/proc/self/ns/pid").or_machine("cannot identify this PID namespace", "mount /proc")?;
        let mut room = MaybeUninit::uninit();
        let mut open = CreatedSkelBuilder::default().open(&mut room).map_err(failed)?;
        open.maps.rodata_data.as_deref_mut().expect("the object has constants").reader_ns = ns.ino() as u32;
        let skel = open.load().map_err(failed)?;
        let link = skel.progs.ring_created.attach().map_err(failed)?;
        let seen = MapHandle::try_from(&skel.maps.bss).map_err(failed)?;
        Ok(Created { link, seen })
    }

    /// Rings of this PID namespace and nested namespaces, in order of creation; and the number of rings that did not
    /// fit.
    pub fn end(self) -> Result<(Vec<CreatedRing>, u64)> {
        drop(self.link);
        let cannot = |e| Error::machine("cannot read the created rings", "report this").because(e);
        let bytes = self.seen.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(cannot)?;
        let bss: Box<types::bss> = Box::new(read(&bytes.unwrap_or_default()));
        let kept = bss.created.iter().take(usize::try_from(bss.created_all).unwrap_or(usize::MAX));
        let here = kept.filter(|ring| ring.tgid != 0).map(|ring| CreatedRing { tgid: ring.tgid, flags: ring.flags });
        Ok((here.collect(), bss.created_all.saturating_sub(bss.created.len() as u64)))
    }
}
