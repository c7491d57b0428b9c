//! `iotrail man`: the manual pages, one for each command, made of the same definitions as the help.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use iotrail_base::error::{Error, Result};
use iotrail_base::interrupt;
use iotrail_base::output::{self, Existing, Folder};

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for the pages; created if missing. Existing iotrail pages are replaced
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Replace files of these names that are not iotrail pages
    #[arg(long)]
    force: bool,
}

pub fn run(args: &ManArgs) -> Result<u8> {
    let pages = pages().map_err(|e| Error::machine("cannot make the manual pages", "report this").because(e))?;
    for (name, _) in &pages {
        let place = args.folder.join(name);
        if !is_ours(&place) {
            output::free(&place, Existing::forced(args.force))?;
        }
    }
    // What is under way is taken away when a signal ends it.
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

/// A page that this command has written, of whatever version.
fn is_ours(page: &Path) -> bool {
    let is_file = page.symlink_metadata().is_ok_and(|there| there.is_file());
    is_file
        && fs::read_to_string(page).is_ok_and(|text| {
            text.lines().next().is_some_and(|line| line.starts_with(".TH IOTRAIL") && line.ends_with(MANUAL))
        })
}

/// What the first line of every page ends with.
const MANUAL: &str = "\"iotrail manual\"";

/// (file, page) of each command, the program's own first.
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
    let title = name(command).to_uppercase();
    let source = concat!("iotrail ", env!("CARGO_PKG_VERSION"));
    // Without a date: the same program gives the same pages. An empty word of its own is what the next ones stand after.
    writeln!(out, ".TH {title} 1 \"\" \"{source}\" {MANUAL}")?;
    let man = Man::new(command.clone());
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    if command.get_arguments().any(|a| !a.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    let commands = || command.get_subcommands().filter(|c| !c.is_hide_set());
    let mut more = Roff::new();
    if commands().next().is_some() {
        more.control("SH", ["COMMANDS"]);
        for c in commands() {
            define(&mut more, &format!("{}(1)", name(c)), &c.get_about().map(ToString::to_string).unwrap_or_default());
        }
    }
    if let Some(notes) = command.get_after_long_help().or(command.get_after_help()) {
        more.control("SH", ["NOTES"]);
        // It is laid out.
        more.control("nf", []);
        for line in notes.to_string().lines() {
            more.text([roman(line)]);
        }
        more.control("fi", []);
    }
    let is_root = !name(command).contains('-');
    section(&mut more, "EXIT STATUS", exit_status(name(command)));
    if is_root {
        section(&mut more, "ENVIRONMENT", ENVIRONMENT);
        section(&mut more, "FILES", FILES);
    }
    more.control("SH", ["SEE ALSO"]);
    more.text(see_also(command));
    more.to_writer(&mut out)?;
    // A terminal without UTF-8 would show nothing in their places, and microseconds as seconds.
    Ok(String::from_utf8_lossy(&out).replace('…', "...").replace('µ', "u").into_bytes())
}

fn section(to: &mut Roff, heading: &str, entries: &[(&str, &str)]) {
    to.control("SH", [heading]);
    entries.iter().for_each(|(term, text)| define(to, term, text));
}

fn define(to: &mut Roff, term: &str, text: &str) {
    to.control("TP", []);
    to.text([bold(term)]);
    to.text([roman(text)]);
}

/// The page above it, those below the same one, and what belongs together.
fn see_also(command: &Command) -> Vec<Inline> {
    let mut names: Vec<&str> = match name(command) {
        "iotrail" => vec!["io_uring(7)", "aio(7)", "epoll(7)", "fio(1)", "bpftrace(8)"],
        "iotrail-bench" => {
            vec!["iotrail(1)", "iotrail-check(1)", "iotrail-run(1)", "iotrail-compare(1)", "io_uring(7)"]
        }
        "iotrail-run" => vec!["iotrail(1)", "iotrail-list(1)", "iotrail-compare(1)", "iotrail-restore(1)"],
        "iotrail-report" => vec!["iotrail(1)", "iotrail-run(1)", "iotrail-compare(1)", "iotrail-export(1)"],
        "iotrail-compare" | "iotrail-list" => vec!["iotrail(1)", "iotrail-run(1)", "iotrail-bench(1)"],
        "iotrail-trace" => vec!["iotrail(1)", "iotrail-top(1)", "iotrail-explain(1)", "iotrail-export(1)"],
        "iotrail-explain" => vec!["iotrail(1)", "iotrail-trace(1)", "iotrail-export(1)"],
        "iotrail-export" => vec!["iotrail(1)", "iotrail-run(1)", "iotrail-trace(1)", "iotrail-report(1)"],
        "iotrail-top" => vec!["iotrail(1)", "iotrail-trace(1)"],
        "iotrail-restore" => vec!["iotrail(1)", "iotrail-run(1)"],
        name if name.starts_with("iotrail-net-") => vec!["iotrail(1)", "iotrail-net(1)"],
        name if name.starts_with("iotrail-lab-") => vec!["iotrail(1)", "iotrail-lab(1)"],
        _ => vec!["iotrail(1)"],
    };
    let mut line = vec![bold(names.remove(0))];
    names.into_iter().for_each(|name| line.extend([roman(", "), bold(name)]));
    line
}

const DONE: (&str, &str) = ("0", "Done.");
const WRONG: (&str, &str) = ("2", "Wrong use or wrong input.");
const REFUSED: (&str, &str) =
    ("3", "The machine, the kernel or the privileges do not allow it, or somebody else interfered.");

const OPEN_GATE: (&str, &str) =
    ("4", "What --fail-on asks for could not be evaluated; the reason is on standard error.");
const CORRUPT: (&str, &str) = ("5", "--verify found data that is not what was written.");
const FAULT: (&str, &str) = ("70", "A fault of iotrail itself, which should be reported.");

fn exit_status(page: &str) -> &'static [(&'static str, &'static str)] {
    match page {
        "iotrail" => {
            const {
                &[
                    DONE,
                    ("1", "A finding or a comparison that the caller asked to fail on, or a run that was stopped."),
                    WRONG,
                    REFUSED,
                    OPEN_GATE,
                    CORRUPT,
                    FAULT,
                ]
            }
        }
        "iotrail-bench" => const { &[DONE, WRONG, REFUSED, CORRUPT, FAULT] },
        "iotrail-run" => {
            const {
                &[
                    ("0", "Every measurement was made."),
                    (
                        "1",
                        "The run was stopped before (what is done is stored and printed); or, with --fail-on-unmet, an expectation is not \
                         met; or, with --kernels, some of the kernels have not measured everything.",
                    ),
                    WRONG,
                    REFUSED,
                    ("4", "With --fail-on-unmet: an expectation could not be told, or there is none."),
                    CORRUPT,
                    FAULT,
                ]
            }
        }
        "iotrail-compare" => {
            const { &[DONE, ("1", "A comparison has a verdict that --fail-on names."), WRONG, REFUSED, OPEN_GATE] }
        }
        "iotrail-trace" => {
            const { &[DONE, ("1", "A finding that --fail-on names is there."), WRONG, REFUSED, OPEN_GATE] }
        }
        "iotrail-restore" => {
            const {
                &[
                    ("0", "All is as before."),
                    ("1", "Somebody else has changed something since, which is left alone."),
                    ("2", "Wrong use or wrong input."),
                    ("3", "Something cannot be put back."),
                ]
            }
        }
        "iotrail-lab-run" => {
            const {
                &[(
                    "any",
                    "The command's own; or, where it could not be run, 2 for wrong use and 3 for what the machine does not allow.",
                )]
            }
        }
        _ => const { &[DONE, WRONG, REFUSED] },
    }
}

