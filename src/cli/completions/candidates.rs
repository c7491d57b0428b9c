//! Completion candidates for an experiment, a run or a cell: `iotrail __complete WORD…`, called by the shells' scripts.
//! Prints one candidate per line, followed by a tab and its description. Neither creates nor migrates a store, and
//! prints no errors, because a command line is being edited.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Command, CommandFactory};

use iotrail_base::grouped::grouped;
use iotrail_base::words::plural;
use iotrail_experiment::{builtin, studies};
use iotrail_schema::fleet_record;
use iotrail_schema::run_record::{ARM, CONTROL, value_text};
use iotrail_store::default_path;
use iotrail_store::peek::Peek;

/// First argument, used only by the scripts.
const ASKED: &str = "__complete";

/// Maximum number of runs listed, newest first.
const RUNS: usize = 50;

/// The candidates, if requested; the last word is incomplete.
pub fn asked(mut arguments: impl Iterator<Item = OsString>) -> Option<String> {
    (arguments.nth(1)? == ASKED).then(|| {
        let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
        let store = option(&words, "--store").map_or_else(|| default_path().ok(), |path| Some(PathBuf::from(path)));
        let open = || store.as_deref().and_then(Peek::open);
        let now = iotrail_host::clock::unix_s();
        of(&super::super::Cli::command(), &words, &open, now).concat()
    })
}

/// One line per candidate.
fn of(cli: &Command, words: &[String], open: &dyn Fn() -> Option<Peek>, now: u64) -> Vec<String> {
    let Some((current, [command, before @ ..])) = words.split_last() else { return Vec::new() };
    let Some(parser) = cli.find_subcommand(command) else { return Vec::new() };
    let Some(place) = positional(parser, before).filter(|_| !current.starts_with('-')) else { return Vec::new() };
    let all = match (command.as_str(), place) {
        ("run", 0) => experiments(),
        ("reproduce", 0) => studies(),
        ("report", 0) => open().map(|store| [runs(&store, now), fleets(&store)].concat()).unwrap_or_default(),
        ("report", 1) | ("export", 0) | ("fleet", 1..) => open().map(|store| runs(&store, now)).unwrap_or_default(),
        ("compare", 0 | 1) => {
            open().map(|store| [sides(&store, current, now), fleets(&store)].concat()).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    all.into_iter().filter(|(value, _)| value.starts_with(current)).map(|(v, text)| format!("{v}\t{text}\n")).collect()
}

/// Number of positional arguments before the word; `None` if the word is an option's value or follows `--`.
fn positional(command: &Command, before: &[String]) -> Option<usize> {
    let mut found = 0;
    let mut words = before.iter();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix('-') else {
            found += 1;
            continue;
        };
        let is_it = |arg: &&clap::Arg| match name.strip_prefix('-') {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|short| name == short.to_string()),
        };
        let takes_value = command.get_arguments().find(is_it).is_some_and(|arg| arg.get_action().takes_values());
        match takes_value {
            _ if word == "--" => return None,
            true => _ = words.next()?,
            false => {}
        }
    }
    Some(found)
}

fn option<'w>(words: &'w [String], name: &str) -> Option<&'w str> {
    let at = words.iter().position(|word| word == name || word.starts_with(&format!("{name}=")))?;
    match words[at].split_once('=') {
        Some((_, value)) => Some(value),
        None => words.get(at + 1).map(String::as_str),
    }
}

type Candidate = (String, String);

fn studies() -> Vec<Candidate> {
    let one = |name: &str| studies::find(name).ok().map(|study| (study.name, study.title));
    studies::names().into_iter().filter_map(one).collect()
}

fn experiments() -> Vec<Candidate> {
    let one = |(name, _): &(&str, &str)| Some(((*name).to_owned(), builtin::find(name).ok()?.title));
    builtin::ALL.iter().filter_map(one).collect()
}

