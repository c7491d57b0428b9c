//! Programs with a known problem (`tests/cases`): the first screen of `iotrail trace` names the cause, but not for the
//! healthy variant of the same program. `tests/cases/table.toml` lists the words.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use regex_lite::{Captures, Regex};
use serde::Deserialize;

use crate::{bench, trial};

#[derive(Deserialize)]
struct Table {
    case: Vec<Case>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    source: String,
    #[serde(default)]
    needs: Vec<PathBuf>,
    #[serde(default)]
    before: String,
    #[serde(default)]
    after: String,
    #[serde(default)]
    sleeps: bool,
    sick: Variant,
    healthy: Variant,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    #[serde(default)]
    before: String,
    #[serde(default)]
    inside: String,
    run: String,
    #[serde(default)]
    names: Vec<Vec<String>>,
    #[serde(default)]
    not: Vec<String>,
    #[serde(default)]
    prints: Option<String>,
}

/// A program that fails, hangs or blocks has a problem.
const NO_PROBLEM: [&str; 2] = ["no problem found", "nothing to fix"];

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases"))
}

fn table() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("table.toml")).expect("the table is in the source");
    toml::from_str::<Table>(&text).expect("the table is valid").case
}

fn name(case: &Case) -> &str {
    Path::new(&case.source).file_stem().and_then(|stem| stem.to_str()).expect("a source has a name")
}

/// Names of the trials that can run concurrently.
pub fn that_sleep() -> Vec<String> {
    let of = |case: &Case| ["sick", "healthy"].map(|variant| format!("cases::{}_{variant}", name(case)));
    table().iter().filter(|case| case.sleeps).flat_map(of).collect()
}

pub fn trials() -> Vec<Trial> {
    let missing = |case: &Case| {
        let library = (!Path::new("/usr/include/liburing.h").exists()).then(|| "liburing is not installed".to_owned());
        let path = case.needs.iter().find(|path| !path.exists());
        library.or_else(|| path.map(|path| format!("{} does not exist", path.display())))
    };
    let both = |case: Case| {
        let missing = missing(&case);
        if let Some(reason) = &missing {
            eprintln!("cases::{} is skipped: {reason}", name(&case));
        }
        ["sick", "healthy"].map(|variant| {
            let case = case.clone();
            let title = format!("cases::{}_{variant}", name(&case));
            trial::test(title, move || check(&case, if variant == "sick" { &case.sick } else { &case.healthy }))
                .with_ignored_flag(missing.is_some())
        })
    };
    table().into_iter().flat_map(both).collect()
}

fn check(case: &Case, variant: &Variant) -> Result<(), Failed> {
    let is_sick = !variant.names.is_empty();
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let (screen, printed) = trace(case, variant, place.path())?;
    let mut wrong = Vec::new();
    if let Some(pattern) = &variant.prints
        && !Regex::new(pattern)?.is_match(&printed)
    {
        wrong.push(format!("the program did not print `{pattern}`"));
    }
    // Sentences may break anywhere, and words after hyphens.
    let words = Regex::new("([a-z0-9]-)?\\s+")?.replace_all(&screen, |found: &Captures| {
        found.get(1).filter(|_| found[0].contains('\n')).map_or(" ", |hyphen| hyphen.as_str()).to_owned()
    });
    let contains = |word: &String| words.contains(word.as_str());
    let unnamed = variant.names.iter().filter(|one_of| !one_of.iter().any(contains));
    wrong.extend(unnamed.map(|one_of| format!("the screen names none of {one_of:?}")));
    let refused: Vec<String> = if is_sick { NO_PROBLEM.map(str::to_owned).to_vec() } else { Vec::new() };
    let refused = variant.not.iter().chain(&refused);
    wrong.extend(refused.filter(|word| contains(word)).map(|word| format!("the screen has `{word}`")));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failed::from(format!("{}\n{screen}\n{printed}", wrong.join("\n"))))
}

/// Traces a program; returns the first screen and the program's output.
fn trace(case: &Case, variant: &Variant, place: &Path) -> Result<(String, String), Failed> {
    let program = build(&case.source)?;
    // The screen contains the command line, whose words must not count.
    std::fs::write(place.join("run"), format!("exec >$D/printed 2>&1\n{}\nexec {}", variant.inside, variant.run))?;
    let (before, also) = (&case.before, &variant.before);
    let script = format!("set -ea; trap '{}' EXIT\n{before}\n{also}\n$IOTRAIL trace -- sh $D/run || true", case.after);
    let out = Command::new("sh")
        .args(["-c", &script])
        .env("IOTRAIL", env!("CARGO_BIN_EXE_iotrail"))
        .env("XDG_STATE_HOME", place)
        .env("B", program)
        .env("D", place)
        .env("F", bench::file())
        .output()?;
    let screen = String::from_utf8(out.stdout)?;
    if screen.lines().count() == 0 || screen.lines().count() > 20 {
        return Err(Failed::from(format!("no screen of 20 lines: {screen}\n{}", String::from_utf8_lossy(&out.stderr))));
    }
    let printed = std::fs::read_to_string(place.join("printed")).unwrap_or_default();
    Ok((screen, printed))
}

/// A path at which every user can execute the program.
pub fn build(source: &str) -> Result<PathBuf, Failed> {
    let source = folder().join(source);
    if source.extension().is_some_and(|e| e == "js") {
        return Ok(source);
    }
    let program =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("case-{}", source.file_stem().expect("a file").display()));
    let modified = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    if modified(&program) < modified(&source) {
        // One variant may be running it while another is built.
        let built = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR"))?.into_temp_path();
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-w", "-o"]).arg(&built).arg(&source).args(["-luring", "-lpthread"]);
        let out = cc.output()?;
        if !out.status.success() {
            return Err(Failed::from(String::from_utf8_lossy(&out.stderr).into_owned()));
        }
        built.persist(&program)?;
    }
    Ok(program)
}
