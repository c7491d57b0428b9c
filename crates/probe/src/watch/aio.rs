//! Attaches programs at the first use of native or POSIX AIO.

use super::attached::Watch;
use super::errors::load_error;
use crate::posix_aio;
use crate::raw::peek;
use iotrail_base::error::Result;

/// Attached to the entry of a system call, so it costs time for every thread that makes system calls.
pub(super) const AWAITED: &str = "aio_submits";

/// Programs on native aio submissions without that tracepoint: for all calls if it does not exist, otherwise for calls
/// in the 32-bit table. They cost time on every system call.
pub(super) const ENTERED: &str = "aio_submits_entered";

/// Whether to attach this program now; only the programs above may have to wait. `own`: native aio's own tracepoint
/// exists. `as_i386`: calls in the 32-bit table were observed.
pub(super) fn aio_is_due(name: &str, awaited: bool, own: bool, as_i386: bool) -> bool {
    match name {
        AWAITED => !awaited,
        ENTERED => as_i386 || (!awaited && !own),
        _ => true,
    }
}

impl Watch<'_> {
    /// Attaches to the POSIX AIO library of a process, unless already attached.
    pub(super) fn attach_to_library(&mut self, tgid: u32) {
        if !self.plan.attach.contains(&posix_aio::EACH) {
            return;
        }
        let programs = &self.skel.progs;
        let at_once = self.plan.attach.contains(&posix_aio::AT_ONCE).then_some(&programs.posix_aio_called);
        if self.posix_aio.attach(at_once, &programs.posix_aio_called_each, tgid).is_err() {
            self.plan.missing.push((posix_aio::EACH, "POSIX AIO requests"));
        }
    }

    /// Attaches the waiting programs at the first use of native aio; call it repeatedly. The few requests submitted by
    /// then are counted as unseen.
    pub fn attach_if_used(&mut self) -> Result<()> {
        let bss = self.bss();
        let used = peek(&bss.aio_used);
        let as_i386 = peek(&bss.aio_used_as_i386);
        if self.aio_awaited && used != 0 {
            self.attach_awaited()?;
        }
        if as_i386 != 0 && !self.aio_as_i386 {
            self.aio_as_i386 = true;
            // If it replaces the other program, it is already attached.
            if self.plan.attach.contains(&AWAITED) {
                return self.attach_late(ENTERED);
            }
        }
        Ok(())
    }

    pub(super) fn attach_awaited(&mut self) -> Result<()> {
        self.aio_awaited = false;
        self.attach_late(if self.plan.attach.contains(&AWAITED) { AWAITED } else { ENTERED })
    }

    fn attach_late(&mut self, name: &'static str) -> Result<()> {
        // Nothing is attached between windows: the next window attaches it.
        let counting = self.bss().counting;
        if self.windows.is_some() && counting == 0 {
            return Ok(());
        }
        if !self.plan.attach.contains(&name) {
            return Ok(());
        }
        let programs = &self.skel.progs;
        let program = if name == AWAITED { &programs.aio_submits } else { &programs.aio_submits_entered };
        self.links.push((name, program.attach().map_err(load_error)?));
        Ok(())
    }
}
