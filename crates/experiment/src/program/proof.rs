//! Checks the flags that the supervisor wrote against the kernel's io_uring_create event.

use iotrail_base::error::{Error, Result};
use iotrail_probe::created::{Created, CreatedRing};
use iotrail_schema::setup_flag;
use iotrail_supervise::supervisor::Ring;

/// The event's probe during a run; empty without permission.
#[derive(Debug)]
pub struct Proof(Option<Created>);

impl Proof {
    pub fn open() -> Self {
        Proof(Created::open().ok())
    }

    /// For each ring, whether the kernel created it with these flags; `None` without a probe, or if its event may have
    /// been dropped.
    ///
    /// Fails if a process of the program has a ring with flags that the supervisor did not write.
    pub fn end(self, rings: &[Ring]) -> Result<Vec<Option<bool>>> {
        let Some(created) = self.0 else { return Ok(vec![None; rings.len()]) };
        let (made, more) = created.end()?;
        let (proven, others) = prove(rings, &made, more);
        let Some(other) = others.first() else { return Ok(proven) };
        Err(Error::machine(
            format!(
                "process {} has a ring with flags that iotrail did not set: {}",
                other.tgid,
                setup_flag::names(other.flags, None).join(",")
            ),
            "the program changes its parameters during the call: omit this arm",
        ))
    }
}

/// Each event confirms one ring of its process. Also returns the events of these processes that match no ring. `more`:
/// number of dropped events.
fn prove(rings: &[Ring], made: &[CreatedRing], more: u64) -> (Vec<Option<bool>>, Vec<CreatedRing>) {
    let mut left: Vec<CreatedRing> = made.iter().filter(|m| rings.iter().any(|r| r.tgid == m.tgid)).copied().collect();
    let mut proven = |ring: &Ring| {
        let its = left.iter().position(|m| (m.tgid, m.flags) == (ring.tgid, ring.given.flags));
        match its.map(|i| left.remove(i)) {
            Some(_) => Some(true),
            None => (more == 0).then_some(false),
        }
    };
    (rings.iter().map(&mut proven).collect(), left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_supervise::change::Params;

    #[test]
    fn each_rings_flags_are_verified_by_its_own_creation_event() {
        let ring = |tgid, flags| {
            let given = Params { flags, ..Params::default() };
            Ring { tgid, tid: tgid, entries: 4, asked: Params::default(), given, left_as_asked: None }
        };
        let made = |tgid, flags| CreatedRing { tgid, flags };
        let rings = [ring(1, 256), ring(1, 256), ring(2, 2)];
        assert_eq!(
            prove(&rings, &[made(2, 2), made(1, 256), made(7, 0), made(1, 256)], 0),
            (vec![Some(true), Some(true), Some(true)], vec![])
        );
        // The kernel rejected one ring; a ring of another program confirms nothing.
        let first_alone = |others| (vec![Some(true), others, others], vec![]);
        assert_eq!(prove(&rings, &[made(1, 256), made(7, 256)], 0), first_alone(Some(false)));
        // The events may be among the dropped ones.
        assert_eq!(prove(&rings, &[made(1, 256), made(7, 256)], 1), first_alone(None));
        // A ring that the supervisor does not know.
        let (_, others) = prove(&rings, &[made(1, 256), made(1, 0)], 1);
        assert_eq!(others, [made(1, 0)]);
        let known = (vec![Some(true), Some(false), Some(false)], vec![made(1, 0)]);
        assert_eq!(prove(&rings, &[made(1, 256), made(1, 0)], 0), known);
    }
}
