//! An experiment's settings: load options, named as for `bench`, and host conditions. In all tables, a key is either
//! one or the other.

use std::path::Path;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::source::{File, LONGEST};
use super::values::{Options, RawOptions};
use crate::fio;
use crate::load::{Kind, Load};
use iotrail_base::error::Result;
use iotrail_base::input;
use iotrail_settings::Conditions;

/// Options in the form that load and host accept.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    pub load: Load,
    pub host: Conditions,
}

impl File<'_> {
    /// `[load]` and `[host]`.
    pub(super) fn fixed(&self, load: &RawOptions, host: &RawOptions) -> Result<Options> {
        let mut all = self.options(load, &[])?;
        if let Some(key) = load.keys().find(|k| is_condition(k.get_ref())) {
            return Err(
                self.refuse(key.span(), format!("'{}' is a host condition: set it under [host]", key.get_ref()))
            );
        }
        if let Some(key) = host.keys().find(|k| !is_condition(k.get_ref())) {
            let known = Conditions::NAMES.join(", ");
            let what = format!("unknown host condition '{}': the host conditions are {known}", key.get_ref());
            return Err(self.refuse(key.span(), what));
        }
        all.extend(self.options(host, &[])?);
        Ok(all)
    }

    /// Checks each option at its position; `skip`: keys that are not options.
    pub(super) fn options(&self, raw: &RawOptions, skip: &[&str]) -> Result<Options> {
        let mut out = Options::new();
        for (key, value) in raw.iter().filter(|(k, _)| !skip.contains(&k.get_ref().as_str())) {
            self.option(key, value)?;
            out.insert(key.get_ref().clone(), value.get_ref().clone());
        }
        Ok(out)
    }

    pub(super) fn option(&self, key: &Spanned<String>, value: &Spanned<Value>) -> Result<()> {
        let name = key.get_ref();
        let known = self.kind.option_names();
        if !known.contains(name) && !is_condition(name) {
            let known = known.join(", ");
            let conditions = Conditions::NAMES.join(", ");
            let what = format!(
                "unknown load option '{name}': the options are {known}, and the host conditions are {conditions}"
            );
            return Err(self.refuse(key.span(), what));
        }
        let alone: Options = [(name.clone(), value.get_ref().clone())].into_iter().collect();
        settled(self.kind, alone).map(drop).map_err(|why| {
            let what = match value.get_ref() {
                // The reason names the value of a list.
                Value::Array(_) => format!("'{name}': {why}"),
                one => format!("'{name}' does not accept {one}: {why}"),
            };
            self.refuse(value.span(), what)
        })
    }

    /// The options of a fio job file in the same directory, and the options that could not be mapped.
    pub(super) fn fio(&self, path: &Spanned<String>) -> Result<(Options, Vec<String>)> {
        let name = path.get_ref();
        let beside = Path::new(self.origin).parent().unwrap_or(Path::new("")).join(name);
        let text = input::text(&beside, LONGEST)
            .map_err(|e| self.refuse(path.span(), format!("cannot read the fio job file {}: {e}", beside.display())))?;
        let imported = fio::import(&text, name).map_err(|e| self.refuse(path.span(), e))?;
        let unmapped = imported.unmapped.iter().map(|(line, what)| format!("{name}:{line}: {what}"));
        Ok((imported.options, unmapped.chain(imported.notes.iter().map(|note| format!("{name}: {note}"))).collect()))
    }
}

fn is_condition(name: &str) -> bool {
    Conditions::NAMES.contains(&name)
}

/// Turns options into settings of load and host, with defaults. Fails if options are incompatible.
pub fn settled(kind: Kind, options: Options) -> std::result::Result<Settled, String> {
    let (host, load): (Options, Options) = options.into_iter().partition(|(name, _)| is_condition(name));
    let host = Conditions::deserialize(Value::Table(host)).map_err(|e| e.message().to_owned())?;
    Ok(Settled { load: kind.load(load)?, host })
}
