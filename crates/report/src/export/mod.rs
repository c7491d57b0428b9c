//! Files for other tools, one module per format. Exports depend on records, never on the code that produced them.
//!
//! | module | format |
//! |---|---|
//! | [`rows`] | the measurements of one run, the source of the following: |
//! | [`table`] → [`csv`], [`parquet`] | one row per measurement, interrupt, bucket …; columns with their units |
//! | [`hdr`] | HdrHistogram's log |
//! | [`fio`] | fio's JSON |
//! | [`folded`], [`flamegraph`] | samples as folded stacks, and drawn |
//! | [`perfetto`] | a recording, for ui.perfetto.dev |
//! | [`requests`] | a recording as CSV, and as fio's I/O log |
//! | [`stacks`] | a trace's call sites as folded stacks, and as pprof's profile |
//! | [`replay`] | a recording for replay as CSV, and as fio's I/O log |
//! | [`openmetrics`] | the traced programs, for a scrape |

pub mod csv;
pub mod fio;
pub mod flamegraph;
pub mod folded;
pub mod hdr;
pub mod openmetrics;
pub mod parquet;
pub mod perfetto;
pub mod pprof;
pub mod replay;
pub mod requests;
pub mod rows;
#[cfg(test)]
mod sample;
pub mod stacks;
pub mod table;

/// Percent-encodes all bytes except plain characters.
fn encoded(text: &str, is_plain: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            out.push(c);
        } else {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        }
    }
    out
}

/// A safe name for a file or directory from any text; callers prefix a letter, so it is never `.` or `..`.
fn file_name(text: &str) -> String {
    encoded(text, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}
