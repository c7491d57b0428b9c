use toml::Value;

use super::*;
use crate::builtin;
use iotrail_schema::run_record::ARM;

/// Line 1 contains the name; the parts begin at lines 6, 8 and 10.
const GOOD: &str = r#"name = "x"
title = "t"
question = "q"
expect = "e"
repeats = 2
[load]
bs = "8k"
[matrix]
depth = [1, 4]
[[arm]]
name = "a"
[[arm]]
name = "b"
ring = "coop_taskrun"
"#;

fn refused(text: &str) -> String {
    let e = parse(text, "x.toml").unwrap_err();
    assert_eq!(e.exit_status(), 2);
    let text = e.to_string();
    assert!(!text.contains('\n'));
    text.split(';').next().unwrap().to_owned()
}

fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from));
    GOOD.replacen(from, to, 1)
}

#[test]
fn built_in_experiments_parse() {
    for (name, _) in builtin::ALL {
        let e = builtin::find(name).unwrap();
        assert_eq!(e.name, name);
        assert!(e.quick.is_some() && e.full.axes.last().unwrap().name == ARM);
    }
    assert!(
        builtin::find("cop")
            .unwrap_err()
            .to_string()
            .contains("the built-in experiments are async-punt, commit, coop, ")
    );
}

#[test]
fn the_example_in_the_documentation_parses() {
    let doc = include_str!("../../../../docs/formats.md");
    let example = doc.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let e = parse(example, "docs/formats.md").unwrap();
    assert_eq!(
        e.full.axes.iter().map(|a| (a.name.as_str(), a.points.len())).collect::<Vec<_>>(),
        [("variant", 2), ("depth", 2), ("cpus", 2), ("arm", 2)]
    );
    assert_eq!(e.quick.unwrap().axes[1].points.len(), 1);
    let over_the_network = doc.split("```toml\n").find(|t| t.contains("kind = \"net\"\nrepeats")).unwrap();
    let e = parse(over_the_network.split("```").next().unwrap(), "docs/formats.md").unwrap();
    assert_eq!((e.kind, e.table.as_str(), e.full.axes.len()), (Kind::Net, "net", 2));
}

