//! sbatch options that conflict with iotrail's own: a job's node, its single task, and sbatch's output.

/// Why an option is rejected, and the alternative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Its full name with dashes; a description if it is not an option.
    pub option: &'static str,
    pub why: &'static str,
    pub instead: &'static str,
}

const OWN_NODE: &str = "each job is bound to its own node";
const ONE_JOB: &str = "a job is one task of one node";
const PRINTS: &str = "iotrail reads what sbatch prints";
const OF_US: &str = "iotrail looks for jobs and results of its own user";
const NAME: &str = "specify the nodes with --nodes, or their number with --count";
const LEAVE_OUT: &str = "omit it";

/// Name, letter, minimum prefix of the name that sbatch accepts, reason, alternative.
type Row = (&'static str, Option<char>, usize, &'static str, &'static str);

const REFUSED: [Row; 18] = [
    ("--nodelist", Some('w'), 5, OWN_NODE, NAME),
    ("--nodefile", Some('F'), 5, OWN_NODE, NAME),
    ("--nodes", Some('N'), 5, OWN_NODE, NAME),
    ("--ntasks", Some('n'), 6, ONE_JOB, LEAVE_OUT),
    ("--array", Some('a'), 2, ONE_JOB, LEAVE_OUT),
    ("--oversubscribe", Some('s'), 5, "a job has its node to itself", LEAVE_OUT),
    ("--share", None, 2, "a job has its node to itself", LEAVE_OUT),
    ("--wrap", None, 2, "the script is iotrail's", LEAVE_OUT),
    ("--parsable", None, 3, PRINTS, LEAVE_OUT),
    ("--quiet", Some('Q'), 3, PRINTS, LEAVE_OUT),
    ("--verbose", Some('v'), 1, PRINTS, LEAVE_OUT),
    ("--test-only", None, 2, "nothing would run", LEAVE_OUT),
    ("--wait", Some('W'), 4, "iotrail waits itself, or leaves with --detach", LEAVE_OUT),
    ("--uid", None, 2, OF_US, "start iotrail as that user"),
    ("--gid", None, 2, OF_US, "start iotrail with that group (newgrp)"),
    ("--help", Some('h'), 2, PRINTS, LEAVE_OUT),
    ("--usage", None, 3, PRINTS, LEAVE_OUT),
    ("--version", Some('V'), 5, PRINTS, LEAVE_OUT),
];

/// Flags: options without a value, or with a value only after `=`.
const FLAGS: [&str; 24] = [
    "contiguous",
    "exclusive",
    "get-user-env",
    "help",
    "hold",
    "ignore-pbs",
    "nice",
    "no-kill",
    "no-requeue",
    "overcommit",
    "oversubscribe",
    "parsable",
    "propagate",
    "quiet",
    "reboot",
    "requeue",
    "share",
    "spread-job",
    "test-only",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
    "wait",
];

/// Letters of these flags.
const LETTERS: &str = "hHkOQsuvVW";

/// The first rejected word.
pub fn first(words: &[String]) -> Option<Refused> {
    let of = |row: &Row| Refused { option: row.0, why: row.3, instead: row.4 };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let takes_next = match word.strip_prefix("--") {
            Some("") => return Some(WORD),
            Some(long) => {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                let is = |row: &&Row| row.0[2..].starts_with(name) && name.len() >= row.2;
                if let Some(row) = REFUSED.iter().find(is) {
                    return Some(of(row));
                }
                value.is_none() && !FLAGS.iter().any(|flag| flag.starts_with(name))
            }
            None => match word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                Some(letters) => match short(letters) {
                    Ok(takes_next) => takes_next,
                    Err(row) => return Some(of(row)),
                },
                None => return Some(if word == ":" { PART } else { WORD }),
            },
        };
        if takes_next {
            words.next();
        }
    }
    None
}

const PART: Refused = Refused { option: "':'", why: ONE_JOB, instead: LEAVE_OUT };
const WORD: Refused = Refused {
    option: "a word that is not an option",
    why: "sbatch would run it as the script",
    instead: "write options as --name=value",
};

/// Parses letters after a single dash. Returns true if the next word is the last option's value.
fn short(letters: &str) -> Result<bool, &'static Row> {
    for (at, letter) in letters.char_indices() {
        if let Some(row) = REFUSED.iter().find(|row| row.1 == Some(letter)) {
            return Err(row);
        }
        if !LETTERS.contains(letter) {
            return Ok(at + letter.len_utf8() == letters.len());
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::split;

    fn of(text: &str) -> Option<&'static str> {
        first(&split(text).unwrap()).map(|refused| refused.option)
    }

    #[test]
    fn conflicting_options_are_found_in_any_spelling() {
        for (text, option) in [
            ("--nodelist=n3", "--nodelist"),
            ("--partition=a -w n3", "--nodelist"),
            ("-pa -wn3", "--nodelist"),
            ("--nodel n3", "--nodelist"),
            ("-N2", "--nodes"),
            ("--nodes=2", "--nodes"),
            ("-n 4", "--ntasks"),
            ("--array=1-3", "--array"),
            ("-a 1-3", "--array"),
            ("-HQ", "--quiet"),
            ("-Hp x -Q", "--quiet"),
            ("--wrap=true", "--wrap"),
            ("--test-only", "--test-only"),
            ("--uid=nobody", "--uid"),
            ("--time 5 --quiet", "--quiet"),
            ("-W", "--wait"),
            (": --partition=b", "':'"),
            ("--time=5 job.sh", "a word that is not an option"),
            ("--hold job.sh", "a word that is not an option"),
        ] {
            assert_eq!(of(text), Some(option), "{text}");
        }
    }

    #[test]
    fn compatible_user_options_are_accepted() {
        for text in [
            "",
            "--partition=lab --time=30 --account a --qos=high --reservation r",
            "-p lab -t 30 -A a -q high -d afterok:5",
            "--dependency=afterok:5 --begin=now+1hour --hold",
            "--comment '--wrap' --comment='-w n3' -J -Q",
            "--ntasks-per-node=1 --wait-all-nodes=1 --exclude=n5 -x n5 -C nvme --constraint=nvme",
            "--exclusive --no-requeue --mem=4G --gres=gpu:1 -H -k -O",
            "--nice --job-name x",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
