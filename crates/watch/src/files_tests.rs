use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;

use super::*;
use iotrail_schema::trail::RequestTrace;
use iotrail_schema::trail_example::trail;

const NAME: &str = "a\n\x1b[31m b";

/// Converts a device number from stat(2) to the kernel's encoding.
fn device_of(meta: &std::fs::Metadata) -> u32 {
    libc::major(meta.dev()) << 20 | libc::minor(meta.dev())
}

fn seen(file: &std::fs::File) -> FileSeen {
    let meta = file.metadata().unwrap();
    let (device, inode) = (device_of(&meta), meta.ino());
    FileSeen { kind: Kind::File, device, inode, generation: 1, deleted: false, appended: false }
}

#[test]
fn paths_are_found_while_the_process_has_the_file_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"x").unwrap();
    let (us, file_seen) = (std::process::id(), seen(&file));
    let mut names = Names::new(Rc::new(Numbers::SAME));
    // By its own descriptor, and by a descriptor that is not open.
    for descriptor in [Descriptor::Fd(file.as_raw_fd()), Descriptor::Fixed(3), Descriptor::Fd(1_000_000)] {
        names.met(us, Some(file_seen), Some(descriptor));
        names.next_scan = Instant::now();
        names.look();
        let key = Key::of(us, Some(file_seen), Some(descriptor)).unwrap();
        let name = names.name(&key).unwrap_or_else(|| panic!("{descriptor}"));
        assert_eq!(name.path, path.to_str().unwrap(), "{descriptor}");
        assert!(name.is_whole && !name.deleted && name.kind == Kind::File);
        names.found.clear();
    }
    // The descriptor now refers to another file.
    let gone = FileSeen { inode: file_seen.inode + 1_000_000, ..file_seen };
    names.met(us, Some(gone), Some(Descriptor::Fd(file.as_raw_fd())));
    for _ in 0..LOOKS {
        names.next_scan = Instant::now();
        names.look();
    }
    let key = Key::of(us, Some(gone), None).unwrap();
    assert_eq!((names.name(&key), names.waiting.len()), (None, 0));
    let last = LastName { device: gone.device, inode: gone.inode, generation: 1, name: "last".into() };
    names.told(last);
    let name = names.name(&key).unwrap();
    assert_eq!((name.path.as_str(), name.is_whole, name.stat), ("last", false, None));

    std::fs::remove_file(&path).unwrap();
    let name = link(us, file.as_raw_fd()).unwrap();
    assert_eq!((name.path.as_str(), name.deleted), (path.to_str().unwrap(), true));
}

#[test]
fn a_file_with_differing_stat_numbers_is_identified_by_name() {
    let key = Key::Inode { device: 8 << 20 | 2, inode: 5, generation: 0 };
    let name = |stat| Name { kind: Kind::File, path: "/a/b".into(), is_whole: true, deleted: false, stat: Some(stat) };
    assert!(is_it(&key, None, &name(((8, 2), 5)), false));
    // btrfs: another device, the same inode.
    assert!(is_it(&key, Some("b"), &name(((0, 40), 5)), false));
    assert!(!is_it(&key, Some("c"), &name(((0, 40), 5)), true));
    // overlayfs: both numbers differ.
    assert!(is_it(&key, Some("b"), &name(((0, 40), 6)), true) && !is_it(&key, Some("b"), &name(((0, 40), 6)), false));
    assert!(!is_it(&key, None, &name(((8, 2), 6)), true));
}

#[test]
fn descriptors_without_a_path_have_a_kind() {
    let (left, _right) = std::os::unix::net::UnixStream::pair().unwrap();
    let us = std::process::id();
    assert_eq!(link(us, left.as_raw_fd()).map(|n| (n.kind, n.path)), Some((Kind::Socket, "socket".into())));
    let eventfd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    // A descriptor number that concurrent tests do not use.
    let eventfd = rustix::io::fcntl_dupfd_cloexec(&eventfd, 700).unwrap();
    let number = eventfd.as_raw_fd();
    assert_eq!(link(us, number).map(|n| (n.kind, n.is_whole)), Some((Kind::Eventfd, false)));
    drop(eventfd);
    assert_eq!(link(us, number).map(|n| n.kind), None);
}

#[test]
fn registered_files_are_parsed_from_a_rings_fdinfo() {
    // Linux 6.18.
    let text = b"SqThread:\t-1\nUserFiles:\t3\n    0: /data/base/5/16384\n    2: /data/a\\040b\\012c (deleted)\nUserBufs:\t0\n";
    assert_eq!(registered_at(text, 0).as_deref(), Some("/data/base/5/16384"));
    assert_eq!(registered_at(text, 1), None);
    assert_eq!(registered_at(text, 2).as_deref(), Some("/data/a b\nc (deleted)"));
    // 6.1 shows only the last component.
    assert_eq!(registered_at(b"UserFiles:\t1\n    0: 16384\n", 0), None);
    assert_eq!(unescaped("a\\b\\134\\04"), "a\\b\\\\04");
}

#[test]
fn the_busiest_files_are_listed_and_the_others_summed() {
    let mut files = Files::default();
    let of = |inode, n: u64, weight| {
        let file =
            Some(FileSeen { kind: Kind::File, device: 1 << 20, inode, generation: 0, deleted: false, appended: false });
        let one = RequestTrace { file, descriptor: Some(Descriptor::Fd(inode as i32)), weight, ..trail() };
        (0..n).map(move |_| one.clone())
    };
    (1..=30).flat_map(|inode| of(inode, inode, 1)).for_each(|t| files.take(&t, true, 1));
    of(40, 100, 10).for_each(|t| files.take(&t, true, 1));
    // Native aio on the file with inode 30.
    files.take_reaped(9, 3, "pwrite", (1, 1), 512, 1000);
    let name = |key: &Key| {
        let inode = match key {
            Key::Inode { inode, .. } => *inode,
            Key::Descriptor { .. } => 30,
        };
        let path = format!("/f/{inode}");
        Some(Name { kind: Kind::File, path, is_whole: true, deleted: false, stat: Some(((1, 0), inode)) })
    };
    let (listed, others) = records(&files, &name, 10);
    assert_eq!(listed.len(), 20);
    let busiest = &listed[0];
    assert_eq!((busiest.path.as_deref(), busiest.followed), (Some("/f/40"), 100));
    let reads = busiest.reads.as_ref().unwrap();
    assert_eq!((reads.requests.total, reads.bytes.map(|b| b.total)), (1000.0, Some(4_096_000.0)));
    assert!(reads.requests.ci95[0] < 1000.0 && 1000.0 < reads.requests.ci95[1] && busiest.writes.is_none());
    let both = &listed[1];
    assert_eq!((both.inode, both.followed, both.processes, both.tgid), (Some(30), 31, 2, None));
    assert_eq!(both.device.as_deref(), Some("1:0"));
    assert_eq!(both.writes.as_ref().map(|w| w.requests.total), Some(1.0));
    let others = others.unwrap();
    assert_eq!((others.files, others.followed), (11, (1..=11).sum::<u64>()));
}
