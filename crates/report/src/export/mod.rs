//! Files for other tools to read, one module per format. What is exported comes in as records, never from what made them.
//!
//! | module | format |
//! |---|---|
//! | [`rows`] | the measurements of one run, which these are made of: |
//! | [`table`] → [`csv`], [`parquet`] | one row for each measurement, interrupt, bucket …; columns with their units |
//! | [`hdr`] | HdrHistogram's log |
//! | [`fio`] | fio's JSON |
//! | [`folded`], [`flamegraph`] | samples as folded stacks, and drawn |
//! | [`perfetto`] | a recording, for ui.perfetto.dev |
//! | [`requests`] | a recording as CSV, and as fio's I/O log |
//! | [`stacks`] | a trace's call sites as folded stacks, and as pprof's profile |
//! | [`replay`] | the same of a recording for replay |
//! | [`openmetrics`] | what is watched, for a scrape |

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

/// Text in which only what is plain stays as it is: the bytes of the rest are written as in URLs.
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

/// A name for a file or folder, whatever the text; never `.` or `..`, since a letter comes first where it is used.
fn file_name(text: &str) -> String {
    encoded(text, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}
