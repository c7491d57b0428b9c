//! Error texts for loads that the kernel refuses.

use crate::support;
use iotrail_base::error::Error;

pub(super) fn refused(why: String, remedy: &str) -> Error {
    Error::machine(format!("the probes cannot be loaded: {why}"), remedy)
}

pub(super) fn load_error(e: libbpf_rs::Error) -> Error {
    let (why, remedy) = support::refusal(&e);
    refused(why, remedy).because(e)
}

pub(super) fn unreadable(e: libbpf_rs::Error) -> Error {
    Error::machine("cannot read the probes' counters", "report this").because(e)
}
