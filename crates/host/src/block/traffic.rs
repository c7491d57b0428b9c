//! Bytes that the disks under a path have moved since they appeared, for all processes.

use std::path::{Path, PathBuf};

use super::locate::{self, Kind};
use crate::files::{self, ROOT};

/// The counters of all disks under a path.
pub struct Counters(Vec<PathBuf>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl Counters {
    /// `None`: nothing below the path counts. A disk may have its counting turned off (`queue/iostats`), and commands that
    /// are passed through to one by its character device are not counted.
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

    /// All disks together, as of now: a request is counted when it is done.
    pub fn read(&self) -> Option<Moved> {
        self.0.iter().try_fold(Moved::default(), |sum, dir| {
            let of = parse(&files::text(dir, "stat")?)?;
            Some(Moved {
                read_bytes: sum.read_bytes + of.read_bytes,
                written_bytes: sum.written_bytes + of.written_bytes,
            })
        })
    }
}

impl Moved {
    pub fn since(self, before: Moved) -> Moved {
        Moved {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

/// Documentation/block/stat.rst: reads, merged, sectors, ms; the same of writes. Its sectors are 512 bytes for every disk.
fn parse(stat: &str) -> Option<Moved> {
    let mut fields = stat.split_whitespace().map(|n| n.parse::<u64>().ok());
    let read = fields.nth(2)??;
    let written = fields.nth(3)??;
    Some(Moved { read_bytes: read * 512, written_bytes: written * 512 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

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
        let one = Moved { read_bytes: 8000 * 512, written_bytes: 1600 * 512 };
        let read = |major| Counters::below_in(t.root(), &place(major, 0, Kind::Block)).unwrap().read();
        assert_eq!(read(254), Some(one));
        assert_eq!(read(9), Some(Moved { read_bytes: 16_000 * 512, written_bytes: 3200 * 512 }));
        assert_eq!(one.since(Moved { read_bytes: 512, written_bytes: 0 }).read_bytes, 7999 * 512);
    }

    #[test]
    fn what_does_not_count_is_unknown() {
        let t = Tree::new()
            .file("sys/devices/a/vda/stat", STAT)
            .file("sys/devices/a/vda/queue/iostats", "0\n")
            .link("sys/dev/block/254:0", "sys/devices/a/vda");
        assert!(Counters::below_in(t.root(), &place(254, 0, Kind::Block)).is_none());
        assert!(Counters::below_in(t.root(), &place(254, 0, Kind::Character)).is_none());
        assert!(Counters::below_in(t.root(), &place(8, 0, Kind::Block)).is_none());
        assert_eq!(parse("1 2 3"), None);
    }
}
