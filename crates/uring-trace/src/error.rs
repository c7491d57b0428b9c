//! The errors of this crate.

use std::error::Error as StdError;
use std::io;

/// Why a trace failed. [`source`](StdError::source) returns the underlying error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller may not load BPF programs for tracing.
    #[error("CAP_BPF and CAP_PERFMON are required in the initial user namespace")]
    Privileges,
    /// The kernel rejected the BPF programs, or their data could not be read.
    #[error("{message}")]
    Probes {
        /// The failed step and its reason.
        message: String,
        /// The error of the kernel or of libbpf, if one was returned.
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The process does not exist, or cannot be observed.
    #[error("cannot trace process {pid}")]
    Process {
        /// The process ID that the caller specified.
        pid: u32,
        /// The error of the system call.
        source: io::Error,
    },
    /// The command could not be started, or its exit status could not be read.
    #[error("cannot run the command")]
    Command(#[source] io::Error),
}

impl Error {
    /// Omits the advice for users of the command line.
    pub(crate) fn probes(e: iotrail_base::error::Error) -> Self {
        Error::Probes { message: e.what, source: e.source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_cause_as_source_and_no_advice() {
        let e = iotrail_base::error::Error::machine("cannot load the probes", "run as root");
        let e = Error::probes(e.because(io::Error::from_raw_os_error(1)));
        assert_eq!(e.to_string(), "cannot load the probes");
        assert_eq!(e.source().unwrap().to_string(), "Operation not permitted (os error 1)");
        assert!(Error::Privileges.source().is_none());
    }
}
