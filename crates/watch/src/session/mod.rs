//! One watched span: the probes are attached, the subject goes on (or starts), what was followed is taken out as it comes, and
//! at the end counts, followed requests and /proc's view become one record.
//!
//! | module | responsible for |
//! |---|---|
//! | `terms` | how it is watched, and what is told while it lasts |
//! | `watched` | who is watched |
//! | `running` | the span from its beginning until it is over |
//! | `taking` | what the probes hand over meanwhile |
//! | `opening` | windows as they open and close |
//! | `price` | what watching costs the watched |
//! | `checkpoint` | when a record up to now is due |
//! | `ending` | the span's end, and what it yields |
//! | `cpu` | CPU time of the watched |

mod checkpoint;
mod cpu;
mod ending;
mod opening;
mod price;
mod running;
mod taking;
mod terms;
mod watched;

use super::allowed::allowed;
use super::state::State;
use super::subject::Target;
pub use ending::Traced;
use iotrail_base::error::{Error, Result};
use iotrail_probe::watch::{ObjectSlot, Watch};
use iotrail_probe::{capture, profile};
pub(super) use price::Price;
use running::Running;
pub(super) use taking::{PERIOD, take};
pub use terms::{Counts, Extra, News, Options, Progress, Stop, Until};
pub(super) use watched::{Watched, follow, probed, still_there, whose_numbers};

pub fn watch(
    asked: Target,
    how: &Options,
    extra: &Extra,
    tell: &mut dyn FnMut(News<'_>),
    stop: &Stop<'_>,
) -> Result<Traced> {
    allowed()?;
    if extra.sampling.is_some() && how.windows.is_some() {
        return Err(Error::input(
            "the CPU is sampled all the time, not by windows",
            "leave out --windows or --profile",
        ));
    }
    let subject = probed(&asked, how.choice, how.stacks);
    // First of all: a command's process begins as a copy of ours and has to give back what it is a copy of when it becomes the
    // program, in the program's time.
    let watched = Watched::of(asked, how)?;
    let mut state = State::open(&how.numbers);
    // What hangs now is answered before anything is loaded that takes its time.
    if let Watched::Processes(processes) = &watched {
        let tgids: Vec<u32> = processes.iter().map(|p| p.tgid).collect();
        state.start(&tgids).into_iter().for_each(|moment| tell(News::Now(moment)));
    }
    let host = iotrail_host::facts(None)?;
    let mut room = ObjectSlot::default();
    let watch = Watch::open(&mut room, subject)?;
    let mut sampling_room = profile::ObjectSlot::default();
    let mut capture_room = capture::ObjectSlot::default();
    let rooms = (&mut sampling_room, &mut capture_room);
    let mut span = Running::begin(watched, (watch, state), rooms, host, how, extra, tell)?;
    span.run(extra, tell, stop)?;
    span.end()
}
