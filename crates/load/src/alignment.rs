//! Address and length alignment for direct I/O.

use std::fs::File;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, statx};

use iotrail_base::error::{Error, Result};

use super::buffers::PAGE;
use super::device;
use super::refusal::{cannot, no_direct};
use super::spec::LoadSpec;

/// O_DIRECT requires complete logical blocks, and memory aligned as the device demands.
pub fn check_alignment(spec: &LoadSpec, path: &Path, file: &File, device: bool) -> Result<()> {
    let (memory, offset) = match direct_alignment(file) {
        Some(a) => a,
        None if device => {
            let bytes = device::block_bytes(file).map_err(|e| cannot("read the block size of", path, e))?;
            (bytes, bytes)
        }
        None => return Ok(()), // a kernel before 6.1: the first I/O reports it
    };
    if offset == 0 {
        return Err(no_direct(path));
    }
    if !spec.block_bytes.is_multiple_of(offset) {
        return Err(Error::input(
            format!(
                "--bs {} is not a multiple of the {offset}-byte logical blocks of {}, as direct I/O needs",
                spec.block_bytes,
                path.display()
            ),
            format!("use --bs {}, or --buffered", spec.block_bytes.next_multiple_of(offset)),
        ));
    }
    if memory as usize > PAGE {
        return Err(Error::machine(
            format!("{} requires direct I/O buffers to be aligned to {memory} bytes", path.display()),
            "use --buffered",
        ));
    }
    Ok(())
}

/// Alignment of memory, and of offsets and lengths, for O_DIRECT (statx STATX_DIOALIGN, Linux 6.1). 0: no direct I/O.
/// `None` if the kernel or file system does not report it.
fn direct_alignment(file: &File) -> Option<(u32, u32)> {
    // An empty name refers to the descriptor itself.
    let s = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = StatxFlags::from_bits_retain(s.stx_mask).contains(StatxFlags::DIOALIGN);
    told.then_some((s.stx_dio_mem_align, s.stx_dio_offset_align))
}
