//! fio's job files: the options that map to `bench`, and those that do not (docs/formats.md).
//!
//! | file | responsible for |
//! |---|---|
//! | `job` | the text: sections, comments, values with fio's units |
//! | `map`, `engine` | one job's options → `bench`'s; its engine and the kernel features that it uses |
//! | `passed_over` | options that need no counterpart |
//!
//! fio's defaults are part of its load: buffered I/O, a depth of 1, ring flags set without a request. The import sets
//! and reports them.

mod engine;
mod job;
mod map;
mod passed_over;

use serde::Deserialize;

use iotrail_base::error::{Error, Result};
use iotrail_load::options::LoadOptions;

/// The part of a job that was mapped.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// `bench`'s options by name, without leading dashes.
    pub options: toml::Table,
    /// Line and text of each unmapped option, with the reason.
    pub unmapped: Vec<(usize, String)>,
    /// Defaults that were added to the load, and differences in mapped options.
    pub notes: Vec<String>,
}

/// Imports a file's only job; `origin`: the file's name in messages.
///
/// Usage errors (with the line): no job or several jobs, an `include`, a variable, an engine or access pattern without
/// a counterpart, an invalid value.
pub fn import(text: &str, origin: &str) -> Result<Imported> {
    let job = job::read(text).map_err(|at| refuse(origin, &at))?;
    let imported = map::map(job).map_err(|at| refuse(origin, &at))?;
    // Mapped options are validated like user options.
    LoadOptions::deserialize(toml::Value::Table(imported.options.clone()))
        .map_err(|e| refuse(origin, &Fault { line: None, what: e.message().to_owned() }))?;
    Ok(imported)
}

/// An error and its position.
#[derive(Debug, PartialEq)]
struct Fault {
    line: Option<usize>,
    what: String,
}

impl Fault {
    fn line(line: usize, what: impl Into<String>) -> Self {
        Self { line: Some(line), what: what.into() }
    }
}

fn refuse(origin: &str, at: &Fault) -> Error {
    let line = at.line.map_or_else(String::new, |n| format!(":{n}"));
    Error::input(
        format!("{origin}{line}: {}", at.what),
        "docs/formats.md lists the supported fio options; `iotrail trace -- fio JOB` traces fio itself",
    )
}

#[cfg(test)]
mod tests;
