//! File descriptors: each connection takes one.

use std::io;

use iotrail_base::error::{Error, Result};

/// For what opens a few beside the connections.
const SPARE: u64 = 32;

/// Raises the limit of open files as far as it goes; what it is then.
pub fn raise() -> Result<u64> {
    let cannot = |e: io::Error| Error::machine("cannot read the limit of open files", "").because(e);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live structure that the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(cannot(io::Error::last_os_error()));
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    // SAFETY: a live structure that the call reads.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } {
        0 => Ok(raised.rlim_cur),
        _ => Ok(limit.rlim_cur),
    }
}

/// An error unless `connections` more can be opened, and some other files; raises the limit for it.
pub fn make_room(connections: u64) -> Result<()> {
    let limit = raise()?;
    let open = std::fs::read_dir("/proc/self/fd")
        .map_err(|e| Error::machine("cannot count the open files", "is /proc there?").because(e))?
        .count() as u64;
    room(limit, open, connections)
}

fn room(limit: u64, open: u64, connections: u64) -> Result<()> {
    let most = limit.saturating_sub(open + SPARE);
    if connections <= most {
        return Ok(());
    }
    Err(Error::machine(
        format!("{connections} connections are more than the {limit} files that a process may open allow"),
        format!("use at most {most}, or raise the hard limit (ulimit -Hn)"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_says_how_many_can_be_had() {
        assert!(room(1024, 10, 982).is_ok());
        let e = room(1024, 10, 983).unwrap_err();
        assert_eq!(
            e.to_string(),
            "983 connections are more than the 1024 files that a process may open allow; \
             use at most 982, or raise the hard limit (ulimit -Hn)"
        );
        assert!(make_room(1).is_ok());
    }
}
