//! File descriptors, of which each connection needs one.

use rustix::process::{Resource, Rlimit, setrlimit};

use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::limits;

/// Descriptors reserved for purposes other than connections.
const SPARE: u64 = 32;

/// Raises the soft limit on open files to the hard limit, and returns it.
pub fn raise() -> Result<u64> {
    let limit = limits::now(Resource::Nofile).or_machine("cannot read the open file limit", "")?;
    let raised = Rlimit { current: limit.maximum, ..limit };
    let now = setrlimit(Resource::Nofile, raised).map_or(limit, |()| raised);
    Ok(now.current.unwrap_or(u64::MAX))
}

/// Fails unless `connections` more descriptors (and a few others) can be opened; raises the soft limit if necessary.
pub fn make_room(connections: u64) -> Result<()> {
    let limit = raise()?;
    let open =
        std::fs::read_dir("/proc/self/fd").or_machine("cannot count the open files", "mount /proc")?.count() as u64;
    room(limit, open, connections)
}

fn room(limit: u64, open: u64, connections: u64) -> Result<()> {
    let most = limit.saturating_sub(open + SPARE);
    if connections <= most {
        return Ok(());
    }
    Err(Error::machine(
        format!("{connections} connections exceed the open file limit of {limit}"),
        format!("use at most {most}, or raise the hard limit (ulimit -Hn)"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_descriptor_limit_bounds_the_number_of_connections() {
        assert!(room(1024, 10, 982).is_ok());
        let e = room(1024, 10, 983).unwrap_err();
        assert_eq!(
            e.to_string(),
            "983 connections exceed the open file limit of 1024; \
             use at most 982, or raise the hard limit (ulimit -Hn)"
        );
        assert!(make_room(1).is_ok());
    }
}
