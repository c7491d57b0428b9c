//! The table of files of a traced program.

use super::*;
use iotrail_base::words::UNKNOWN;
use iotrail_schema::file::Kind;
use iotrail_schema::measurement::Latency;
use iotrail_schema::trace_record::{ErrnoCount, Estimate, FileRecord, FileRequests};
use iotrail_testing::trace::clean;

/// A file with `reads` reads of 4 KiB and half as many writes, all traced.
pub fn file(kind: Kind, reads: u64) -> FileRecord {
    let exactly = |n: u64| Estimate { total: n as f64, ci95: [n as f64; 2] };
    let of = |n: u64| FileRequests { followed: n, requests: exactly(n), bytes: Some(exactly(4096 * n)) };
    FileRecord {
        kind,
        path: None,
        path_is_whole: false,
        deleted: false,
        device: None,
        inode: None,
        filesystem: None,
        queue_device: None,
        logical_block_bytes: None,
        nr_requests: None,
        tgid: Some(1234),
        processes: 1,
        descriptors: vec!["fd 9".into()],
        more_descriptors: 0,
        followed: reads + reads / 2,
        reads: Some(of(reads)),
        writes: Some(of(reads / 2)),
        others: None,
        latency_ns: Latency { count: reads, mean: Some(81_000.0), p99: Some(400_000), ..Latency::default() },
        appended: 0,
    }
}

#[test]
fn untraced_requests_are_not_printed_as_zero() {
    let mut t = clean();
    t.total.followed.no_room = 0;
    t.total.files = vec![FileRecord { writes: None, ..file(Kind::File, 1_000) }];
    let row = |t: &TraceRecord| {
        let text = trace::screen(t, true, PLAIN).to_string();
        let row = text.lines().find(|l| l.starts_with("file (fd 9)")).expect("a row").to_owned();
        (row.split_whitespace().nth(7).unwrap_or_default().to_owned(), text)
    };
    let (writes, text) = row(&t);
    assert!(writes == "0" && !text.contains("no or few requests were traced"), "{text}");
    assert!(!text.contains("refused"), "{text}");
    let refused = ErrnoCount { errno: "EINVAL".into(), count: 1, user_data: None };
    t.total.opcodes[0].errnos = vec![refused];
    assert!(row(&t).1.contains("(requests rejected at submission have no file)\n"));
    t.total.followed.came_later = Some(9);
    let (writes, text) = row(&t);
    assert_eq!(writes, UNKNOWN, "{text}");
    assert!(
        text.contains("(–: no or few requests were traced; files without a traced request are missing)\n"),
        "{text}"
    );
}

#[test]
fn estimated_requests_of_a_file_are_marked_or_unknown() {
    let mut t = clean();
    let of = |total: f64, ci95| Some(FileRequests { followed: 100, requests: Estimate { total, ci95 }, bytes: None });
    let (reads, writes) = (of(990.0, [950.0, 1_040.0]), of(188.0, [188.0, 555.0]));
    t.total.files = vec![FileRecord { reads, writes, ..file(Kind::File, 1_000) }];
    let text = trace::screen(&t, true, PLAIN).to_string();
    let row = text.lines().find(|l| l.starts_with("file (fd 9)")).unwrap();
    assert_eq!(row.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["~990", UNKNOWN], "{row}");
}

#[test]
fn long_file_names_keep_their_ends() {
    let mut t = clean();
    let path = |n: u64| Some(format!("/var/lib/postgresql/18/main/base/16384/24{n:03}"));
    let of = |n: u64| FileRecord { path: path(n), deleted: n == 1, ..file(Kind::File, 1000 - n) };
    t.total.files = (0..20).map(of).collect();
    t.total.files[2].path = Some("/a/\u{1b}]0;x\u{7}".into());
    t.total.files[3] = FileRecord { descriptors: vec![], ..file(Kind::Eventfd, 900) };
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    let rows: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("file ")).take_while(|l| !l.is_empty()).collect();
    assert_eq!(rows.len(), 12, "{text}");
    assert_eq!(rows[10], "(estimated from the traced requests; opcodes are counted)");
    let mut exact = t.clone();
    exact.total.followed.no_room = 0;
    assert!(!trace::screen(&exact, true, PLAIN).to_string().contains("(estimated from"), "all were traced");
    assert!(
        rows[1].starts_with("…/main/base/16384/24000 ") && rows[2].starts_with("…/base/16384/24001 (del) "),
        "{text}"
    );
    assert!(rows[3].starts_with("/a/\\u{1b}]0;x\\u{7}") && rows[4].starts_with("eventfd "), "{text}");
    assert!(rows[9].starts_with("12 others: 17.") && rows[9].ends_with(" k requests"), "{text}");
}
