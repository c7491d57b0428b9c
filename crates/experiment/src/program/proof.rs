//! What the kernel itself says of the rings that a run was given: its io_uring_create event, beside what the supervisor wrote.

use iotrail_base::error::{Error, Result};
use iotrail_probe::created::{Created, CreatedRing};
use iotrail_schema::setup_flag;
use iotrail_supervise::supervisor::Ring;

/// What looks during a run; nothing where it may not.
#[derive(Debug)]
pub struct Proof(Option<Created>);

impl Proof {
    pub fn open() -> Self {
        Proof(Created::open().ok())
    }

    /// Of each ring whether the kernel made it with these flags; `None`: nobody looked, or its event may be among those not kept.
    ///
    /// Errors: a process of the program has a ring with other flags than any that it was given.
    pub fn end(self, rings: &[Ring]) -> Result<Vec<Option<bool>>> {
        let Some(created) = self.0 else { return Ok(vec![None; rings.len()]) };
        let (made, more) = created.end()?;
        let (proven, others) = prove(rings, &made, more);
        let Some(other) = others.first() else { return Ok(proven) };
        Err(Error::machine(
            format!(
                "process {} has a ring with flags that it was not given: {}",
                other.tgid,
                setup_flag::names(other.flags, None).join(",")
            ),
            "the program changes its parameters while it asks: leave this arm out",
        ))
    }
}

/// Each event proves one ring of its process. Of the rings' processes: events that prove none. `more`: events that were not kept.
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
    fn each_ring_is_proven_by_an_event_of_its_own() {
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
        // One was refused by the kernel; another program's ring proves nothing.
        let first_alone = |others| (vec![Some(true), others, others], vec![]);
        assert_eq!(prove(&rings, &[made(1, 256), made(7, 256)], 0), first_alone(Some(false)));
        // Their events may be among those that were not kept.
        assert_eq!(prove(&rings, &[made(1, 256), made(7, 256)], 1), first_alone(None));
        // It has one that it was not given.
        let (_, others) = prove(&rings, &[made(1, 256), made(1, 0)], 1);
        assert_eq!(others, [made(1, 0)]);
        let known = (vec![Some(true), Some(false), Some(false)], vec![made(1, 0)]);
        assert_eq!(prove(&rings, &[made(1, 256), made(1, 0)], 0), known);
    }
}
