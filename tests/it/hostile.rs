//! Names that would control a terminal or imitate the tool's output: of files, stores, experiments, arms and options.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::tool::{Ended, Place, bench, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("hostile::file_names_are_escaped_on_all_screens_and_in_all_errors", files),
    ("hostile::text_of_an_experiment_is_escaped", experiment),
    ("hostile::values_of_options_are_escaped", options),
];

/// Clear screen, title, clipboard, link, their C1 forms, bell, carriage return, backspace, newline, bidirectional and
/// zero-width characters.
const HOSTILE: &str = "x\x1b[2J\x1b]0;t\x07\x1b]52;c;eA==\x07\x1b]8;;http:a\x1b\\\u{9b}31m\r\u{8}\nwarning: forged\n\u{202e}\u{200b}\u{2028}";

/// Appends bytes that are not UTF-8.
fn name(of: &str) -> OsString {
    let mut bytes = HOSTILE.as_bytes().to_vec();
    bytes.extend([0xff, 0xc3, 0x28]);
    bytes.extend(of.bytes());
    OsString::from_vec(bytes)
}

#[track_caller]
fn tame(ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        for line in text.lines() {
            assert!(!line.starts_with("warning: forged"), "{text}");
            let steers = |c: char| c.is_control() || "\u{202e}\u{200b}\u{2028}".contains(c);
            assert!(!line.contains(steers), "{line:?}");
        }
    }
}

/// No line exceeds 80 columns, whatever the name.
#[track_caller]
fn narrow(ended: &Ended) {
    let wide = ended.stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None);
}

fn files() -> End {
    let place = Place::new();
    let with = |options: &str, paths: &[(&str, &OsStr)]| {
        let mut command = place.tool(options.split_whitespace());
        for (option, path) in paths {
            command.args(Some(option).filter(|o| !o.is_empty())).arg(path);
        }
        run(&mut command)
    };
    let (data, store, json, other) = (name("data"), name("s.db"), name("m.json"), name("other"));
    let load = "bench --trace off --warmup 0 --count 8 --size 64k --buffered";
    let made = with(load, &[("--file", &data), ("--store", &store)]).ok();
    assert!(made.stdout.contains("\\u{1b}[2J"), "{}", made.stdout);
    let measured = with(&format!("{load} --json"), &[("--file", &data)]).ok();
    assert!(measured.json()["load"]["file"].as_str().expect("its name").contains(HOSTILE));
    place.write_at(&json, &measured.stdout);
    for (status, ended) in [
        (0, made),
        (0, measured),
        (0, with("list", &[("--store", &store)])),
        (0, with("list", &[("--store", &other)])),
        (0, with("list --json", &[("--store", &store)])),
        (0, with("list", &[("--store", &store), ("--salvage", &name("new.db"))])),
        (0, with("check", &[("--file", &data)])),
        // The sides are text, because they may refer to cells of a run.
        (2, with("compare", &[("", &json), ("", &json)])),
        (2, with("compare", &[("", OsStr::new(HOSTILE)), ("", OsStr::new(HOSTILE))])),
        (2, with("check", &[("--file", &other)])),
        (2, with("bench", &[("--file", &other)])),
        (2, with("explain", &[("", &other)])),
        (2, with("explain", &[("", &data)])),
        (2, with("export", &[("", &data), ("--perfetto", &other)])),
        (2, with("compare", &[("", &other), ("", &data)])),
        (2, with("run", &[("", &other)])),
        (2, with("list", &[("--store", &data)])),
        (2, with("run coop --resume", &[("--store", &other)])),
        (2, with("bench --engine", &[("", &other)])),
    ] {
        assert_eq!(ended.status, status, "{ended:?}");
        tame(&ended);
        if status == 0 {
            narrow(&ended_without_json(&ended));
        }
    }
    End::Passed
}

/// A JSON line is as long as its string.
fn ended_without_json(ended: &Ended) -> Ended {
    let stdout = if ended.stdout.starts_with('{') { String::new() } else { ended.stdout.clone() };
    Ended { status: ended.status, stdout, stderr: ended.stderr.clone() }
}

fn experiment() -> End {
    let place = Place::new();
    let quoted = serde_json::Value::from(HOSTILE).to_string().replace("\\b", "\\u0008");
    let text = format!(
        "name = \"tiny\"\ntitle = {quoted}\nquestion = {quoted}\nexpect = {quoted}\nrepeats = 2\ncontrol = false\n\n\
         [load]\ntrace = \"off\"\nwarmup = \"0\"\nrw = \"nop\"\ncount = 200\n\n[matrix]\ndepth = [1, 4]\n\n\
         [[arm]]\nname = \"default\"\n\n[[arm]]\nname = \"ARM\"\nring = \"coop_taskrun\"\n"
    );
    place.write("e.toml", text.replace("ARM", "second"));
    place.write("worse.toml", text.replace("\"ARM\"", &quoted).replace("\"tiny\"", &quoted));
    for file in ["e.toml", "worse.toml"] {
        for options in ["--plan", "--plan --json", "--store s.db", "--store s.db --json", "--store s.db --resume"] {
            let ended = run(place.tool(["run", file]).args(options.split_whitespace()));
            assert!(options.contains("resume") || file == "worse.toml" || ended.status == 0, "{ended:?}");
            tame(&ended);
            if !options.contains("json") {
                narrow(&ended);
            }
        }
    }
    tame(&run(&mut place.tool(["list", "--store", "s.db"])).ok());
    End::Passed
}

fn options() -> End {
    let place = Place::new();
    let hostile = OsStr::from_bytes(HOSTILE.as_bytes());
    for options in [
        "bench --ring",
        "bench --cpus",
        "bench --size",
        "run",
        "compare 1",
        "trace -p",
        "net load",
        "lab run --kernel",
        "top -i",
    ] {
        let mut command = place.tool(options.split_whitespace());
        let ended = run(command.arg(hostile));
        assert_ne!(ended.status, 0, "{options}");
        tame(&ended);
    }
    let mut command = bench(&place, "--rw nop --count 8");
    tame(&run(command.arg("--file").arg(Path::new(hostile))));
    End::Passed
}