#[test]
fn a_parsed_experiment_keeps_the_order_and_values_of_its_file() {
    let e = parse(GOOD, "x.toml").unwrap();
    assert_eq!((e.full.repeats, e.table.as_str(), e.quick, e.seed), (2, "delivery", None, None));
    assert_eq!(e.full.axes.iter().map(|a| a.points.len()).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(e.full.axes[1].points[1].value, Value::from("b"));
    assert_eq!(e.full.axes[1].points[1].options["ring"], Value::from("coop_taskrun"));
}

#[test]
fn unknown_keys_are_rejected_with_their_position() {
    assert_eq!(
        refused(&with("repeats = 2", "repeets = 2")).split(',').next(),
        Some("x.toml:5:1: unknown field `repeets`")
    );
    assert!(
        refused(&with("bs = ", "sb = ")).starts_with("x.toml:7:1: unknown load option 'sb': the options are engine, ")
    );
    assert!(refused(&with("depth =", "dpeth =")).starts_with("x.toml:9:1: unknown load option 'dpeth'"));
    assert!(refused(&with("ring =", "rnig =")).starts_with("x.toml:14:1: unknown load option 'rnig'"));
}

#[test]
fn all_missing_keys_are_reported_at_once() {
    assert_eq!(refused("name = \"x\"\n[matrix]\ndepth = [1]\n"), "x.toml:1:1: missing keys: title, question, expect");
}

#[test]
fn invalid_values_are_rejected_with_their_position() {
    assert_eq!(
        refused(&with("\"8k\"", "\"8q\"")),
        "x.toml:7:6: 'bs' does not accept \"8q\": 'q' is not a unit of size: use k, m, g or t"
    );
    assert!(refused(&with("[1, 4]", "[1, -4]")).starts_with("x.toml:9:13: 'depth' does not accept -4: "));
    assert!(
        refused(&with("bs = \"8k\"", "wait = \"sleep\"")).starts_with("x.toml:7:8: 'wait' does not accept \"sleep\": ")
    );
    assert_eq!(refused(&with("repeats = 2", "repeats = 0")), "x.toml:5:11: 'repeats' must be at least 1");
    assert!(refused(&with("repeats = 2", "repeats = 2\nsize = \"big\"")).starts_with("x.toml:6:8: 'size': "));
    assert_eq!(refused(&with("[1, 4]", "[]")), "x.toml:9:9: 'depth' has no values");
    assert_eq!(refused(&with("[1, 4]", "[4, 4]")), "x.toml:9:13: 4 is listed twice");
}

#[test]
fn identical_arms_are_rejected() {
    let same = "[[arm]] \"b\" does not differ from \"a\": all options are the same";
    assert_eq!(refused(&with("ring = \"coop_taskrun\"", "")), format!("x.toml:12:1: {same}"));
    // An option set explicitly to its default equals the default.
    assert_eq!(refused(&with("ring = \"coop_taskrun\"", "wait = \"block\"")), format!("x.toml:12:1: {same}"));
    assert_eq!(refused(&with("ring = \"coop_taskrun\"", "bs = 8192")), format!("x.toml:12:1: {same}"));
    assert!(refused(&with("name = \"b\"", "name = \"a\"")).ends_with("two entries of [[arm]] are named \"a\""));
    assert!(
        refused(&GOOD[..GOOD.rfind("[[arm]]").unwrap()]).ends_with("a single [[arm]] cannot be compared: add another")
    );
    assert!(refused(&GOOD[..GOOD.find("[[arm]]").unwrap()]).starts_with("x.toml:1:8: no arms to compare"));
}

#[test]
fn an_option_set_twice_is_rejected() {
    assert!(
        refused(&with("bs = \"8k\"", "depth = 2")).starts_with("x.toml:9:1: 'depth' is fixed under [load] and varied")
    );
    assert!(
        refused(&with("ring =", "depth = 3\nring ="))
            .starts_with("x.toml:14:1: 'depth' is set by a [[arm]] and varied")
    );
    let both = format!("{GOOD}[[variant]]\nname = \"v\"\nring = \"sqpoll\"\n");
    assert!(refused(&both).contains("'ring' is set by an [[arm]] and by a [[variant]]"));
}

#[test]
fn the_arms_can_be_a_parameter_or_the_variants() {
    let arms = &GOOD[GOOD.find("[[arm]]").unwrap()..];
    let text =
        GOOD.replace(arms, "ring = [\"\", \"coop_taskrun\"]\n").replace("repeats", "compare = \"ring\"\nrepeats");
    let e = parse(&text, "x.toml").unwrap();
    let arm = e.full.axes.last().unwrap();
    assert_eq!(
        (arm.name.as_str(), &arm.points[0].value, &arm.points[1].value),
        (ARM, &Value::from("none"), &Value::from("coop_taskrun"))
    );
    let variants = text.replace("\"ring\"", "\"variant\"").replace("ring = [\"\", \"coop_taskrun\"]\n", "")
        + &arms.replace("arm", "variant");
    assert_eq!(parse(&variants, "x.toml").unwrap().full.axes.len(), 2);
    assert!(
        refused(&text.replace("\"ring\"", "\"wait\""))
            .starts_with("x.toml:5:11: 'compare' must be 'variant' or a parameter")
    );
    assert!(refused(&with("repeats", "compare = \"depth\"\nrepeats")).contains("both define the arms"));
}

#[test]
fn the_name_of_the_control_is_reserved() {
    let what = "'control' is reserved for the repeated first arm: choose another name";
    assert_eq!(refused(&with("name = \"b\"", "name = \"control\"")), format!("x.toml:12:1: {what}"));
    let arms = &GOOD[GOOD.find("[[arm]]").unwrap()..];
    let compared =
        |axis: &str| GOOD.replace(arms, "").replacen("repeats", &format!("compare = \"{axis}\"\nrepeats"), 1);
    let variants = arms.replace("arm", "variant").replace("name = \"b\"", "name = \"control\"");
    assert_eq!(refused(&(compared("variant") + &variants)), format!("x.toml:13:1: {what}"));
    let values = "governor = [\"control\", \"performance\"]\n";
    assert_eq!(refused(&(compared("governor") + values)), format!("x.toml:11:13: {what}"));
    // Variants that are not arms may have any name.
    assert!(parse(&format!("{GOOD}[[variant]]\nname = \"control\"\nwait = \"peek\"\n"), "x.toml").is_ok());
}

#[test]
fn quick_overrides_only_the_keys_that_it_sets() {
    let quick = format!("{GOOD}[quick]\nrepeats = 1\n[quick.load]\nruntime = \"1s\"\n[quick.matrix]\ndepth = [4]\n");
    let scale = parse(&quick, "x.toml").unwrap().quick.unwrap();
    assert_eq!((scale.repeats, scale.axes[0].points.len(), scale.axes[1].points.len()), (1, 1, 2));
    assert_eq!((&scale.load["runtime"], &scale.load["bs"]), (&Value::from("1s"), &Value::from("8k")));
    assert!(
        refused(&quick.replace("depth = [4]", "wait = [\"peek\"]"))
            .contains("'wait' is not a parameter under [matrix]")
    );
    assert!(refused(&quick.replace("runtime = \"1s\"", "depth = 4")).contains("'depth' is a parameter"));
    let both = quick.replace("repeats = 1", "repeats = 1\n[quick.stop]\nwithin = 0.1\nat-least = 2\nat-most = 3");
    assert!(refused(&both).ends_with("'repeats' and [quick.stop] both define the number of blocks: keep only one"));
}

#[test]
fn a_plan_with_too_many_measurements_is_rejected() {
    assert!(refused(&with("repeats = 2", "repeats = 4000000000")).contains("more than 100000 measurements"));
}

/// A valid file, truncated or changed at any position, is parsed or rejected with a position, without a panic.
#[test]
fn damaged_files_are_rejected_with_a_position() {
    let text = builtin::ALL[0].1;
    let mut refusals = 0;
    let mut look = |t: &str| {
        if let Err(e) = parse(t, "x.toml") {
            assert!(e.to_string().starts_with("x.toml:"), "{e}");
            refusals += 1;
        }
    };
    for (i, c) in text.char_indices().filter(|(i, _)| i % 29 == 0) {
        look(&text[..i]);
        for with in ["", "[", "\"", "=", "9", "\n", "é"] {
            look(&format!("{}{with}{}", &text[..i], &text[i + c.len_utf8()..]));
        }
    }
    assert!(refusals > 150, "{refusals}");
}

const NET: &str = r#"name = "n"
title = "t"
question = "q"
expect = "e"
kind = "net"
repeats = 2
[load]
window = 2
[matrix]
connections = [4, 64]
[[arm]]
name = "epoll"
engine = "epoll"
[[arm]]
name = "io_uring"
"#;

#[test]
fn a_network_experiment_accepts_options_of_servers_and_senders() {
    let e = parse(NET, "x.toml").unwrap();
    assert_eq!((e.kind, e.table.as_str(), e.full.axes.len()), (Kind::Net, "net", 2));
    let with = |from: &str, to: &str| {
        assert!(NET.contains(from));
        NET.replacen(from, to, 1)
    };
    assert!(refused(&with("window = 2", "depth = 2")).starts_with(
        "x.toml:8:1: unknown load option 'depth': the options are engine, server-threads, server-cpus, trigger, ring, "
    ));
    assert!(
        refused(&with("engine = \"epoll\"", "engine = \"libaio\""))
            .starts_with("x.toml:13:10: 'engine' does not accept \"libaio\": ")
    );
    assert!(
        refused(&with("[4, 64]", "[4, \"many\"]"))
            .starts_with("x.toml:10:19: 'connections' does not accept \"many\": ")
    );
    let same = "[[arm]] \"io_uring\" does not differ from \"epoll\"";
    assert!(refused(&with("engine = \"epoll\"", "engine = \"io_uring\"")).starts_with(&format!("x.toml:14:1: {same}")));
    for key in ["size = \"1g\"", "fio = \"x.fio\"", "profile = true"] {
        let e = refused(&with("repeats", &format!("{key}\nrepeats")));
        let name = key.split(' ').next().unwrap();
        assert!(e.starts_with(&format!("x.toml:6:{}: '{name}' is for storage loads", name.len() + 4)), "{e}");
    }
    assert!(
        refused(&with("repeats", "table = \"cost\"\nrepeats")).starts_with("x.toml:6:9: this table is for storage lo")
    );
    assert!(refused(&with("kind = \"net\"\n", "")).contains("unknown load option 'window'"));
    assert!(refused(&GOOD.replacen("repeats", "table = \"order\"\nrepeats", 1)).contains("add kind = \"net\""));
    let e = parse(&with("engine = \"epoll\"", "engine = \"epol\""), "x.toml").unwrap_err().to_string();
    assert!(
        e.ends_with("; docs/formats.md describes the experiment file, `iotrail net bench --help` the load's options"),
        "{e}"
    );
}

#[test]
fn an_experiment_can_select_the_columns_of_its_table() {
    let with = |columns: &str| GOOD.replacen("repeats", &format!("columns = [{columns}]\nrepeats"), 1);
    let e = parse(&with("\"iops\", \"kicks:7\""), "x.toml").unwrap();
    assert_eq!((e.table.as_str(), e.columns), ("delivery", vec!["iops".to_owned(), "kicks:7".into()]));
    for unknown in ["kick", "kicks:wide"] {
        let e = parse(&with(&format!("\"{unknown}\"")), "x.toml").unwrap_err().to_string();
        assert!(
            e.contains(&format!("unknown column '{unknown}': the columns are iops, requests, bytes, range, ")),
            "{e}"
        );
    }
    let e = parse(&GOOD.replacen("repeats", "table = \"kick\"\nrepeats", 1), "x.toml").unwrap_err().to_string();
    assert!(e.contains("unknown table 'kick': the tables are commits, cost, delays, delivery, kicks, "), "{e}");
}

#[test]
fn an_experiment_accepts_the_metrics_of_its_program() {
    let text = "name='p'\ntitle='P'\nquestion='?'\nexpect=''\nkind='program'\nrepeats=2\nmetrics=['own_of_test']\n\
                [load]\nprogram=['x']\nmetric=['own_of_test=/(a)/']\n[[arm]]\nname='a'\n[[arm]]\nname='b'\nring='sqpoll'";
    assert_eq!(parse(text, "x").unwrap().metrics, ["own_of_test"]);
    let e = parse(&text.replace("metrics=['own_of_test']", "metrics=['other']"), "x").unwrap_err();
    assert!(e.to_string().contains("unknown metric 'other'"), "{e}");
}
