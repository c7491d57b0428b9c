//! Files for other tools to read, one module per format. What is exported comes in as records, never from what made them.

pub mod flamegraph;
pub mod folded;
pub mod perfetto;
