//! Builds an experiment from command-line options: options with several values define the arms.

use std::collections::HashSet;

use toml::Value;

use super::file::{Axis, Experiment, Options, Point, Scale, settled, to_json};
use super::load::Kind;
use iotrail_answer::table::NET;
use iotrail_base::distinct::distinct;
use iotrail_base::error::{Error, Result};
use iotrail_schema::run_record::{ARM, value_text};

/// An option with its values as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionValues {
    pub name: String,
    pub values: Vec<String>,
}

/// Options of the network load: the server's, and the sender's.
pub const SERVER_LISTS: [&str; 3] = ["engine", "ring", "receive"];
pub const SENDER_LISTS: [&str; 2] = ["connections", "window"];
/// Options that `--engine epoll` ignores.
const OF_RINGS: [&str; 2] = ["ring", "receive"];

/// A network load. Each combination of server options is an arm; if there is only one, each combination of sender
/// options is an arm.
///
/// Fails on invalid and on duplicate values.
pub fn net_experiment(given: &[OptionValues], repeats: u32, follow: Option<u32>) -> Result<Experiment> {
    let mut load = Options::new();
    let mut lists: Vec<(&str, Vec<Value>)> = Vec::new();
    for OptionValues { name, values } in given {
        let parsed = values.iter().map(|text| value(Kind::Net, name, text)).collect::<Result<Vec<_>>>()?;
        let mut seen = HashSet::new();
        if let Some(twice) = values.iter().find(|v| !seen.insert(*v)) {
            return Err(Error::input(format!("--{name} lists {twice} twice"), "list each value once"));
        }
        match &parsed[..] {
            [one] => _ = load.insert(name.clone(), one.clone()),
            _ => lists.push((name, parsed)),
        }
    }
    let (server, asked): (Vec<_>, Vec<_>) = lists.into_iter().partition(|(name, _)| SERVER_LISTS.contains(name));
    let mut axes: Vec<Axis> = asked.into_iter().map(|(name, values)| axis(name, values)).collect();
    let arms = match (server.is_empty(), axes.is_empty()) {
        (false, _) => arms(&load, server),
        (true, false) => named(axes.remove(0)),
        (true, true) => {
            let as_given = Point { value: "as given".into(), options: Options::new(), at: "net bench".into() };
            Axis { name: ARM.into(), points: vec![as_given] }
        }
    };
    let control = arms.points.len() > 1;
    let title = match load.get("between").and_then(Value::as_str) {
        Some("hosts") => "A network load, with its ends on two machines",
        _ => "A network load, with both ends on this machine",
    };
    axes.push(Axis { name: ARM.into(), ..arms });
    Ok(Experiment {
        name: "net-bench".into(),
        title: title.into(),
        question: String::new(),
        expect: String::new(),
        kind: Kind::Net,
        table: NET.into(),
        columns: Vec::new(),
        profile: false,
        follow,
        metrics: Vec::new(),
        equivalent_within: None,
        expectations: Vec::new(),
        control,
        unmapped: Vec::new(),
        seed: None,
        size: None,
        full: Scale { repeats, stop: None, load, axes },
        quick: None,
    })
}

/// Converts a value to the option's type: text, number or Boolean.
pub fn value(kind: Kind, name: &str, text: &str) -> Result<Value> {
    let numbers = [
        text.parse().ok().map(Value::Boolean),
        text.parse().ok().map(Value::Integer),
        text.parse().ok().map(Value::Float),
    ];
    let takes = |value: &Value| {
        settled(kind, [(name.to_owned(), value.clone())].into_iter().collect()).map_err(|why| {
            let page = if kind == Kind::Net { "net bench" } else { "bench" };
            Error::input(format!("--{name} does not accept '{text}': {why}"), format!("see `iotrail {page} --help`"))
        })
    };
    let as_text = Value::String(text.to_owned());
    match takes(&as_text) {
        Ok(_) => Ok(as_text),
        Err(e) => numbers.into_iter().flatten().find(|n| takes(n).is_ok()).ok_or(e),
    }
}

fn axis(name: &str, values: Vec<Value>) -> Axis {
    let points = values.into_iter().map(|value| point(vec![(name, value)])).collect();
    Axis { name: name.into(), points }
}

/// Gives the arms names.
fn named(axis: Axis) -> Axis {
    let points = axis
        .points
        .into_iter()
        .map(|p| Point { value: format!("{} {}", axis.name, value_text(&to_json(&p.value))).into(), ..p });
    Axis { points: points.collect(), name: axis.name }
}

