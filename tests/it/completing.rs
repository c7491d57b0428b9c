//! Shell completions that query iotrail (experiments, stored runs, their cells), in each installed shell.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::help::help;
use crate::run::experiment;
use crate::tool::{BINARY, Place, file, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("completing::runs_are_listed_newest_first_with_their_description", candidates),
    ("completing::completion_without_a_usable_store_prints_and_changes_nothing", nothing_done),
    ("completing::bash_inserts_the_text_after_the_last_word_break", bash),
    ("completing::zsh_describes_the_candidates", zsh),
    ("completing::fish_keeps_the_order_of_the_candidates", fish),
];

/// Two runs of an experiment with the parameter `depth` and two arms, in the user's store.
fn with_runs() -> Place {
    let place = Place::new();
    experiment(&place, "count = 8");
    for _ in 0..2 {
        run(place.tool(["run", "e.toml", "--quick", "--file"]).arg(file())).ok();
    }
    // As a user calls it.
    std::fs::create_dir(place.join("bin")).expect("our own folder");
    std::os::unix::fs::symlink(BINARY, place.join("bin/iotrail")).expect("our own folder");
    place
}

fn store(place: &Place) -> PathBuf {
    place.join("home/.local/state/iotrail/iotrail.db")
}

/// Only the values.
fn values(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect()
}

fn asked(place: &Place, words: &[&str]) -> String {
    let ended = run(place.tool(["__complete"]).args(words)).ok();
    assert_eq!(ended.stderr, "", "{words:?}");
    ended.stdout
}

fn candidates() -> End {
    let place = with_runs();
    let text = asked(&place, &["report", ""]);
    assert_eq!(values(&text), ["2", "1", "last"]);
    let name = Connection::open(store(&place))
        .and_then(|db| db.query_row("SELECT experiment FROM runs WHERE run = 2", [], |row| row.get::<_, String>(0)));
    let name = name.expect("it is stored");
    let newest = text.lines().next().expect("a line");
    assert!(newest.starts_with(&format!("2\t{name}, ")) && newest.ends_with(" s ago"), "{newest}");
    for (words, expected) in [
        (&["report", "l"][..], &["last"][..]),
        (&["export", ""], &["2", "1", "last"]),
        (&["compare", "1", "2"], &["2"]),
        (&["report", "1", "-o"], &[]),
        (&["report", "--store", "no-such.db", ""], &[]),
        (&["run", "coo"], &["coop", "coop-worse"]),
        (&["trace", ""], &[]),
    ] {
        assert_eq!(values(&asked(&place, words)), expected, "{words:?}");
    }
    let cells = asked(&place, &["compare", "2:"]);
    let arms: Vec<&str> = values(&cells).into_iter().filter(|v| v.starts_with("2:arm=")).collect();
    assert!(arms.len() == 2 && !cells.contains("control"), "{cells}");
    let of_last = asked(&place, &["compare", "2:arm=x", &format!("last:{},", &arms[0][2..])]);
    assert!(values(&of_last).iter().all(|v| v.starts_with("last:arm=") && v.matches("arm=").count() == 1), "{of_last}");
    End::Passed
}

fn nothing_done() -> End {
    let place = Place::new();
    assert_eq!(asked(&place, &["report", ""]), "");
    assert_eq!(place.contents().len(), 0, "no store is made");
    // A different version, a different program's database, a damaged store, an unreadable store: unmodified, and
    // without a message.
    let path = store(&place);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("our own folder");
    let used = with_runs();
    std::fs::copy(store(&used), &path).expect("room");
    Connection::open(&path).and_then(|db| db.pragma_update(None, "user_version", 1)).expect("our own file");
    let before = std::fs::read(&path).expect("our own file");
    assert_eq!(values(&asked(&place, &["report", ""])), ["2", "1", "last"], "an old one is read");
    assert_eq!(std::fs::read(&path).expect("our own file"), before, "and not brought to this version");
    for wrong in ["", "SQLite format 3\0 and nothing else", "not a store"] {
        std::fs::write(&path, wrong).expect("our own file");
        assert_eq!(asked(&place, &["report", ""]), "", "{wrong:?}");
    }
    std::fs::write(&path, &before[..before.len() / 2]).expect("our own file");
    run(&mut place.tool(["__complete", "report", ""])).ok();
    End::Passed
}

