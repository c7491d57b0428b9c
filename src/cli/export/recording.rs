//! Exports a recording's requests one by one.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use super::{ExportArgs, done, replay};
use iotrail_base::error::{Error, Result};
use iotrail_base::output::Output;
use iotrail_base::words::plural;
use iotrail_report::export::{perfetto, requests};
use iotrail_report::terminal;
use iotrail_schema::recorded::{End, Ending};
use iotrail_watch::recording::Reader;
use serde_json::json;

pub fn export(args: &ExportArgs, source: &Path) -> Result<u8> {
    const TAKEN: [&str; 4] = ["--json", "--csv", "--iolog", "--perfetto"];
    if let Some((option, _)) = args.streams().chain(args.folders()).find(|(option, _)| !TAKEN.contains(option)) {
        return Err(Error::input(
            format!("{} is a recording of individual I/Os, but {option} exports measurements", source.display()),
            format!(
                "specify a stored run's number or `bench --json` output; for a recording, use {}",
                TAKEN.join(", ")
            ),
        ));
    }
    if args.table != "measurements" {
        return Err(Error::input(
            format!("{} is a recording, which has only one table", source.display()),
            "omit --table",
        ));
    }
    // The names of rings, processes and files are at the end of a recording, but needed at the start of the export.
    let is_for_replay = Reader::open(source)?.header().is_for_replay();
    let mut ending = Reader::open(source)?.skip_to_ending()?;
    let place = |p: &Path| p.canonicalize().ok();
    for (option, path) in args.streams() {
        if place(path).is_some_and(|p| Some(p) == place(source)) {
            let what = format!("{} is both the recording and the output", source.display());
            return Err(Error::input(what, format!("specify another file with {option}")));
        }
        if is_for_replay {
            let (found, said) = replay::export(args, source, option, path)?;
            ending = found;
            terminal::say(&said);
            continue;
        }
        let reader = Reader::open(source)?;
        let file = Output::open(path, args.existing(), option)?;
        let said = match option {
            "--json" => lines(reader, ending.end(), file)?,
            "--csv" => table(reader, ending.end(), file)?,
            "--iolog" => iolog(reader, ending.end(), file)?,
            _ => tracks(reader, ending.end(), file)?,
        };
        terminal::say(&said);
    }
    match ending {
        Ending::Whole(_) => (),
        Ending::Cut { at_byte } | Ending::Damaged { at_byte } => terminal::say(&format!(
            "iotrail: warning: the recording ends at byte {at_byte}; the part before it is exported"
        )),
    }
    Ok(0)
}

/// Writes the header, each entry, and the data known at the end.
fn lines(reader: Reader, end: Option<&End>, mut file: Output) -> Result<String> {
    let refused = file.refusal();
    let mut entries = 0_u64;
    let mut out = BufWriter::new(&mut file);
    writeln!(out, "{}", json!({ "header": reader.header() })).map_err(&refused)?;
    for entry in reader {
        serde_json::to_writer(&mut out, &entry?).map_err(|e| refused(e.into()))?;
        out.write_all(b"\n").map_err(&refused)?;
        entries += 1;
    }
    writeln!(out, "{}", json!({ "end": end })).and_then(|()| out.flush()).map_err(&refused)?;
    drop(out);
    done(file, &format!("{entries} entries, one per line"))
}

fn table(reader: Reader, end: Option<&End>, mut file: Output) -> Result<String> {
    let refused = file.refusal();
    let mut out = requests::Table::new(&mut file, end).map_err(&refused)?;
    for entry in reader {
        out.entry(&entry?).map_err(&refused)?;
    }
    let rows = out.finish().map_err(&refused)?;
    done(file, &format!("{rows} rows, one per completion"))
}

fn iolog(reader: Reader, end: Option<&End>, mut file: Output) -> Result<String> {
    let header = reader.header();
    if header.one_in > 1 || header.adaptive || header.slowest.is_some() || header.windows.is_some() {
        return Err(Error::input(
            "the recording contains only a sample of the requests, so fio would replay a different load",
            "record all requests: iotrail trace --one-in 1 --record FILE",
        ));
    }
    let Some(end) = end else {
        let what = "the recording ends before the names of its files";
        return Err(Error::input(what, "record again; --csv and --json export the readable part"));
    };
    let refused = file.refusal();
    let mut log = requests::IoLog::new(end);
    for entry in reader {
        log.entry(&entry?);
    }
    let written = log.write(BufWriter::new(&mut file)).map_err(refused)?;
    let lost = end.losses.lost() + end.unfinished;
    let without = [(log.left_out, "without a named file, an offset or a length"), (lost, "lost or unfinished")];
    let without = without.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("; omitted: {n} {why}"));
    let text = format!("{}{}", plural(written, "request"), without.collect::<String>());
    done(file, &format!("{text}; fio --read_iolog replays it: writes go to the recorded files"))
}

fn tracks(reader: Reader, end: Option<&End>, mut file: Output) -> Result<String> {
    let header = reader.header().clone();
    let refused = file.refusal();
    let mut out = perfetto::Exporter::new(&mut file, &header, end);
    for entry in reader {
        out.entry(&entry?).map_err(&refused)?;
    }
    let written = out.finish().map_err(refused)?;
    let (ios, slices, tracks) = (written.ios, written.slices, written.tracks);
    let text = format!("{ios} I/Os as {slices} slices on {tracks} tracks");
    done(file, &format!("{text}; open it at https://ui.perfetto.dev, which reads it in the browser"))
}