/// All combinations without duplicates. Ring options do not create further arms for an engine without rings.
fn arms(load: &Options, lists: Vec<(&str, Vec<Value>)>) -> Axis {
    let mut all: Vec<Vec<(&str, Value)>> = vec![vec![]];
    for (name, values) in lists {
        all = all
            .into_iter()
            .flat_map(|one| values.iter().map(move |v| [one.clone(), vec![(name, v.clone())]].concat()))
            .collect();
    }
    let points = all.into_iter().map(|mut combination| {
        let engine = combination.iter().find(|(n, _)| *n == "engine").map(|(_, v)| v).or(load.get("engine"));
        if engine.and_then(Value::as_str) == Some("epoll") {
            combination.retain(|(name, _)| !OF_RINGS.contains(name));
        }
        point(combination)
    });
    Axis { name: ARM.into(), points: distinct(points) }
}

/// A point named after its values.
fn point(options: Vec<(&str, Value)>) -> Point {
    let text = |v: &Value| value_text(&to_json(v));
    let (names, at): (Vec<String>, Vec<String>) =
        options.iter().map(|(name, v)| (text(v), format!("--{name} {}", text(v)))).unzip();
    let value = match &options[..] {
        [(name, value)] if SENDER_LISTS.contains(name) => value.clone(),
        _ => names.join(" ").into(),
    };
    Point { value, options: options.into_iter().map(|(n, v)| (n.to_owned(), v)).collect(), at: at.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(options: &[(&str, &[&str])]) -> Vec<OptionValues> {
        let one = |(name, values): &(&str, &[&str])| OptionValues {
            name: (*name).into(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        options.iter().map(one).collect()
    }

    fn axes(options: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        let e = net_experiment(&given(options), 3, None).unwrap();
        let text = |p: &Point| value_text(&to_json(&p.value));
        e.full.axes.iter().map(|a| (a.name.clone(), a.points.iter().map(text).collect())).collect()
    }

    fn of(name: &str, values: &[&str]) -> (String, Vec<String>) {
        (name.into(), values.iter().map(|v| (*v).to_owned()).collect())
    }

    #[test]
    fn server_options_define_the_arms_and_sender_options_the_rows() {
        assert_eq!(
            axes(&[("engine", &["epoll", "io_uring"]), ("connections", &["4", "64"]), ("window", &["2"])]),
            [of("connections", &["4", "64"]), of("arm", &["epoll", "io_uring"])]
        );
        assert_eq!(
            axes(&[("engine", &["epoll", "io_uring"]), ("ring", &["", "coop_taskrun"])]),
            [of("arm", &["epoll", "io_uring none", "io_uring coop_taskrun"])]
        );
        assert_eq!(axes(&[("receive", &["single", "bundle"])]), [of("arm", &["single", "bundle"])]);
    }

    #[test]
    fn the_first_list_defines_the_arms_if_all_server_options_are_fixed() {
        assert_eq!(
            axes(&[("connections", &["4", "64"]), ("window", &["1", "2"])]),
            [of("window", &["1", "2"]), of("arm", &["connections 4", "connections 64"])]
        );
        let e = net_experiment(&given(&[("connections", &["4"]), ("rate", &["1000"])]), 3, None).unwrap();
        assert_eq!((e.full.axes[0].points.len(), e.control), (1, false));
        assert_eq!((&e.full.load["connections"], &e.full.load["rate"]), (&Value::Integer(4), &Value::Integer(1000)));
    }

    #[test]
    fn values_are_parsed_according_to_their_options() {
        let e = net_experiment(&given(&[("server-cpus", &["0"]), ("request", &["4k"]), ("rate", &["0.5"])]), 1, None)
            .unwrap();
        let load = &e.full.load;
        assert_eq!((load["server-cpus"].as_str(), load["request"].as_str()), (Some("0"), Some("4k")));
        assert_eq!(load["rate"], Value::Float(0.5));
        let refused = |options| net_experiment(&given(options), 1, None).unwrap_err().to_string();
        assert_eq!(refused(&[("window", &["1", "2", "1"])]), "--window lists 1 twice; list each value once");
        assert!(refused(&[("engine", &["kqueue"])]).starts_with("--engine does not accept 'kqueue': unknown variant"));
    }
}
