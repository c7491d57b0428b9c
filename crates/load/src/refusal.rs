//! Explains why a target is unusable, with the remedy.

use std::io;
use std::path::Path;

use iotrail_base::error::{Error, Result};

use super::spec::LoadSpec;

/// Rejects overwriting an existing file without `--allow-write`.
pub fn check_leave(spec: &LoadSpec, path: &Path) -> Result<()> {
    if !spec.writes() || spec.allow_write {
        return Ok(());
    }
    Err(Error::input(
        format!("--rw {} would overwrite {}, which exists", spec.rw, path.display()),
        match spec.engine.engine().target.is_past_files() {
            true => "add --allow-write to overwrite its contents",
            false => "add --allow-write to overwrite its contents, or specify a file that does not exist, with --size",
        },
    ))
}

pub fn cannot(what: &str, path: &Path, e: io::Error) -> Error {
    let what = format!("cannot {what} {}", path.display());
    match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            Error::machine(what, "run as a user with permission, or choose another --file").because(e)
        }
        Some(libc::EMFILE) => {
            Error::machine(what, "raise the open file limit (ulimit -n), or use fewer --jobs").because(e)
        }
        Some(libc::EROFS) => Error::machine(what, "choose a --file on a writable file system").because(e),
        Some(libc::ENOSPC | libc::EDQUOT) => {
            Error::machine(what, "free space there, use a smaller --size, or choose another --file").because(e)
        }
        Some(libc::EFBIG) => Error::machine(what, "use a smaller --size, or choose another --file").because(e),
        Some(libc::ENOENT | libc::ENOTDIR) => Error::input(what, "check that its directory exists").because(e),
        Some(libc::ETXTBSY) => {
            Error::input(what, "it is a running executable or swap space: choose another --file").because(e)
        }
        Some(libc::ELOOP | libc::ENAMETOOLONG) => Error::input(what, "specify a valid file name").because(e),
        _ => Error::machine(what, "choose another --file").because(e),
    }
}

pub fn no_direct(path: &Path) -> Error {
    Error::machine(
        format!("the file system of {} does not support direct I/O (O_DIRECT)", path.display()),
        "add --buffered, or choose a --file on another file system",
    )
}

/// Number of bytes to use, validated against the size.
pub fn usable(spec: &LoadSpec, path: &Path, has: u64) -> Result<u64> {
    let name = path.display();
    let block = u64::from(spec.block_bytes);
    let bytes = match spec.size {
        Some(asked) if asked > has => {
            return Err(Error::input(
                format!("{name} has {has} bytes, but --size is {asked}"),
                "use a smaller --size, or remove the file so that it is created with this size",
            ));
        }
        Some(asked) => asked,
        None => has,
    };
    if bytes < block {
        return Err(Error::input(
            format!("{name} has {bytes} usable bytes, less than one block of {block}"),
            "use a smaller --bs, or a larger file or --size",
        ));
    }
    let blocks = bytes / block;
    let apart = spec.verify || spec.rw.is_sequential();
    // A verified job never has two I/Os on the same block, so it needs more blocks than I/Os in flight.
    let needed = u64::from(spec.jobs) * if spec.verify { u64::from(spec.depth) + 1 } else { 1 };
    if apart && blocks < needed {
        return Err(Error::input(
            format!("{name} has {blocks} blocks, but this load needs {needed}: each job uses its own share"),
            "use a larger file, a smaller --bs, or fewer --jobs or a smaller --depth",
        ));
    }
    Ok(bytes)
}
