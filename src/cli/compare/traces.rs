//! Compares two traces.

use super::CompareArgs;
use crate::cli::stored_trace::NamedTrace;
use iotrail_answer::trace_comparison::compare;
use iotrail_base::error::{Error, Result};
use iotrail_report::terminal;
use iotrail_store::named;

pub fn run(args: &CompareArgs, a: &NamedTrace, b: &NamedTrace) -> Result<u8> {
    if !args.fail_on.is_empty() || !args.metric.is_empty() {
        return Err(Error::input(
            "a comparison of two single traces gives no verdict on a metric",
            "set limits with `iotrail trace --expect`, or compare repeats: `iotrail try`, `iotrail run`",
        ));
    }
    let compared = compare((&a.name, &a.record), (&b.name, &b.record));
    let again = format!("iotrail compare {} {}{}", args.a, args.b, named(args.store.as_deref()));
    match args.json {
        true => terminal::print_json(&compared)?,
        false => terminal::show(&terminal::traces_compared(&compared, args.full, &again))?,
    }
    Ok(0)
}
