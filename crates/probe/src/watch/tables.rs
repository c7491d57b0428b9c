//! Reads and clears the programs' hashes while the programs write to them.
//!
//! Keys are not walked one by one, because such a walk restarts if its key is deleted. In batches the kernel returns
//! complete buckets, so that a permanent entry is returned once.

use std::os::fd::AsRawFd;

use libbpf_rs::{ErrorKind, MapCore, MapFlags, libbpf_sys};

use super::errors::unreadable;
use crate::raw::read;
use iotrail_base::error::{Error, Result};

/// Entries per batch. If a bucket is larger, the batch is repeated with more space.
const AT_ONCE: usize = 4096;

/// All entries of a hash or an array.
pub(super) fn entries<K: Copy, V: Copy>(map: &impl MapCore) -> Result<Vec<(K, V)>> {
    let mut all = vec![];
    each(map, &mut |key, value| all.push((read::<K>(key), read::<V>(value))))?;
    Ok(all)
}

fn keys(map: &impl MapCore) -> Result<Vec<Vec<u8>>> {
    let mut all = vec![];
    each(map, &mut |key, _| all.push(key.to_vec()))?;
    Ok(all)
}

fn each(map: &impl MapCore, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
    let (key_size, value_size) = (map.key_size() as usize, map.value_size() as usize);
    let mut room = AT_ONCE.min((map.max_entries() as usize).max(1));
    let (mut keys, mut values) = (vec![0u8; room * key_size], vec![0u8; room * value_size]);
    // Batch position: four bytes for a hash, a key for an array.
    let (mut from, mut to) = (None::<Vec<u8>>, vec![0u8; key_size.max(4)]);
    loop {
        let mut count = room as u32;
        let options = libbpf_sys::bpf_map_batch_opts {
            sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as _,
            ..Default::default()
        };
        let start = from.as_mut().map_or(std::ptr::null_mut(), |from| from.as_mut_ptr());
        // SAFETY: keys and values have space for `count` entries, and the positions for the larger kind.
        let failed = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                start.cast(),
                to.as_mut_ptr().cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &mut count,
                &options,
            )
        };
        let last = match -failed {
            0 => false,
            libc::ENOENT => true,
            libc::ENOSPC => {
                room *= 2;
                (keys, values) = (vec![0; room * key_size], vec![0; room * value_size]);
                continue;
            }
            libc::EINTR => continue,
            errno => return Err(unreadable(std::io::Error::from_raw_os_error(errno).into())),
        };
        let whole = keys.chunks_exact(key_size).zip(values.chunks_exact(value_size)).take(count as usize);
        whole.for_each(|(key, value)| take(key, value));
        if last {
            return Ok(());
        }
        from = Some(to.clone());
    }
}

/// Returns and deletes an entry; `None` if it is already deleted.
pub(super) fn take<K: Copy, V: Copy>(map: &impl MapCore, key: &K) -> Result<Option<V>> {
    match map.lookup_and_delete(bytes(key)) {
        Ok(value) => Ok(value.map(|value| read(&value))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(unreadable(e)),
    }
}

pub(super) fn lookup<K: Copy, V: Copy>(map: &impl MapCore, key: &K) -> Result<Option<V>> {
    Ok(map.lookup(bytes(key), MapFlags::ANY).map_err(unreadable)?.map(|value| read(&value)))
}

/// Deletes an entry, if it exists.
pub(super) fn delete<K: Copy>(map: &impl MapCore, key: &K) -> Result<()> {
    match map.delete(bytes(key)) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(unreadable(e)),
        _ => Ok(()),
    }
}

/// Deletes all entries of a hash.
pub(super) fn clear(map: &impl MapCore) -> Result<()> {
    for key in keys(map)? {
        match map.delete(&key) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(Error::machine("cannot reset the probes' counters", "report this").because(e));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Bytes of a key. All keys are integers without padding.
fn bytes<K: Copy>(key: &K) -> &[u8] {
    // SAFETY: the value is live and consists of plain integers.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(key).cast(), size_of::<K>()) }
}

/// Clears a bucket table. Returns its number of used tags.
pub(super) fn clear_buckets(map: &impl MapCore) -> Result<u64> {
    const TAGS: usize = size_of::<[u64; 8]>();
    let mut tags = 0;
    for key in map.keys() {
        let Some(bucket) = map.lookup(&key, MapFlags::ANY).map_err(unreadable)? else { continue };
        let here =
            bucket[..TAGS].chunks_exact(size_of::<u64>()).filter(|tag| tag.iter().any(|byte| *byte != 0)).count();
        if here > 0 {
            tags += here as u64;
            map.update(&key, &vec![0; bucket.len()], MapFlags::ANY).map_err(unreadable)?;
        }
    }
    Ok(tags)
}
