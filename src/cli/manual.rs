//! `iotrail man`: generates the manual pages, one per command, from the definitions of the help.

mod machine;
mod measure;
mod network;
mod own;
mod page;
mod watch;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use iotrail_base::error::{OrFail, Result};
use iotrail_base::interrupt;
use iotrail_base::output::{self, Existing, Folder};
use page::{Entry, Page};

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory for the pages; created if missing. Existing iotrail pages are replaced
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Overwrite files with the same names that are not iotrail pages
    #[arg(long)]
    force: bool,
}

pub fn run(args: &ManArgs) -> Result<u8> {
    let pages = pages().or_machine("cannot create the manual pages", "report this")?;
    for (name, _) in &pages {
        let place = args.folder.join(name);
        if !is_ours(&place) {
            output::free(&place, Existing::forced(args.force))?;
        }
    }
    // On a signal, remove partial results.
    interrupt::raise_flag()?;
    let mut out = Folder::open(&args.folder, Existing::Replace, "DIR")?;
    for (name, page) in pages {
        let made = out.under_way().join(&name);
        fs::write(&made, page).map_err(|e| output::refused(&args.folder.join(&name), "DIR", e))?;
        out.put(&made, Path::new(&name))?;
    }
    out.finish();
    Ok(0)
}

/// Whether this command wrote the page, in any version.
fn is_ours(page: &Path) -> bool {
    let is_file = page.symlink_metadata().is_ok_and(|there| there.is_file());
    is_file
        && fs::read_to_string(page).is_ok_and(|text| {
            text.lines().next().is_some_and(|line| line.starts_with(".TH IOTRAIL") && line.ends_with(MANUAL))
        })
}

/// End of the first line of every page.
const MANUAL: &str = "\"iotrail manual\"";

/// File name and page of each command, starting with the program itself.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = super::Cli::command().disable_help_subcommand(true);
    root.build();
    let mut made = Vec::new();
    add(&root, &mut made)?;
    Ok(made)
}

fn add(command: &Command, made: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    made.push((format!("{}.1", name(command)), page(command)?));
    command.get_subcommands().filter(|c| !c.is_hide_set()).try_for_each(|c| add(c, made))
}

/// `iotrail-net-serve`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let name = name(command);
    let text = text(name).ok_or_else(|| io::Error::other(format!("{name} has no text")))?;
    let title = name.to_uppercase();
    let source = concat!("iotrail ", env!("CARGO_PKG_VERSION"));
    // No date, so that the output is reproducible. The empty word keeps the positions of the following ones.
    writeln!(out, ".TH {title} 1 \"\" \"{source}\" {MANUAL}")?;
    let man = Man::new(command.clone());
    man.render_name_section(&mut out)?;
    let mut before = Roff::new();
    before.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    before.text([roman(usage.trim_start_matches("Usage:").trim())]);
    before.control("SH", ["DESCRIPTION"]);
    for paragraph in text.description {
        before.control("PP", []);
        before.text([roman(*paragraph)]);
    }
    before.to_writer(&mut out)?;
    if command.get_arguments().any(|a| !a.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    let commands = || command.get_subcommands().filter(|c| !c.is_hide_set());
    let mut more = Roff::new();
    if commands().next().is_some() {
        more.control("SH", ["COMMANDS"]);
        for c in commands() {
            let about = c.get_about().map(ToString::to_string).unwrap_or_default();
            define(&mut more, &format!("{}(1)", self::name(c)), &about);
        }
    }
    let is_root = name == ROOT;
    // For the program itself, first steps and exit status have sections of their own.
    if let Some(notes) = command.get_after_help().filter(|_| !is_root) {
        more.control("SH", ["NOTES"]);
        // The text is preformatted.
        more.control("nf", []);
        for line in notes.to_string().lines() {
            more.text([roman(line)]);
        }
        more.control("fi", []);
    }
    section(&mut more, "EXAMPLES", text.examples);
    section(&mut more, "EXIT STATUS", text.exit);
    if is_root {
        section(&mut more, "ENVIRONMENT", ENVIRONMENT);
    }
    section(&mut more, "FILES", text.files);
    more.control("SH", ["SEE ALSO"]);
    more.text(see_also(text.see_also));
    more.to_writer(&mut out)?;
    // A terminal without UTF-8 would omit these characters, and show microseconds as seconds.
    Ok(String::from_utf8_lossy(&out).replace('…', "...").replace('µ', "u").into_bytes())
}

