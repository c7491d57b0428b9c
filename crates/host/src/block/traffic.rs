//! Bytes transferred by the disks below a path since they appeared, for all processes.

use std::path::{Path, PathBuf};

use super::locate::{self, Kind};
use crate::files::{self, ROOT};

/// The counters of all disks below a path.
pub struct Counters(Vec<PathBuf>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub writes: u64,
    pub write_ns: u64,
    /// Number and total time (ns) of flushes; `None` before Linux 5.5.
    pub flushes: Option<(u64, u64)>,
}

impl Counters {
    /// `None` if nothing below the path is counted. Counting may be disabled for a disk (`queue/iostats`), and
    /// passthrough commands through a character device are not counted.
    pub fn below(path: &Path) -> Option<Self> {
        Self::below_in(Path::new(ROOT), &locate::place(path).ok()?)
    }

    pub(super) fn below_in(root: &Path, place: &locate::Place) -> Option<Self> {
        if place.kind == Kind::Character {
            return None;
        }
        let disks = locate::disks(root, place).disks;
        let dirs: Vec<PathBuf> = disks.into_iter().flat_map(|d| d.dirs).collect();
        let counts = |dir: &PathBuf| files::text(dir, "queue/iostats").is_some_and(|on| on != "0");
        (!dirs.is_empty() && dirs.iter().all(counts)).then_some(Self(dirs))
    }

    /// Current sum over all disks. A request is counted when it completes.
    pub fn read(&self) -> Option<Moved> {
        let read = |dir: &PathBuf| parse(&files::text(dir, "stat")?);
        let all: Option<Vec<Moved>> = self.0.iter().map(read).collect();
        all?.into_iter().reduce(|a, b| a.with(b, u64::wrapping_add))
    }
}

impl Moved {
    pub fn since(self, before: Moved) -> Moved {
        self.with(before, u64::saturating_sub)
    }

    fn with(self, other: Moved, of: fn(u64, u64) -> u64) -> Moved {
        Moved {
            read_bytes: of(self.read_bytes, other.read_bytes),
            written_bytes: of(self.written_bytes, other.written_bytes),
            writes: of(self.writes, other.writes),
            write_ns: of(self.write_ns, other.write_ns),
            flushes: self.flushes.zip(other.flushes).map(|(a, b)| (of(a.0, b.0), of(a.1, b.1))),
        }
    }
}

/// Documentation/block/stat.rst: reads, merged reads, sectors, ms; the same for writes; at the end flushes, ms. A
/// sector is 512 bytes on every disk.
fn parse(stat: &str) -> Option<Moved> {
    const NS_OF_MS: u64 = 1_000_000;
    let fields: Vec<u64> = stat.split_whitespace().map_while(|n| n.parse().ok()).collect();
    let at = |i: usize| fields.get(i).copied();
    Some(Moved {
        read_bytes: at(2)? * 512,
        written_bytes: at(6)? * 512,
        writes: at(4)?,
        write_ns: at(7)? * NS_OF_MS,
        flushes: at(15).zip(at(16)).map(|(n, ms)| (n, ms * NS_OF_MS)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    const STAT: &str = "  100 7 8000 50 20 3 1600 9 0 44 59 1 2 3 4 5 6\n";

    fn place(major: u32, minor: u32, kind: Kind) -> locate::Place {
        locate::Place { path: "/dev/x".into(), kind, major, minor }
    }

    #[test]
    fn sectors_of_all_disks_are_summed() {
        let t = Tree::new()
            .file("sys/devices/a/vda/stat", STAT)
            .file("sys/devices/a/vda/queue/iostats", "1\n")
            .file("sys/devices/b/vdb/stat", STAT)
            .file("sys/devices/b/vdb/queue/iostats", "1\n")
            .link("sys/devices/virtual/md0/slaves/vda", "sys/devices/a/vda")
            .link("sys/devices/virtual/md0/slaves/vdb", "sys/devices/b/vdb")
            .link("sys/dev/block/9:0", "sys/devices/virtual/md0")
            .link("sys/dev/block/254:0", "sys/devices/a/vda");
        let of = |n: u64| Moved {
            read_bytes: n * 8000 * 512,
            written_bytes: n * 1600 * 512,
            writes: n * 20,
            write_ns: n * 9_000_000,
            flushes: Some((n * 5, n * 6_000_000)),
        };
        let one = of(1);
        let read = |major| Counters::below_in(t.root(), &place(major, 0, Kind::Block)).unwrap().read();
        assert_eq!(read(254), Some(one));
        assert_eq!(read(9), Some(of(2)));
        assert_eq!(one.since(Moved { read_bytes: 512, ..Moved::default() }).read_bytes, 7999 * 512);
    }

    #[test]
    fn a_disk_without_counters_is_unknown() {
        let t = Tree::new()
            .file("sys/devices/a/vda/stat", STAT)
            .file("sys/devices/a/vda/queue/iostats", "0\n")
            .link("sys/dev/block/254:0", "sys/devices/a/vda");
        assert!(Counters::below_in(t.root(), &place(254, 0, Kind::Block)).is_none());
        assert!(Counters::below_in(t.root(), &place(254, 0, Kind::Character)).is_none());
        assert!(Counters::below_in(t.root(), &place(8, 0, Kind::Block)).is_none());
        assert_eq!(parse("1 2 3"), None);
        assert_eq!(parse("1 2 3 4 5 6 7 8 9 10 11").unwrap().flushes, None, "before 5.5");
    }
}
