//! Traced requests that have not finished.

use std::collections::HashMap;

use libbpf_rs::{MapCore, MapFlags};

use super::attached::Watch;
use super::errors::unreadable;
use super::tables::entries;
use crate::raw::read;
use crate::skel::types;
use iotrail_base::error::Result;

/// Traced requests of native and POSIX AIO at the end.
#[derive(Default)]
pub(super) struct OpenAio {
    pub unfinished: u64,
    /// Complete ones of native aio, and all of POSIX AIO.
    pub unreaped: u64,
}

impl Watch<'_> {
    /// Requests with a slot among the traced ones: those without a run of task work that decides their delivery path,
    /// and those that are open.
    pub(super) fn kept(&self) -> Result<(Vec<types::trail>, Vec<types::trail>)> {
        let (mut completed, mut open) = (vec![], vec![]);
        for (bucket, tags) in entries::<u32, [u64; 8]>(&self.skel.maps.requests)? {
            for (way, tag) in (0..).zip(tags).filter(|(_, tag)| *tag != 0) {
                let index: u32 = bucket * 8 + way;
                if let Some(trail) =
                    self.skel.maps.trails.lookup(&index.to_ne_bytes(), MapFlags::ANY).map_err(unreadable)?
                {
                    // `COMPLETED` of follow.h.
                    if tag & 1 == 1 { &mut completed } else { &mut open }.push(read(&trail));
                }
            }
        }
        Ok((completed, open))
    }

    /// Traced requests of native and POSIX AIO whose result was not observed to be reaped.
    pub(super) fn open_aio(&self) -> Result<OpenAio> {
        let mut open = OpenAio::default();
        for (_, request) in entries::<types::aio_key, types::aio_request>(&self.skel.maps.aio_requests)? {
            let followed = match request.several {
                0 => u64::from(request.weight > 0),
                _ => request.followed.into(),
            };
            // Requests of POSIX AIO count as ended from the start: no probe observes their end.
            match request.ended > request.more.into() {
                true => open.unreaped += followed,
                false => open.unfinished += followed,
            }
        }
        Ok(open)
    }

    /// Removes open requests whose completion found the queue full: only its user data was observed.
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
