//! Exports a trace's call sites.

use std::io::Write as _;

use super::ExportArgs;
use crate::cli::stored_trace::NamedTrace;
use iotrail_base::error::{Error, Result};
use iotrail_base::output::Output;
use iotrail_report::export::stacks;
use iotrail_report::terminal;

pub fn export(args: &ExportArgs, trace: &NamedTrace) -> Result<u8> {
    const TAKEN: [&str; 2] = ["--folded", "--pprof"];
    if let Some((option, _)) = args.streams().chain(args.folders()).find(|(option, _)| !TAKEN.contains(option)) {
        return Err(Error::input(
            format!("{} is a trace, but {option} exports measurements or recordings", trace.name),
            format!(
                "for a trace, use {}; `iotrail report {} --json` prints the complete trace",
                TAKEN.join(", "),
                trace.name
            ),
        ));
    }
    let Some(sampled) = trace.record.stacks.as_ref().filter(|sampled| !sampled.stacks.is_empty()) else {
        return Err(Error::input(format!("{} has no stacks", trace.name), "trace again with --call-sites"));
    };
    let value = stacks::VALUES.iter().find(|(name, ..)| *name == args.value).map(|(.., value)| *value);
    for (option, path) in args.streams() {
        let mut file = Output::open(path, args.existing(), option)?;
        let refused = file.refusal();
        if option == "--pprof" {
            stacks::pprof(&trace.record, sampled, &mut file).map_err(refused)?;
        } else {
            let lines = stacks::folded(sampled, value.expect("the names are those of the option"));
            lines.iter().try_for_each(|line| writeln!(file, "{line}")).map_err(refused)?;
        }
        let shown = file.shown();
        file.finish()?;
        terminal::say(&format!("{shown}: {} stacks", sampled.stacks.len()));
    }
    Ok(0)
}
