//! sbatch options that determine a job's queue, account and time limit, which a later fetch needs too.

use super::command::ask;

/// An option's name, its letter, and the shortest prefix of the name that sbatch accepts.
const OPTIONS: [(&str, Option<char>, usize); 5] = [
    ("partition", Some('p'), 4),
    ("account", Some('A'), 4),
    ("qos", Some('q'), 2),
    ("reservation", None, 3),
    (TIME, Some('t'), 4),
];

const TIME: &str = "time";

/// In srun's format, from the environment and from sbatch options; the latter take precedence.
pub fn options(more: &[String], variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let given = |(name, ..): &(&str, _, _)| {
        let named =
            if *name == TIME { "SBATCH_TIMELIMIT".to_owned() } else { format!("SBATCH_{}", name.to_uppercase()) };
        variable(&named).map(|value| format!("--{name}={value}"))
    };
    let mut found: Vec<String> = OPTIONS.iter().filter_map(given).collect();
    let mut words = more.iter();
    while let Some(word) = words.next() {
        if let Some((name, value)) = option(word) {
            let value = value.map(str::to_owned).or_else(|| words.next().cloned());
            found.extend(value.map(|value| format!("--{name}={value}")));
        }
    }
    found
}

/// The options that determine the queue.
pub fn places(options: &[String]) -> impl Iterator<Item = &String> {
    options.iter().filter(|option| !option.starts_with("--time="))
}

/// Maximum duration of a fetch, in minutes.
const MINUTES: u32 = 10;

/// Time limit of a fetching job, which is at most that of the partition and that of the job itself.
pub fn minutes(options: &[String]) -> u32 {
    let partition = options.iter().rev().find(|option| option.starts_with("--partition="));
    // A specified partition may be hidden, too; sinfo accepts only one of the two options.
    let of = partition.map_or("--all", String::as_str);
    let granted =
        ask("sinfo", ["--noheader", "--format=%P|%l", of]).ok().and_then(|text| granted(&text, partition.is_none()));
    least(options, granted)
}

fn least(options: &[String], granted: Option<u32>) -> u32 {
    let own = options.iter().rev().find_map(|option| minutes_of(option.strip_prefix("--time=")?));
    [granted, own].into_iter().flatten().fold(MINUTES, u32::min).max(1)
}

/// The shortest time limit of these partitions (`all*|infinite`); `usual`: of the default partition. `None` if they
/// have no limit.
fn granted(text: &str, usual: bool) -> Option<u32> {
    let limit = |line: &str| {
        let (name, limit) = line.trim().split_once('|')?;
        if usual && !name.ends_with('*') { None } else { minutes_of(limit) }
    };
    text.lines().filter_map(limit).min()
}

/// An sbatch time in full minutes: `90`, `90:00`, `1:30:00`, `1-0`, `1-0:00`, `1-0:00:00`; `None` if invalid or
/// unlimited.
fn minutes_of(text: &str) -> Option<u32> {
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let fields: Vec<u32> = rest.split(':').map(|field| field.trim().parse().ok()).collect::<Option<_>>()?;
    let hours = days.map_or(Some(0), |days| days.trim().parse::<u32>().ok()?.checked_mul(24))?;
    let (more, minutes) = match (days.is_some(), &fields[..]) {
        (true, [h]) => (*h, 0),
        (true, [h, m] | [h, m, _]) | (false, [h, m, _]) => (*h, *m),
        (false, [m] | [m, _]) => (0, *m),
        _ => return None,
    };
    hours.checked_add(more)?.checked_mul(60)?.checked_add(minutes)
}

/// Slurm's reason why a job that fetches from this node has not started.
pub fn why_not(name: &str, node: &str) -> Option<String> {
    let user = format!("--user={}", rustix::process::geteuid().as_raw());
    let text =
        ask("squeue", ["--noheader", "--all", &user, &format!("--name={name}"), "--states=PENDING", "--format=%n|%r"]);
    let text = text.ok()?;
    let found = text.lines().filter_map(|line| line.trim().split_once('|')).find(|(wanted, _)| *wanted == node);
    found.map(|(_, reason)| reason.to_owned())
}

/// The options that remain valid after a reservation has ended.
pub fn without_reservation(options: &[String]) -> Vec<String> {
    options.iter().filter(|option| !option.starts_with("--reservation=")).cloned().collect()
}

/// The option in a word. If its value is `None`, the next word is the value.
fn option(word: &str) -> Option<(&'static str, Option<&str>)> {
    if let Some(long) = word.strip_prefix("--") {
        let (begins, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let (name, ..) = OPTIONS.iter().find(|(name, _, least)| name.starts_with(begins) && begins.len() >= *least)?;
        return Some((name, value));
    }
    let mut short = word.strip_prefix('-')?.chars();
    let letter = short.next()?;
    let (name, ..) = OPTIONS.iter().find(|(_, l, _)| *l == Some(letter))?;
    Some((name, Some(short.as_str()).filter(|value| !value.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(more: &[&str]) -> Vec<String> {
        options(&more.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>(), &|_| None)
    }

    #[test]
    fn job_options_are_found_in_any_spelling() {
        for more in [&["--partition=a"][..], &["--partition", "a"], &["-pa"], &["-p", "a"], &["--part=a"]] {
            assert_eq!(of(more), ["--partition=a"], "{more:?}");
        }
        let more =
            ["--time=30", "-A", "me", "--comment=p", "--qos=high", "--reservation=r", "-t", "3", "--par=x", "-p"];
        let found = of(&more);
        assert_eq!(found, ["--time=30", "--account=me", "--qos=high", "--reservation=r", "--time=3"]);
        assert_eq!(without_reservation(&found), ["--time=30", "--account=me", "--qos=high", "--time=3"]);
        assert_eq!(places(&found).collect::<Vec<_>>(), ["--account=me", "--qos=high", "--reservation=r"]);
        assert_eq!((least(&found, None), least(&found, Some(2)), least(&[], None)), (3, 2, 10));
        assert_eq!(of(&[]), [""; 0]);
    }

    #[test]
    fn command_line_options_follow_those_of_the_environment() {
        let variable = |name: &str| (name == "SBATCH_PARTITION").then(|| "b".to_owned());
        assert_eq!(options(&["-pa".to_owned()], &variable), ["--partition=b", "--partition=a"]);
    }

    #[test]
    fn time_limits_are_parsed_in_all_slurm_formats() {
        for (text, minutes) in [
            ("90", Some(90)),
            ("5:00", Some(5)),
            ("0:30", Some(0)),
            ("1:30:00", Some(90)),
            ("1-0", Some(1440)),
            ("1-01:02", Some(1502)),
            ("1-01:02:03", Some(1502)),
            ("infinite", None),
            ("UNLIMITED", None),
            ("", None),
        ] {
            assert_eq!(minutes_of(text), minutes, "{text}");
        }
        let sinfo = "all*|infinite\nshort|5:00\nlong|1-00:00:00\n";
        assert_eq!(
            (granted(sinfo, true), granted(sinfo, false), granted("short|0:30\n", false)),
            (None, Some(5), Some(0))
        );
        assert_eq!(least(&["--time=0:30".to_owned()], None), 1);
    }
}
