//! Reads the probes' records as they arrive.

use std::time::Duration;

use crate::files::Names;
use crate::processes::Processes;
use crate::recorder::Recorder;
use crate::summary::Summary;
use iotrail_base::error::Result;
use iotrail_probe::watch::{BATCHES, Watch};
use iotrail_schema::file::Descriptor;

/// Interval between two reads of traced requests.
pub(crate) const PERIOD: Duration = Duration::from_millis(20);

pub(crate) fn take(
    watch: &mut Watch<'_>,
    summary: &mut Summary,
    processes: &mut Processes,
    mut files: Option<&mut Names>,
    mut recorder: Option<&mut Recorder>,
) -> Result<()> {
    watch.attach_if_used()?;
    let mut last = 0;
    for _ in 0..BATCHES {
        let more = watch.read_batch()?;
        watch.unregistered().into_iter().for_each(|at| summary.unregistered(at));
        watch.trails(&mut |trail| {
            // Most requests belong to the same process as the previous one.
            if trail.tgid != last {
                last = trail.tgid;
                processes.noticed(last);
            }
            if let Some(recorder) = &mut recorder {
                recorder.take(&trail);
            }
            if let Some(files) = &mut files {
                files.met(trail.tgid, trail.file, trail.descriptor);
            }
            summary.take(trail);
        })?;
        for trail in watch.overflowed() {
            if let Some(files) = &mut files {
                files.met(trail.tgid, trail.file, trail.descriptor);
            }
            summary.take_overflowed(&trail);
        }
        watch.reaped(&mut |reaped| {
            if reaped.tgid != last {
                last = reaped.tgid;
                processes.noticed(last);
            }
            if let Some(files) = &mut files {
                files.met(reaped.tgid, None, Some(Descriptor::Fd(reaped.fd)));
            }
            summary.take_reaped(reaped);
        });
        watch.stays(&mut |stay| summary.take_stay(&stay));
        if !more {
            break;
        }
    }
    let told = watch.file_names();
    if let Some(files) = files {
        told.into_iter().for_each(|name| files.told(name));
        files.look();
    }
    processes.sq_threads_ended(watch.ended_sq_threads());
    summary.fold(&watch.folded());
    Ok(())
}