const ENVIRONMENT: &[(&str, &str)] = &[
    ("XDG_STATE_HOME", "Where the store and the journal of host settings are; ~/.local/state if it is not set."),
    ("XDG_CACHE_HOME", "Where scratch files and the lab's kernels are; ~/.cache if it is not set."),
    ("IOTRAIL_TARGET", "The file or block device that experiments read where --file names none."),
    ("IOTRAIL_LAB_OUT", "In the guest of a lab: what is written there is copied to the folder that --artifacts names."),
    ("NO_COLOR", "No colours and no progress line, if it is set and not empty."),
    ("CLICOLOR_FORCE", "Colours wherever the output goes, if it is set and neither empty nor 0."),
    ("TERM", "No colours and no progress line where it is dumb."),
    ("COLUMNS", "The width that help is wrapped to where there is no terminal. Results have 80 columns at most."),
    (
        "LC_ALL, LC_CTYPE, LANG",
        "Bars are of lines in a locale of UTF-8, else of number signs. In a locale of another kind screens and messages are ASCII; where \
         none is named, those on a terminal are.",
    ),
];

const FILES: &[(&str, &str)] = &[
    ("~/.local/state/iotrail/iotrail.db", "The store: runs, measurements, histograms. SQLite."),
    ("~/.local/state/iotrail/settings.journal", "Host settings that a run has changed, as long as they are changed."),
    ("~/.cache/iotrail", "Scratch files that experiments read, and the lab's kernels: all of it can be had again."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_all_its_options() {
        let pages = pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names[0], names.len()), ("iotrail.1", 22));
        assert!(names.contains(&"iotrail-net-serve.1") && !names.contains(&"iotrail-lab-guest.1"), "{names:?}");
        let mut root = crate::cli::Cli::command().disable_help_subcommand(true);
        root.build();
        check(&root, &pages);
    }

    fn check(command: &Command, pages: &[(String, Vec<u8>)]) {
        let (_, page) = pages.iter().find(|(file, _)| file.strip_suffix(".1") == Some(name(command))).unwrap();
        let page = String::from_utf8(page.clone()).unwrap().replace("\\-", "-");
        for option in command.get_arguments().filter(|a| !a.is_hide_set()) {
            let value = || option.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
            let named = option.get_long().map(|long| format!("--{long}"));
            let named = named.or_else(value).unwrap_or_else(|| option.get_id().to_string());
            assert!(page.to_lowercase().contains(&named.to_lowercase()), "{}: {named}", name(command));
        }
        for heading in
            [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH \"EXIT STATUS\"", ".SH \"SEE ALSO\""]
        {
            assert!(page.contains(heading), "{}: {heading}", name(command));
        }
        command.get_subcommands().filter(|c| !c.is_hide_set()).for_each(|c| check(c, pages));
    }
}
