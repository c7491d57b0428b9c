//! Error texts for loads that the kernel refuses.

use crate::support;
use iotrail_base::error::Error;

const LOADING: &str = "the probes cannot be loaded";

pub(super) fn refused(why: String, remedy: &str) -> Error {
    Error::machine(format!("{LOADING}: {why}"), remedy)
}

pub(super) fn load_error(e: libbpf_rs::Error) -> Error {
    support::refused(LOADING, e)
}

pub(super) fn unreadable(e: libbpf_rs::Error) -> Error {
    Error::machine("cannot read the probes' counters", "report this").because(e)
}
