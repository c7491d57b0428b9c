//! The built-in experiments.

use std::borrow::Cow;
use std::path::Path;

use super::file::{Experiment, LONGEST, parse};
use iotrail_base::error::{Error, Result};
use iotrail_base::input;

/// Names and texts.
pub const ALL: [(&str, &str); 14] = [
    ("async-punt", include_str!("../../../experiments/async-punt.toml")),
    ("commit", include_str!("../../../experiments/commit.toml")),
    ("coop", include_str!("../../../experiments/coop.toml")),
    ("coop-worse", include_str!("../../../experiments/coop-worse.toml")),
    ("copy-cost", include_str!("../../../experiments/copy-cost.toml")),
    ("depth-kicks", include_str!("../../../experiments/depth-kicks.toml")),
    ("getevents", include_str!("../../../experiments/getevents.toml")),
    ("interfaces", include_str!("../../../experiments/interfaces.toml")),
    ("irq-placement", include_str!("../../../experiments/irq-placement.toml")),
    ("net-engines", include_str!("../../../experiments/net-engines.toml")),
    ("polling", include_str!("../../../experiments/polling.toml")),
    ("registered", include_str!("../../../experiments/registered.toml")),
    ("sqpoll-idle", include_str!("../../../experiments/sqpoll-idle.toml")),
    ("tw-order", include_str!("../../../experiments/tw-order.toml")),
];

/// The most similar name, for suggestions.
pub(super) fn nearest<'a>(what: &str, names: &[&'a str]) -> Option<&'a str> {
    let like = |name: &&str| strsim::jaro_winkler(what, name);
    names.iter().copied().filter(|name| like(name) > 0.8).max_by(|a, b| like(a).total_cmp(&like(b)))
}

/// A built-in experiment by name, otherwise a file by path.
pub fn find(what: &str) -> Result<Experiment> {
    let (text, origin) = text(what)?;
    parse(&text, &origin)
}

/// The experiment's text, and its name in messages.
pub fn text(what: &str) -> Result<(Cow<'static, str>, String)> {
    if let Some((name, text)) = ALL.iter().find(|(name, _)| *name == what) {
        return Ok((Cow::Borrowed(*text), format!("experiments/{name}.toml")));
    }
    if !what.ends_with(".toml") && !Path::new(what).exists() {
        let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        let meant = nearest(what, &names).map_or_else(String::new, |name| format!("did you mean {name}? "));
        return Err(Error::input(
            format!("unknown experiment '{what}'"),
            format!("{meant}the built-in experiments are {}; or specify the path of a .toml file", names.join(", ")),
        ));
    }
    let fail =
        |e| Error::input(format!("cannot read the experiment {what}"), "specify a readable TOML file").because(e);
    Ok((Cow::Owned(input::text(Path::new(what), LONGEST).map_err(fail)?), what.to_owned()))
}
