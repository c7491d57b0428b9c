//! What drives an engine: options → spec → workers; it knows nothing of the probes that may watch it.

pub mod options;
