//! One trace. The probes are attached, and the subject continues or starts. Traced requests are read as they arrive. At
//! the end, counts, traced requests and data from /proc become one record.
//!
//! | module | responsible for |
//! |---|---|
//! | `terms` | options of a trace, and the events that it reports |
//! | `watched` | the traced processes |
//! | `running` | the trace from start to end |
//! | `taking` | reads the probes' ring buffers |
//! | `opening` | opens and closes the windows |
//! | `price` | cost of the probes for the traced programs |
//! | `checkpoint` | when an intermediate record is due |
//! | `ending` | the end of the trace and its results |
//! | `cpu` | CPU time of the traced programs |

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
            "--profile samples the CPU continuously, not in windows",
            "omit --windows or --profile",
        ));
    }
    let subject = probed(&asked, how.choice, how.stacks);
    // Fork the command before iotrail allocates more memory. The child frees its copy of that memory at exec, and the
    // program's CPU time includes this.
    let watched = Watched::of(asked, how)?;
    let mut state = State::open(&how.numbers);
    // A hung program's state is reported before the probes are loaded, which takes time.
    if let Watched::Processes(processes) = &watched {
        let tgids: Vec<u32> = processes.iter().map(|p| p.tgid).collect();
        state.loaded();
        state.start(&tgids).into_iter().for_each(|moment| tell(News::Now(moment)));
    }
    let host = iotrail_host::facts(None)?;
    let mut room = ObjectSlot::default();
    let watch = Watch::open(&mut room, subject)?;
    state.loaded();
    let mut sampling_room = profile::ObjectSlot::default();
    let mut capture_room = capture::ObjectSlot::default();
    let rooms = (&mut sampling_room, &mut capture_room);
    let mut span = Running::begin(watched, (watch, state), rooms, host, how, extra, tell)?;
    span.run(extra, tell, stop)?;
    span.end()
}
