//! Privileges that tracing needs.

use iotrail_base::error::{Error, Result};
use iotrail_host::privileges::{Capability, Privileges};

/// Checks that this process may load the probes, before anything is started.
pub fn allowed() -> Result<()> {
    let privileges = Privileges::read();
    let has = |capability| privileges.has(capability) != Some(false);
    if has(Capability::SysAdmin) || (has(Capability::Bpf) && has(Capability::Perfmon)) {
        return Ok(());
    }
    let inside = privileges.initial_namespace == Some(false) && privileges.euid == 0;
    Err(Error::machine(
        match inside {
            true => "in this user namespace, root may not load the probes (BPF programs)",
            false => "this user may not load the probes (BPF programs)",
        },
        match inside {
            true => "run iotrail on the host, outside the container",
            false => "run as root, or with CAP_BPF and CAP_PERFMON",
        },
    ))
}
