//! A recording, whose I/Os only Perfetto's trace holds one by one.

use std::path::Path;

use super::ExportArgs;
use iotrail_base::error::{Error, Result};
use iotrail_base::output::Output;
use iotrail_report::export::perfetto;
use iotrail_report::terminal;
use iotrail_schema::recorded::Ending;
use iotrail_watch::recording::Reader;

pub fn export(args: &ExportArgs, source: &Path) -> Result<u8> {
    if let Some((option, _)) = args.streams().chain(args.folders()).find(|(option, _)| *option != "--perfetto") {
        return Err(Error::input(
            format!("{} is a recording of single I/Os, and {option} is of measurements", source.display()),
            "give a stored run's number or what `bench --json` printed; of a recording, --perfetto",
        ));
    }
    // The parser has seen one format at least.
    let Some(path) = &args.perfetto else { return Ok(0) };
    // Names of rings and processes are at the recording's end, and wanted at its beginning.
    let ending = Reader::open(source)?.skip_to_ending()?;
    let reader = Reader::open(source)?;
    let place = |p: &Path| p.canonicalize().ok();
    if place(path).is_some_and(|p| Some(p) == place(source)) {
        let what = format!("{} cannot become its own export", source.display());
        return Err(Error::input(what, "name another file with --perfetto"));
    }
    let mut file = Output::open(path, args.existing(), "--perfetto")?;
    let header = reader.header().clone();
    let refused = file.refusal();
    let mut out = perfetto::Exporter::new(&mut file, &header, ending.end());
    for entry in reader {
        out.entry(&entry?).map_err(&refused)?;
    }
    let written = out.finish().map_err(refused)?;
    let shown = file.shown();
    file.finish()?;
    match ending {
        Ending::Whole(_) => (),
        Ending::Cut { at_byte } | Ending::Damaged { at_byte } => terminal::say(&format!(
            "iotrail: warning: the recording breaks off at byte {at_byte}; what is before is exported"
        )),
    }
    terminal::say(&format!(
        "{}: {} I/Os as {} slices on {} tracks; open it at https://ui.perfetto.dev, which reads it in the browser",
        shown, written.ios, written.slices, written.tracks
    ));
    Ok(0)
}