fn runs(store: &Peek, now: u64) -> Vec<Candidate> {
    let runs = store.runs(RUNS).unwrap_or_default();
    let last = runs.first().map(|run| ("last".to_owned(), format!("run {}, {}", run.number, run.experiment)));
    let one = |run: &iotrail_store::peek::Run| {
        (run.number.to_string(), format!("{}, {}", run.experiment, age(now.saturating_sub(run.started_unix_s))))
    };
    runs.iter().map(one).chain(last).collect()
}

fn fleets(store: &Peek) -> Vec<Candidate> {
    let one = |fleet: &iotrail_store::peek::Fleet| {
        (fleet_record::id(fleet.number), format!("{}, {}", fleet.name, plural(fleet.machines, "machine")))
    };
    store.fleets(RUNS).unwrap_or_default().iter().map(one).collect()
}

/// Lists runs; after `12:`, the parameters of that run's cells with their values.
fn sides(store: &Peek, current: &str, now: u64) -> Vec<Candidate> {
    let Some((run, selection)) = current.split_once(':') else { return runs(store, now) };
    let number = match run {
        "last" => store.runs(1).unwrap_or_default().first().map(|run| run.number),
        number => number.parse().ok(),
    };
    let given = selection.rsplit_once(',').map_or("", |(given, _)| given);
    let taken: Vec<&str> = given.split(',').filter_map(|part| Some(part.split_once('=')?.0)).collect();
    let cells = number.and_then(|number| store.cells(number)).unwrap_or_default();
    let free = cells.iter().flatten().filter(|(axis, _)| !taken.contains(&axis.as_str()));
    let mut found = grouped(free.map(|(axis, value)| ((axis.clone(), value_text(value)), ())));
    // Lists arms first, and omits parameters with a single value, which do not distinguish cells.
    found.retain(|((axis, value), _)| axis != ARM || value != CONTROL);
    let several = |axis: &str| found.iter().filter(|((a, _), _)| a == axis).count() > 1;
    let mut told: Vec<_> = found.iter().filter(|((axis, _), _)| several(axis)).collect();
    told.sort_by_key(|((axis, _), _)| axis != ARM);
    let comma = if given.is_empty() { "" } else { "," };
    let one = |((axis, value), cells): &((String, String), Vec<()>)| {
        (format!("{run}:{given}{comma}{axis}={value}"), plural(cells.len(), "cell"))
    };
    told.into_iter().map(one).collect()
}

/// `3 min ago`.
fn age(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s ago"),
        120..=7199 => format!("{} min ago", seconds / 60),
        7200..=172_799 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: &str) -> Option<usize> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let cli = super::super::super::Cli::command();
        positional(cli.find_subcommand(&words[0]).unwrap(), &words[1..])
    }

    #[test]
    fn options_and_their_values_do_not_count_as_positional_arguments() {
        assert_eq!(
            [place("report"), place("report 3"), place("report 3 -o"), place("report 3 -o x.html")],
            [Some(0), Some(1), None, Some(1)]
        );
        assert_eq!(
            [place("run --quick"), place("run --seed"), place("run --seed=3"), place("run --seed 3 coop")],
            [Some(0), None, Some(0), Some(1)]
        );
    }

    #[test]
    fn experiment_names_are_completed_without_a_store() {
        let cli = super::super::super::Cli::command();
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            let none = || -> Option<Peek> { panic!("no store is asked for") };
            of(&cli, &words, &none, 0)
        };
        let names: Vec<String> = of(&["run", "co"]).iter().map(|l| l.split('\t').next().unwrap().to_owned()).collect();
        assert_eq!(names, ["commit", "coop", "coop-worse", "copy-cost"]);
        for nothing in
            [&["run", "--se"][..], &["run", "coop", ""], &["run", "--file", "c"], &["bench", ""], &["no-such", ""], &[]]
        {
            assert_eq!(of(nothing), [""; 0], "{nothing:?}");
        }
    }

    #[test]
    fn ages_are_printed_in_one_unit() {
        assert_eq!([age(5), age(200), age(7200), age(200_000)], ["5 s ago", "3 min ago", "2 h ago", "2 days ago"]);
    }
}