/// Name of the program's own page.
const ROOT: &str = "iotrail";

/// A page's text in addition to its options.
fn text(page: &str) -> Option<&'static Page> {
    Some(match page {
        ROOT => &own::ROOT,
        "iotrail-check" => &own::CHECK,
        "iotrail-bench" => &measure::BENCH,
        "iotrail-run" => &measure::RUN,
        "iotrail-try" => &measure::TRY,
        "iotrail-replay" => &measure::REPLAY,
        "iotrail-advise" => &measure::ADVISE,
        "iotrail-advise-net" => &network::ADVISE,
        "iotrail-compare" => &measure::COMPARE,
        "iotrail-track" => &measure::TRACK,
        "iotrail-reproduce" => &measure::REPRODUCE,
        "iotrail-fleet" => &measure::FLEET,
        "iotrail-report" => &measure::REPORT,
        "iotrail-trace" => &watch::TRACE,
        "iotrail-top" => &watch::TOP,
        "iotrail-monitor" => &watch::MONITOR,
        "iotrail-stalls" => &watch::STALLS,
        "iotrail-net" => &network::NET,
        "iotrail-net-serve" => &network::SERVE,
        "iotrail-net-load" => &network::LOAD,
        "iotrail-net-bench" => &network::BENCH,
        "iotrail-lab" => &machine::LAB,
        "iotrail-lab-run" => &machine::RUN,
        "iotrail-lab-kernels" => &machine::KERNELS,
        "iotrail-lab-fetch" => &machine::FETCH,
        "iotrail-list" => &own::LIST,
        "iotrail-restore" => &own::RESTORE,
        "iotrail-explain" => &watch::EXPLAIN,
        "iotrail-export" => &measure::EXPORT,
        "iotrail-completions" => &own::COMPLETIONS,
        "iotrail-man" => &own::MAN,
        _ => return None,
    })
}

fn section(to: &mut Roff, heading: &str, entries: &[Entry]) {
    to.control("SH", [heading]);
    entries.iter().for_each(|(term, text)| define(to, term, text));
}

fn define(to: &mut Roff, term: &str, text: &str) {
    to.control("TP", []);
    to.text([bold(term)]);
    to.text([roman(text)]);
}

fn see_also(pages: &[&str]) -> Vec<Inline> {
    let mut line = Vec::new();
    for page in pages {
        line.extend((!line.is_empty()).then(|| roman(", ")));
        line.push(bold(*page));
    }
    line
}

const ENVIRONMENT: &[Entry] = &[
    ("XDG_STATE_HOME", "Directory of the store and of the journal of host settings (default: ~/.local/state)."),
    ("XDG_CACHE_HOME", "Directory of scratch files and of the lab's kernels (default: ~/.cache)."),
    ("IOTRAIL_TARGET", "The file or block device that experiments read without --file."),
    ("IOTRAIL_LAB_OUT", "In a lab guest: files written there are copied to the --artifacts directory."),
    ("NO_COLOR", "If set and not empty, iotrail prints no colours and no progress line."),
    ("CLICOLOR_FORCE", "If set and neither empty nor 0, iotrail prints colours to any output."),
    ("TERM", "If set to dumb, iotrail prints no colours and no progress line."),
    ("COLUMNS", "The width of help text without a terminal. Results are at most 80 columns wide."),
    (
        "LC_ALL, LC_CTYPE, LANG",
        "In a UTF-8 locale, bars are drawn with line characters, otherwise with number signs. In other locales, screens and messages are ASCII; if no locale is set, only those on a terminal.",
    ),
];

#[cfg(test)]
mod tests;