fn shell(name: &str) -> Option<PathBuf> {
    ["/bin", "/usr/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}

fn path(place: &Place) -> String {
    format!("{}:/usr/bin:/bin", place.join("bin").display())
}

fn bash() -> End {
    let Some(bash) = shell("bash") else { return End::Skipped("there is no bash".into()) };
    let place = with_runs();
    place.write("c.bash", help(&["completions", "bash"]));
    for (line, words, expected) in [
        ("iotrail report ", &["iotrail", "report", ""][..], "2  (*, 1  (*, last  (*"),
        ("iotrail report la", &["iotrail", "report", "la"], "last"),
        ("iotrail compare 2:arm=", &["iotrail", "compare", "2", ":", "arm", "="], "*, *"),
        ("iotrail run coop-", &["iotrail", "run", "coop-"], "coop-worse"),
        ("iotrail report --fu", &["iotrail", "report", "--fu"], "--full"),
    ] {
        let list: Vec<String> = words.iter().map(|w| format!("'{w}'")).collect();
        // As called by readline: the line, and its words as split by bash.
        let script = format!(
            "source ./c.bash; complete -p iotrail | grep -q _iotrail_and_candidates || exit 9; COMP_LINE='{line}'; \
             COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9; COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _iotrail_and_candidates iotrail \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            list.join(" ")
        );
        let ended = run(place.command(&bash, ["--norc", "-c", &script]).env("PATH", path(&place))).ok();
        assert_eq!(ended.stderr, "", "{line}");
        let found: Vec<&str> = ended.stdout.lines().collect();
        let expected: Vec<&str> = expected.split(", ").collect();
        assert_eq!(found.len(), expected.len(), "{line}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected.trim_end_matches('*')), "{line}: {found} for {expected}");
            assert!(!found.starts_with("2:"), "{line}: {found} repeats what is in the line");
        }
    }
    End::Passed
}

fn zsh() -> End {
    let Some(zsh) = shell("zsh") else { return End::Skipped("there is no zsh".into()) };
    let place = with_runs();
    let text = help(&["completions", "zsh"]);
    assert_eq!(text.matches("funcstack").count(), 1, "it begins in one place");
    place.write("_iotrail", text);
    // The arguments of `compadd` are the candidates that zsh would show.
    let script = "autoload -U compinit; compinit -D -u; source ./_iotrail; compadd() { print -rl \"${(@P)5}\" }; \
                  [[ $_comps[iotrail] == _iotrail_and_candidates ]] || exit 9; words=(iotrail \"${(@s: :)LINE}\"); \
                  CURRENT=$#words; _iotrail_and_candidates";
    for (line, expected) in [
        ("report ", &["2  ", "1  ", "last  "][..]),
        ("run coop-", &["coop-worse                   -- When COOP_TASKRUN makes completions late"]),
        ("compare 2:arm=", &["2:arm=", "2:arm="]),
    ] {
        let ended = run(place.command(&zsh, ["-f", "-c", script]).env("PATH", path(&place)).env("LINE", line)).ok();
        assert_eq!(ended.stderr, "", "{line}");
        let found: Vec<&str> = ended.stdout.lines().collect();
        assert_eq!(found.len(), expected.len(), "{line}: {found:?}");
        assert!(found.iter().zip(expected).all(|(found, e)| found.starts_with(e)), "{line}: {found:?}");
    }
    End::Passed
}

fn fish() -> End {
    let Some(fish) = shell("fish") else { return End::Skipped("there is no fish".into()) };
    let place = with_runs();
    place.write("c.fish", help(&["completions", "fish"]));
    for (line, expected) in [
        ("iotrail report ", &["2", "1", "last"][..]),
        ("iotrail run coop-", &["coop-worse"]),
        ("iotrail report --fu", &["--full"]),
    ] {
        let script = format!("source ./c.fish; complete -C '{line}'");
        let ended = run(place.command(&fish, ["--no-config", "-c", &script]).env("PATH", path(&place))).ok();
        assert_eq!(ended.stderr, "", "{line}");
        let found = values(&ended.stdout);
        assert!(expected.iter().all(|e| found.contains(e)), "{line}: {found:?}");
        let places: Vec<Option<usize>> = expected.iter().map(|e| found.iter().position(|f| f == e)).collect();
        assert!(places.is_sorted(), "{line}: {found:?}");
    }
    End::Passed
}
