//! Exports the events of a recording for replay, one by one.

use std::ffi::{OsStr, OsString};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::{ExportArgs, done};
use iotrail_base::error::{Error, Result};
use iotrail_base::output::{Output, Reserved, shown, write};
use iotrail_base::words::plural;
use iotrail_report::export::replay::{IoLog, Job, Table};
use iotrail_schema::recorded::Ending;
use iotrail_watch::replay_recording::ReplayReader;
use serde_json::json;

/// Returns how the recording ends, and a description of the export.
pub fn export(args: &ExportArgs, source: &Path, option: &'static str, to: &Path) -> Result<(Ending, String)> {
    let mut reader = ReplayReader::open(source)?;
    let text = match option {
        "--json" => lines(&mut reader, Output::open(to, args.existing(), option)?)?,
        "--csv" => table(&mut reader, Output::open(to, args.existing(), option)?)?,
        "--iolog" => iolog(&mut reader, args, to)?,
        _ => {
            return Err(Error::input(
                format!("{} is a recording for replay, which has no times for {option}", source.display()),
                "record again without --for-replay",
            ));
        }
    };
    // After the last event, the ending is known.
    Ok((reader.ending().cloned().unwrap_or(Ending::Cut { at_byte: 0 }), text))
}

/// Writes the header, each event, and the data known at the end.
fn lines(reader: &mut ReplayReader, mut file: Output) -> Result<String> {
    let refused = file.refusal();
    let mut events = 0_u64;
    let mut out = BufWriter::new(&mut file);
    writeln!(out, "{}", json!({ "header": reader.header() })).map_err(&refused)?;
    for event in reader.by_ref() {
        serde_json::to_writer(&mut out, &event?).map_err(|e| refused(e.into()))?;
        out.write_all(b"\n").map_err(&refused)?;
        events += 1;
    }
    let end = reader.ending().and_then(Ending::end);
    writeln!(out, "{}", json!({ "end": end })).and_then(|()| out.flush()).map_err(&refused)?;
    drop(out);
    done(file, &format!("{events} events, one per line"))
}

fn table(reader: &mut ReplayReader, mut file: Output) -> Result<String> {
    let refused = file.refusal();
    let mut out = Table::new(BufWriter::new(&mut file)).map_err(&refused)?;
    for event in reader {
        out.event(&event?).map_err(&refused)?;
    }
    let rows = out.finish().map_err(&refused)?;
    done(file, &format!("{rows} rows, one per request or synchronous call"))
}

/// Writes the log and, if the log is a file, the job next to it.
fn iolog(reader: &mut ReplayReader, args: &ExportArgs, to: &Path) -> Result<String> {
    let mut file = Output::open(to, args.existing(), "--iolog")?;
    let job_path = PathBuf::from([to.as_os_str(), OsStr::new(".fio")].into_iter().collect::<OsString>());
    let job_file = (!file.is_stdout()).then(|| Reserved::new(&job_path, args.existing(), "--iolog")).transpose()?;
    let refused = file.refusal();
    let mut job = Job::default();
    let mut log = IoLog::new(BufWriter::new(&mut file)).map_err(&refused)?;
    for event in reader {
        let event = event?;
        job.event(&event);
        log.event(&event).map_err(&refused)?;
    }
    log.finish().map_err(&refused)?;
    let (written, left_out) = (log.written, log.left_out);
    drop(log);
    let job_file = job_file.filter(|_| written > 0);
    let run = match &job_file {
        Some(_) => format!("fio {} replays them", shown(&job_path)),
        None => "fio --read_iolog replays them".into(),
    };
    let mut text = plural(written as usize, "request");
    if left_out > 0 {
        text += &format!("; omitted: {left_out} without a named file, an offset or a fio action");
    }
    if let Some(job_file) = job_file {
        write(job_file, job.text(&to.to_string_lossy()).as_bytes())?;
    }
    done(file, &format!("{text}; {run}: writes go to the recorded files"))
}
