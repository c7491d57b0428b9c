use clap::Parser as _;

use super::*;
use crate::cli::Cli;

/// Each command with its page.
fn each(look: &mut dyn FnMut(&str, &Command, &str)) {
    let pages = pages().unwrap();
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut open = vec![&root];
    while let Some(command) = open.pop() {
        let (_, page) = pages.iter().find(|(file, _)| file.strip_suffix(".1") == Some(name(command))).unwrap();
        look(name(command), command, &String::from_utf8(page.clone()).unwrap());
        open.extend(command.get_subcommands().filter(|c| !c.is_hide_set()));
    }
}

#[test]
fn each_command_has_a_manual_page_with_all_options_and_sections() {
    let names: Vec<String> = pages().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!((names[0].as_str(), names.len()), ("iotrail.1", 31));
    assert!(
        names.contains(&"iotrail-net-serve.1".into()) && !names.contains(&"iotrail-lab-guest.1".into()),
        "{names:?}"
    );
    each(&mut |name, command, page| {
        let plain = page.replace("\\-", "-");
        for option in command.get_arguments().filter(|a| !a.is_hide_set()) {
            let value = || option.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
            let named = option.get_long().map(|long| format!("--{long}"));
            let named = named.or_else(value).unwrap_or_else(|| option.get_id().to_string());
            assert!(plain.to_lowercase().contains(&named.to_lowercase()), "{name}: {named}");
        }
        let headings: Vec<&str> =
            page.lines().filter_map(|l| l.strip_prefix(".SH ")).map(|l| l.trim_matches('"')).collect();
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"] {
            assert_eq!(headings.iter().filter(|h| **h == heading).count(), 1, "{name}: {heading} in {headings:?}");
        }
    });
}

#[test]
fn each_manual_page_has_its_own_text_and_examples() {
    each(&mut |name, command, _| {
        let text = text(name).unwrap();
        assert!(!text.description.is_empty() && !text.examples.is_empty() && !text.files.is_empty(), "{name}");
        // The description is longer than the help's summary.
        assert!(text.description.concat().len() > command.get_about().unwrap().to_string().len(), "{name}");
        let own = name.replace('-', " ");
        assert!(text.examples.iter().any(|(line, _)| line.contains(&own)), "{name}: no example of its own");
        // Fits an 80-column terminal with an indentation of 7.
        text.examples.iter().for_each(|(line, _)| assert!(line.len() <= 72, "{name}: {line}"));
        let numbers: Vec<&str> = text.exit.iter().map(|(status, _)| *status).collect();
        for always in ["2", "3", "70"] {
            assert!(numbers.contains(&always), "{name}: exit status {always}");
        }
    });
}

/// Splits a line into words like a shell: quoted words are kept together. Replaces `$(…)` with a process ID, and
/// returns only the command inside `<(…)`. Redirections, and everything after `|` or `&&`, do not belong to iotrail.
fn words(line: &str) -> Vec<String> {
    let line = match line.split_once("<(") {
        Some((_, inside)) => inside.trim_end_matches(')').to_owned(),
        None => line.to_owned(),
    };
    let line = match line.split_once("$(").map(|(before, rest)| (before, rest.split_once(')').unwrap().1)) {
        Some((before, after)) => format!("{before}4711{after}"),
        None => line,
    };
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    let own = |w: &String| !["|", "&&"].contains(&w.as_str()) && !w.starts_with('>') && !w.starts_with("2>");
    words.into_iter().take_while(own).collect()
}

#[test]
fn each_example_in_the_manual_pages_is_a_valid_command_line() {
    assert_eq!(words("iotrail top -p $(pgrep -n x) -i 5 >f"), ["iotrail", "top", "-p", "4711", "-i", "5"]);
    assert_eq!(words("iotrail lab run -- sh -c 'a >b' && c").last().unwrap(), "a >b");
    let mut tried = 0;
    each(&mut |name, _, _| {
        for (line, what) in text(name).unwrap().examples {
            if let Err(e) = Cli::try_parse_from(words(line)) {
                panic!("{name}: {line}: {e}");
            }
            assert!(what.ends_with('.'), "{name}: {what}");
            tried += 1;
        }
    });
    assert!(tried >= 70, "{tried}");
}

#[test]
fn referenced_manual_pages_exist() {
    let names: Vec<String> = pages().unwrap().into_iter().map(|(name, _)| name).collect();
    each(&mut |page, _, _| {
        for other in text(page).unwrap().see_also.iter().filter(|o| o.starts_with(ROOT)) {
            assert!(
                names.contains(&format!("{}.1", other.trim_end_matches("(1)"))) && *other != format!("{page}(1)"),
                "{page}: {other}"
            );
        }
    });
}

/// Each `iotrail …` command in a document: a line in a code block, or between backquotes.
fn command_lines(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let parts: Vec<&str> = match in_block {
            true => {
                let line = line.split_once("$ ").map_or(line, |(_, rest)| rest);
                vec![line.split("  #").next().unwrap_or_default().split("   ").next().unwrap_or_default().trim()]
            }
            false => line.split('`').skip(1).step_by(2).collect(),
        };
        found.extend(parts.into_iter().filter(|part| part.starts_with("iotrail ")).map(str::to_owned));
    }
    found
}

#[test]
fn each_command_line_in_the_documentation_is_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [root.to_owned(), root.join("docs"), root.join("docs/contributing")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let (mut tried, mut wrong) = (0, Vec::new());
    for file in files.filter(|file| file.extension().is_some_and(|e| e == "md") && !file.ends_with("CHANGELOG.md")) {
        for line in command_lines(&fs::read_to_string(&file).unwrap()) {
            // Omissions and placeholders.
            if line.contains(['…', '[', '<']) || line.contains(" COMMAND ") {
                continue;
            }
            let told =
                line.replace("TGID", "4711").replace("SECONDS", "10").replace("SHELL", "bash").replace(" N ", " 3 ");
            if let Err(e) = Cli::try_parse_from(words(&told)) {
                use clap::error::ErrorKind::*;
                // The command is only named, without its arguments: `iotrail run`, `iotrail trace --metrics`.
                let is_name_alone = match e.kind() {
                    MissingRequiredArgument | MissingSubcommand | DisplayHelpOnMissingArgumentOrSubcommand => true,
                    DisplayHelp | DisplayVersion => true,
                    _ => e.to_string().contains("a value is required"),
                };
                wrong.extend((!is_name_alone).then(|| format!("{}: {line}: {e}", file.display())));
            }
            tried += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 80, "{tried}");
}
