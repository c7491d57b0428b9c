//! Shell completions and manual pages, both generated from the definitions of the help.

use std::collections::BTreeSet;

use crate::help::{help, options_of};
use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("shells::bash_completes_commands_options_and_values", bash),
    ("shells::each_shell_has_a_completion_script", scripts),
    ("shells::the_manual_pages_list_all_options_of_the_help", manual),
    ("shells::the_manual_pages_have_no_formatting_errors", sound),
];

fn scripts() -> End {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = help(&["completions", shell]);
        for word in ["restore", "fail-on", "sq-cpu", "kernels"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    End::Passed
}

fn bash() -> End {
    let place = Place::new();
    place.write("c.bash", help(&["completions", "bash"]));
    for (line, expected) in [
        ("iotrail res", "restore"),
        ("iotrail bench --ri", "--ring"),
        ("iotrail bench --wait ", "block peek"),
        ("iotrail net be", "bench"),
        ("iotrail net load --connec", "--connections"),
        ("iotrail compare --fail-on s", "slower"),
    ] {
        // As called by readline: the words, the position among them, and the prefix of the word.
        let script = format!(
            "source ./c.bash; complete -p iotrail >/dev/null; line='{line}'; read -ra COMP_WORDS <<<\"$line\"; \
             [ \"${{line% }}\" = \"$line\" ] || COMP_WORDS+=(''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _iotrail iotrail \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let bash = ["/bin/bash", "/usr/bin/bash"].into_iter().map(std::path::Path::new).find(|p| p.exists());
        let Some(bash) = bash else { return End::Skipped("there is no bash".into()) };
        let ended = run(&mut place.command(bash, ["--norc", "-c", &script])).ok();
        assert_eq!((ended.stdout.trim_end(), ended.stderr.as_str()), (expected, ""), "{line}");
    }
    End::Passed
}

/// Every command with its page's name.
pub const PAGES: [&str; 31] = [
    "",
    "check",
    "bench",
    "run",
    "compare",
    "track",
    "reproduce",
    "fleet",
    "report",
    "trace",
    "try",
    "replay",
    "advise",
    "advise net",
    "top",
    "monitor",
    "stalls",
    "net",
    "net serve",
    "net load",
    "net bench",
    "lab",
    "lab run",
    "lab kernels",
    "lab fetch",
    "list",
    "restore",
    "explain",
    "export",
    "completions",
    "man",
];

fn manual() -> End {
    let place = Place::new();
    run(&mut place.tool(["man", "pages/man1"])).ok();
    // Run again: iotrail's pages are replaced, and without --force other files are kept.
    run(&mut place.tool(["man", "pages/man1"])).ok();
    std::fs::write(place.join("pages/man1/iotrail-top.1"), "mine").expect("it is ours");
    let kept = run(&mut place.tool(["man", "pages/man1"]));
    assert_eq!((kept.status, kept.stdout.as_str()), (2, ""), "{}", kept.stderr);
    assert_eq!(std::fs::read(place.join("pages/man1/iotrail-top.1")).expect("kept"), b"mine");
    run(&mut place.tool(["man", "pages/man1", "--force"])).ok();
    let written = std::fs::read_dir(place.join("pages/man1")).expect("the folder that was named").count();
    assert_eq!(written, PAGES.len());
    for command in PAGES {
        let words = || command.split(' ').filter(|w| !w.is_empty());
        let file = words().fold("iotrail".to_owned(), |name, word| format!("{name}-{word}"));
        let page = std::fs::read_to_string(place.join(&format!("pages/man1/{file}.1"))).expect("its page");
        let page = page.replace("\\-", "-");
        let text = help(&words().chain(["--help"]).collect::<Vec<_>>());
        let options: BTreeSet<&str> = options_of(&text);
        assert!(options.contains("--help"));
        for option in options {
            assert!(page.contains(option), "{file}: {option}");
        }
    }
    End::Passed
}

fn sound() -> End {
    let place = Place::new();
    run(&mut place.tool(["man", "."])).ok();
    let groff = std::path::Path::new("/usr/bin/groff");
    if !groff.exists() {
        return End::Skipped("there is no groff".into());
    }
    for page in place.contents().into_keys() {
        let mut command = place.command(groff, ["-k", "-man", "-Tutf8", "-ww", "-rLL=80n"]);
        let ended = run(command.arg(&page)).ok();
        assert_eq!(ended.stderr, "", "{}", page.display());
        let version = concat!("iotrail ", env!("CARGO_PKG_VERSION"));
        assert!(
            ended.stdout.trim_end().lines().next_back().is_some_and(|l| l.starts_with(version)),
            "{}",
            page.display()
        );
    }
    End::Passed
}
