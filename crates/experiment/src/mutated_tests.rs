//! Ten thousand randomly mutated built-in experiments are planned or rejected with a position, without a panic.

use super::builtin;
use super::file::parse;
use super::plan::{Facts, Target, plan, target_use};
use iotrail_base::error::Kind;
use iotrail_base::units::Bytes;
use iotrail_schema::measurement::{self, TargetInterrupt};
use iotrail_stats::random::SplitMix64;

/// Text that a typing error or an attacker might insert.
const WORDS: &[&str] = &[
    "",
    " ",
    "\n",
    "=",
    "[",
    "]",
    "[[arm]]\n",
    "[matrix]\n",
    "[host]\n",
    "[stop]\n",
    "[quick.stop]\n",
    "[[expectation]]\n",
    "{}",
    "[]",
    "\"",
    "'",
    "#",
    "\u{0}",
    "\u{202e}",
    "é",
    "0",
    "-1",
    "1e999",
    "nan",
    "18446744073709551616",
    "9223372036854775807",
    "0.5",
    "true",
    "\"\"",
    "\"4k\"",
    "\"5s\"",
    "\"1000000h\"",
    "\"99999999999t\"",
    "depth",
    "bs",
    "ring",
    "repeats",
    "within = 0.1\n",
    "at-least = 3\n",
    "budget = \"1m\"\n",
    "metrics = [\"iops\"]\n",
    "metrics = [\"x\"]\n",
    "control = false\n",
    "compare = \"depth\"\n",
    "fio = \"/dev/null\"\n",
    "fio = \"none.fio\"\n",
    "scheduler = \"none\"\n",
    "nr-requests = 0\n",
    "cpu-quota = -1\n",
    "jobs = 100000\n",
    "depth = 4294967295\n",
    "batch = 0\n",
    "engine = \"null\"\n",
    "engine = \"io_uring_cmd\"\n",
    "rw = \"nop\"\n",
    "count = 0\n",
    "runtime = \"0\"\n",
    "rate = -1.0\n",
    "rate = inf\n",
    "size = \"0\"\n",
    "bs = 0\n",
    "bs = 3\n",
    "verify = true\n",
    "wait = \"peek\"\n",
    "cpus = \"irq\"\n",
    "cpus = \"0-99999\"\n",
    "neighbour = \"busy:65\"\n",
    "reaper = \"thread:4095\"\n",
    "buffered = true\n",
    "follow = 0\n",
    "kind = \"net\"\n",
    "table = \"order\"\n",
    "engine = \"epoll\"\n",
    "connections = 0\n",
    "window = 4294967295\n",
    "server-cpus = \"0-9999\"\n",
    "between = \"unix\"\n",
    "burst = 0\n",
    "ring = \"sqpoll,iopoll\"\n",
    "think = 9999999999999\n",
];

fn mutate(text: &str, random: &mut SplitMix64) -> String {
    let mut text = text.to_owned();
    for _ in 0..=random.below(3) {
        let places: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
        let mut place = || places[random.below(places.len() as u64) as usize];
        let (a, b) = (place(), place());
        let (from, to) = (a.min(b), a.max(b).min(a.min(b) + 40));
        let to = (to..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
        let word = WORDS[random.below(WORDS.len() as u64) as usize];
        match random.below(6) {
            0 => text.replace_range(from..to, ""),
            1 => text.replace_range(from..from, word),
            2 => text.truncate(from),
            3 => {
                let piece = text[from..to].to_owned();
                text.insert_str(from, &piece);
            }
            // Replaces a line by another line or a word.
            kind => {
                let lines: Vec<&str> = text.lines().collect();
                let line = |random: &mut SplitMix64| random.below(lines.len().max(1) as u64) as usize;
                let (one, other) = (line(random), line(random));
                let put = if kind == 4 { lines.get(other).copied().unwrap_or_default() } else { word };
                let changed = |(i, l): (usize, &&str)| if i == one { put.to_owned() } else { (*l).to_owned() };
                text = lines.iter().enumerate().map(changed).collect::<Vec<_>>().join("\n");
            }
        }
    }
    text
}

#[test]
fn each_mutated_experiment_is_rejected_with_a_position_or_planned() {
    let target =
        Target { path: Some("/data/scratch-1g".into()), size: Some(Bytes(1 << 30)), scratch: true, allow_write: false };
    let interrupt = TargetInterrupt { irq: 36, name: "virtio1-req.0".into(), cpus: vec![1] };
    let disk = measurement::Target { interrupts: vec![interrupt], ..Default::default() };
    let facts = Facts { online_cpus: vec![0, 1], may_watch: false, below: &|_| Some(disk.clone()) };
    let mut random = SplitMix64::new(2026);
    let (mut refused, mut combinations, mut planned) = (0, 0, 0);
    for i in 0..10_000 {
        let text = mutate(builtin::ALL[i % builtin::ALL.len()].1, &mut random);
        let outcome = parse(&text, "x.toml").and_then(|experiment| {
            let quick = experiment.quick.is_some() && i % 2 == 0;
            let scale = experiment.quick.as_ref().filter(|_| quick).unwrap_or(&experiment.full);
            target_use(experiment.kind, scale)?;
            plan(&experiment, quick, &target, &facts, &|_, _| None)
        });
        match outcome {
            Ok(plan) => {
                assert!(!plan.cells.is_empty() && plan.repeats > 0);
                planned += 1;
            }
            Err(e) => {
                let said = e.to_string();
                let mut place = said.strip_prefix("x.toml:").expect(&said).split(':');
                assert!(place.by_ref().take(2).all(|n| n.parse::<usize>().is_ok_and(|n| n > 0)), "{said}\n{text}");
                assert_eq!(e.kind, Kind::Input, "{said}");
                assert!(!said.contains('\n'), "{said}");
                refused += 1;
                combinations += usize::from(said.contains("the combination "));
            }
        }
    }
    // All three results occur often.
    assert!(refused > 1000 && planned > 1000 && combinations > 20, "{refused} {planned} {combinations}");
}
