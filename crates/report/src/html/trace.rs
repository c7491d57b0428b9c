//! The page of a trace.
use super::Answered;
use iotrail_base::error::Result;
use iotrail_schema::trace_record::TraceRecord;

pub fn page(name: &str, t: &TraceRecord, again: &str) -> Result<String> {
    let _ = (t, again);
    Answered {
        title: name.into(),
        answer: String::new(),
        name: name.into(),
        between_title: "",
        between: vec![],
        figures: vec![],
    }
    .page()
}
