//! Traced requests that are in flight at the end.

use std::collections::HashMap;

use libbpf_rs::{MapCore, MapFlags};

use super::attached::Watch;
use super::errors::unreadable;
use super::tables::entries;
use crate::raw::read;
use crate::skel::types;
use iotrail_base::error::Result;

/// Traced native and POSIX AIO requests at the end.
#[derive(Default)]
pub(super) struct OpenAio {
    pub unfinished: u64,
    /// Completed native aio requests, and all POSIX AIO requests.
    pub unreaped: u64,
}

impl Watch<'_> {
    /// Requests that have a trail slot: completed ones without a task work run that decides their delivery path, and
    /// those in flight.
    pub(super) fn kept(&self) -> Result<(Vec<types::trail>, Vec<types::trail>)> {
        let (mut completed, mut open) = (vec![], vec![]);
        for (bucket, tags) in entries::<u32, [u64; 8]>(&self.skel.maps.requests)? {
            for (way, tag) in (0..).zip(tags).filter(|(_, tag)| *tag != 0) {
                let index: u32 = bucket * 8 + way;
                if let Some(trail) =
                    self.skel.maps.trails.lookup(&index.to_ne_bytes(), MapFlags::ANY).map_err(unreadable)?
                {
                    // `COMPLETED` in follow.h.
                    if tag & 1 == 1 { &mut completed } else { &mut open }.push(read(&trail));
                }
            }
        }
        Ok((completed, open))
    }

    /// Traced native and POSIX AIO requests whose reaping was not observed.
    pub(super) fn open_aio(&self) -> Result<OpenAio> {
        let mut open = OpenAio::default();
        for (_, request) in entries::<types::aio_key, types::aio_request>(&self.skel.maps.aio_requests)? {
            let followed = match request.several {
                0 => u64::from(request.weight > 0),
                _ => request.followed.into(),
            };
            // POSIX AIO requests count as completed from the start, because no probe observes their completion.
            match request.ended > request.more.into() {
                true => open.unreaped += followed,
                false => open.unfinished += followed,
            }
        }
        Ok(open)
    }

    /// Removes requests whose completion found the CQ full: the overflow event showed only their user data.
    pub(super) fn without_overflowed(&self, open: &mut Vec<types::trail>) -> Result<u64> {
        let overflowed = entries::<types::many_key, u64>(&self.skel.maps.overflowed)?;
        let mut left: HashMap<(u32, u64), u64> =
            overflowed.into_iter().map(|(key, n)| ((key.ring, key.user_data), n)).collect();
        let before = open.len();
        open.retain(|trail| match left.get_mut(&(trail.ring, trail.user_data)) {
            Some(n) if *n > 0 => {
                *n -= 1;
                false
            }
            _ => true,
        });
        Ok((before - open.len()) as u64)
    }
}
