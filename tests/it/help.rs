//! Help lists exactly the existing commands and options.

use std::collections::BTreeSet;
use std::path::Path;

use regex_lite::Regex;

use crate::shells::PAGES;
use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("help::help_lists_all_commands", commands),
    ("help::each_command_lists_its_options", options),
    ("help::the_version_matches_the_package", version),
    ("help::help_uses_kernel_terms", words),
    ("help::rejected_terms_and_long_sentences_stay_within_their_limits", terms),
    ("help::setcap_is_advised_only_for_a_group", setcap),
];

pub fn help(args: &[&str]) -> String {
    let ended = run(&mut Place::new().tool(args)).ok();
    assert_eq!(ended.stderr, "");
    ended.stdout
}

/// The long options at the start of a help text's lines.
pub fn options_of(text: &str) -> BTreeSet<&str> {
    // More deeply indented lines are descriptions.
    let lines =
        text.lines().filter(|l| l.len() - l.trim_start().len() <= 6).map(str::trim).filter(|l| l.starts_with('-'));
    lines.filter_map(|l| l.split_whitespace().find(|w| w.starts_with("--"))).collect()
}

fn commands() -> End {
    let text = help(&["--help"]);
    let listed: Vec<&str> = text
        .lines()
        .skip_while(|l| *l != "Commands:")
        .skip(1)
        .take_while(|l| !l.is_empty())
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    let commands = PAGES.into_iter().filter(|page| !page.is_empty() && !page.contains(' ')).chain(["help"]);
    assert_eq!(listed, commands.collect::<Vec<_>>());
    for command in listed {
        assert!(help(&["help", command]).contains(&format!("Usage: iotrail {command}")), "help {command}");
    }
    // Without arguments, it prints the usage as an error instead of a result.
    let ended = run(&mut Place::new().tool([""; 0]));
    assert_eq!((ended.status, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("Usage: iotrail <COMMAND>"));
    End::Passed
}

fn options() -> End {
    let of_bench = "--allow-write --batch --bs --buffered --commit --count --cpus --depth --direct --engine --file --flamegraph \
                    --folded --follow --force --force-async --full --help --jobs --json --min-wait --neighbour --no-iowait --profile --profile-by \
                    --profile-hz --rate --reaper --register --repeats --ring --runtime --rw --scratch --seed --size \
                    --sq-cpu --sq-idle --stacks --store --think --trace --verify --wait --warmup";
    for (command, expected) in [
        ("bench", of_bench),
        ("check", "--file --help --json --verbose"),
        ("compare", "--equivalent-within --fail-on --full --help --json --metric --store"),
        ("list", "--help --json --salvage --store"),
        ("track", "--at --at-least --fail-on --force --from --full --help --json --metric --output --store"),
        ("reproduce", "--file --full --help --json --only --quick --repeats --size --store --stored"),
        ("fleet", "--force --full --help --json --output --store"),
        ("report", "--force --full --help --hist --hist-by --json --output --store"),
        ("restore", "--force --help --json"),
        ("explain", "--by --failed --help --json --opcode --ring --slowest --store"),
        (
            "export",
            "--csv --fio --folded --force --hdr --help --iolog --json --parquet --perfetto --pprof --store --table --value",
        ),
        (
            "replay",
            "--accel --allow-write --batch --depth --engine --full --help --json --kernels --map --once --register --repeats --requests --ring --rings --seed --speed --trace",
        ),
        ("completions", "--help"),
        ("man", "--force --help"),
        (
            "trace",
            "--all --anonymise --call-sites --cost --duration --exact --expect --expect-runs --expect-save --fail-on --flamegraph --folded --for-replay --force --full --help --hist --hist-by --json --junit --light-after --metrics --no-store --one-in --pid --profile \
                   --profile-by --profile-hz --record --redact --slowest --stacks --store --until --windows",
        ),
        (
            "try",
            "--arm --attach --check --cleanup --constraint --count --cpus --cpus-arm --cq-entries --detach --env --env-arm --fail-on --full --help --json \
                   --leave-running --lost-after --metric --metric-file --nodes --plan --prepare --ready --repeats --ring --save --sbatch --seed --server \
                   --shared --ship --slurm --sq-cpu --sq-idle --stall --store --watch",
        ),
        (
            "advise",
            "--allow-write --batch --bs --budget --buffered --check --cleanup --commit --constraint --count --cpus --depth --direct --engine --file \
                   --force-async --full --help --host-settings --jobs --json --map --metric --min-wait --neighbour --no-iowait --objective --plan --prepare --rate --ready --reaper --register \
                   --replay --resume --ring --runtime --rw --save --scratch --seed --server --size --sq-cpu --sq-idle --store --think --verify --wait --warmup",
        ),
        (
            "advise net",
            "--accept --between --budget --buffer-size --buffers --burst --check --connections --constraint --count --engine --full --give-up --help \
                   --idle-connections --json --min-wait --napi --no-iowait --objective --plan --rate --receive --reconnect --reconnect-after --register --request --response \
                   --resume --ring --runtime --save --sender-cpus --sender-threads --server-cpus --server-threads --sq-cpu --sq-idle --store \
                   --trigger --wait-for --wait-timeout --warmup --window --zero-copy",
        ),
        ("top", "--all --count --help --interval --json --one-in --pid"),
        (
            "monitor",
            "--all --cgroup --cpu-budget --dir --for --help --memory-budget --metrics --pid --punts --store --threshold --trace --unit --when --windows",
        ),
        ("stalls", "--dir --full --help --json --store"),
        (
            "net serve",
            "--accept --buffer-size --buffers --control --duration --engine --follow --help --json --min-wait --napi --no-iowait --receive --register --ring \
                   --server-cpus --server-threads --sq-cpu --sq-idle --trace --trigger --wait-for --wait-timeout --zero-copy",
        ),
        (
            "net load",
            "--burst --check --connections --control --count --full --give-up --help --idle-connections --json --rate --reconnect --reconnect-after \
                   --request --response --runtime --seed --sender-cpus --sender-threads --store --warmup --window",
        ),
        (
            "net bench",
            "--accept --attach --between --buffer-size --buffers --burst --check --connections --constraint --count --detach --engine --follow \
                   --full --give-up --help --idle-connections --json --lost-after --min-wait --napi --no-iowait --nodes --plan --quick --rate --receive --reconnect \
                   --reconnect-after --register --repeats --request --response --ring --runtime --sbatch --seed --sender-cpus --sender-threads \
                   --server-address --server-cpus --server-threads --shared --ship --slurm --sq-cpu --sq-idle --store --trace --trigger --wait-for \
                   --wait-timeout --warmup --window --zero-copy",
        ),
        (
            "lab run",
            "--accel --append --arch --artifacts --cache --cpus --force --help --kernel --memory --modules --nvme --program --root --sockets \
                   --store --timeout",
        ),
        ("lab kernels", "--arch --cache --help --json"),
        ("lab fetch", "--arch --cache --help"),
        (
            "run",
            "--accel --allow-write --attach --cache --constraint --count --cpus --detach --fail-on-unmet --file --full --help --json --kernels --lost-after \
             --memory --nodes --nvme --plan --quick --repeats --resume --rounds --sbatch --seed --shared --ship --size --slurm --store --timeout",
        ),
    ] {
        let with = |option| command.split(' ').chain([option]).collect::<Vec<_>>();
        let text = help(&with("--help"));
        let listed = options_of(&text);
        assert_eq!(listed.into_iter().collect::<Vec<_>>().join(" "), expected, "{command}");
        // The short form exists, too.
        assert!(help(&with("-h")).contains(&format!("Usage: iotrail {command}")));
    }
    End::Passed
}

/// Terms that the glossary replaced, which no manual page may contain.
const AVOIDED: [&str; 9] =
    ["carried by", "carrier", "remedy", "lateness", "in so many whole", "at least so many", "simply", "please", "!"];

fn words() -> End {
    for page in PAGES {
        let text =
            help(&page.split(' ').filter(|w| !w.is_empty()).chain(["--help"]).collect::<Vec<_>>()).to_lowercase();
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let found: Vec<&&str> = AVOIDED.iter().filter(|word| flat.contains(**word)).collect();
        assert!(found.is_empty(), "{page}: {found:?}");
    }
    End::Passed
}

/// Maximum number of rejected terms in all help texts (8 and 2 on 28 November 2026). Lower the limits with each
/// rewrite.
const REJECTED_TERMS: usize = 8;
const LONG_SENTENCES: usize = 2;

/// Maximum number of words per sentence, as in `styles/iotrail/SentenceLength.yml`.
const WORDS: usize = 25;

/// `make prose` applies the same list to the documents if Vale is installed.
fn terms() -> End {
    let rules = include_str!("../../styles/iotrail/Terms.yml").lines().filter_map(|l| l.trim().strip_prefix('\''));
    let rules: Vec<(Regex, &str)> = rules
        .filter_map(|l| l.split_once("': "))
        .map(|(pattern, term)| (Regex::new(&format!("(?i){pattern}")).expect("a pattern"), term))
        .collect();
    assert!(rules.len() > 20, "{}", rules.len());
    let (mut rejected, mut long) = (BTreeSet::new(), BTreeSet::new());
    for page in PAGES {
        let text = help(&page.split(' ').filter(|w| !w.is_empty()).chain(["--help"]).collect::<Vec<_>>());
        for paragraph in paragraphs(&text) {
            for (rule, term) in &rules {
                rejected.extend(rule.find(&paragraph).map(|m| format!("'{}' is {term}: {paragraph}", m.as_str())));
            }
            let sentences = paragraph.split(['.', ';', ':', '(']).filter(|s| s.split_whitespace().count() > WORDS);
            long.extend(sentences.map(str::to_owned));
        }
    }
    assert!(rejected.len() <= REJECTED_TERMS, "{} terms:\n{}", rejected.len(), join(&rejected));
    assert!(long.len() <= LONG_SENTENCES, "{} sentences over {WORDS} words:\n{}", long.len(), join(&long));
    End::Passed
}

fn join(lines: &BTreeSet<String>) -> String {
    lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// Descriptions and list lines, without options, value lists, usage and examples.
fn paragraphs(text: &str) -> Vec<String> {
    let text = Regex::new(r"\[[^\]]*\]").expect("a pattern").replace_all(text, "");
    let mut all = vec![String::new()];
    for words in text.lines().map(str::trim) {
        let is_left_out = ["--", "-h", "Usage:", "iotrail "].iter().any(|begin| words.starts_with(begin));
        if is_left_out || words.is_empty() || words.contains("  ") || words.starts_with('-') {
            all.push(String::new());
        }
        if !is_left_out && !Regex::new("^-[a-zA-Z],").expect("a pattern").is_match(words) {
            *all.last_mut().expect("never empty") += &format!("{words} ");
        }
    }
    all
}

fn version() -> End {
    assert_eq!(help(&["--version"]), format!("iotrail {}\n", env!("CARGO_PKG_VERSION")));
    End::Passed
}

/// With file capabilities and execute permission for all users, every user could trace root's processes.
fn setcap() -> End {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut left = ["README.md", "docs", "packaging", "src", "crates"].map(|name| root.join(name)).to_vec();
    let mut advised = 0;
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for (at, _) in text.match_indices("setcap ").chain(text.match_indices("(setcap)")) {
            let around = &text.as_bytes()[at.saturating_sub(400)..text.len().min(at + 400)];
            let around = String::from_utf8_lossy(around);
            assert!(around.contains("0750") && around.contains("root's included"), "{}: {around}", path.display());
            advised += 1;
        }
    }
    assert!(advised >= 3, "{advised}");
    End::Passed
}
