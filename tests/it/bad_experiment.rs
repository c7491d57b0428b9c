//! Invalid experiment files: the error has a position in the file, and nothing is created.

use crate::bad_load::assert_refused;
use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[("bad_experiment::each_invalid_experiment_is_rejected_with_line_and_column", refused)];

const HEAD: &str = "name = \"x\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nrepeats = 2\n";
const ARMS: &str = "[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\nring = \"coop_taskrun\"\n";
const REMEDY: &str = "; docs/formats.md describes the experiment file, `iotrail bench --help` the load's options";

fn refused() -> End {
    let place = Place::new();
    // The text after the head (5 lines), and the error.
    let cases: Vec<(String, String)> = [
        (format!("sed = 1\n{ARMS}"), "x.toml:6:1: unknown field `sed`, expected one of *"),
        (format!("[load]\n  dpeth = 4\n{ARMS}"), "x.toml:7:3: unknown load option 'dpeth': the options are *"),
        (format!("[load]\ndepth = \"deep\"\n{ARMS}"), "x.toml:7:9: 'depth' does not accept \"deep\": *"),
        (
            format!("[load]\nbs = \"4q\"\n{ARMS}"),
            "x.toml:7:6: 'bs' does not accept \"4q\": 'q' is not a unit of size: use k, m, g or t",
        ),
        (format!("[matrix]\ndepth = []\n{ARMS}"), "x.toml:7:9: 'depth' has no values"),
        (format!("[matrix]\ndepth = [1, 4, 1]\n{ARMS}"), "x.toml:7:16: 1 is listed twice"),
        (
            format!("[load]\ndepth = 1\n[matrix]\ndepth = [1, 4]\n{ARMS}"),
            "x.toml:9:1: 'depth' is fixed under [load] and varied under [matrix]",
        ),
        ("[[arm]]\nname = \"a\"\n".into(), "x.toml:6:1: a single [[arm]] cannot be compared: add another"),
        (
            "[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\n".into(),
            "x.toml:8:1: [[arm]] \"b\" does not differ from \"a\": all options are the same",
        ),
        (
            "[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\ndepth = 16\n".into(),
            "x.toml:8:1: [[arm]] \"b\" does not differ from \"a\": all options are the same",
        ),
        (
            "[[arm]]\nname = \"a\"\n[[arm]]\nname = \"a\"\ndepth = 3\n".into(),
            "x.toml:9:8: two entries of [[arm]] are named \"a\"",
        ),
        (
            String::new(),
            "x.toml:1:8: no arms to compare: add at least two [[arm]] tables, or set 'compare' to the name of a parameter",
        ),
        (format!("[matrix\n{ARMS}"), "x.toml:6:*: *"),
    ]
    .into_iter()
    .map(|(rest, line)| (format!("{HEAD}{rest}"), format!("{line}{REMEDY}")))
    .chain([(
        HEAD.replace("repeats = 2", "repeats = 0") + ARMS,
        format!("x.toml:5:11: 'repeats' must be at least 1{REMEDY}"),
    )])
    .collect();
    let plain = [
        (
            format!(
                "{HEAD}[load]\nrw = \"nop\"\n[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\nring = \"defer_taskrun\"\n"
            ),
            "x.toml:10:1: the combination 'arm b' is impossible: the kernel rejects ring flag defer_taskrun without single_issuer; add single_issuer",
        ),
        (
            format!("{HEAD}[load]\nrw = \"nop\"\n[matrix]\nbatch = [1, 32]\n{ARMS}"),
            "x.toml:10:1: the combination 'batch 32 · arm a' is impossible: --batch 32 with --depth 16: *",
        ),
    ];
    let all = cases.into_iter().chain(plain.map(|(text, line)| (text, format!("{line}{REMEDY}"))));
    for (text, line) in all {
        place.write("x.toml", &text);
        let before = place.contents();
        for more in ["--plan", "--quick", "--seed=1"] {
            // Without a quick form, the file's own error is reported.
            if more == "--quick" && line.contains("the combination") {
                continue;
            }
            let ended = run(&mut place.tool(["run", "x.toml", "--file", "f", "--store", "s.db", more]));
            assert_refused(&ended, 2, &line);
            assert_eq!(place.contents(), before, "{text}");
        }
    }
    place.write("x.toml", format!("{HEAD}[load]\nrw = \"nop\"\n{ARMS}"));
    let before = place.contents();
    for (args, line) in [
        ("run x.toml --quick", "experiment 'x' has no quick form; omit --quick, or add a [quick] table to the file"),
        (
            "run none",
            "unknown experiment 'none'; the built-in experiments are async-punt, commit, coop, coop-worse, copy-cost, depth-kicks, getevents, interfaces, irq-placement, net-engines, polling, \
             registered, sqpoll-idle, tw-order; or specify the path of a .toml file",
        ),
        (
            "run none.toml",
            "cannot read the experiment none.toml: No such file or directory (os error 2); specify a readable TOML file",
        ),
        ("run .", "cannot read the experiment .: Is a directory (os error 21); specify a readable TOML file"),
    ] {
        assert_refused(&run(&mut place.tool(args.split(' '))), 2, line);
        assert_eq!(place.contents(), before);
    }
    End::Passed
}
