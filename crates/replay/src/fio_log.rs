//! Converts fio's iolog, versions 2 and 3, to events: synchronous calls of one thread. The log has neither calls nor
//! completions, so depth and latency are unknown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::ops::ControlFlow;
use std::path::Path;

use iotrail_base::error::{Error, Result};
use iotrail_schema::replay_log::{ReplayEvent, ReplayFile, ReplayOp, ReplaySync};

/// The first line, followed by the version.
const FIRST: &str = "fio version ";
/// Maximum line length in bytes.
const LINE_BYTES: u64 = 16 << 10;

/// Whether the file starts like an iolog.
pub fn is_one(path: &Path) -> bool {
    let mut begin = [0; FIRST.len()];
    File::open(path).and_then(|mut f| f.read_exact(&mut begin)).is_ok_and(|()| begin == FIRST.as_bytes())
}

/// Calls `each` for every event until it breaks. Usage error: a line that is not valid in an iolog.
pub fn read(path: &Path, each: &mut dyn FnMut(ReplayEvent) -> ControlFlow<()>) -> Result<()> {
    // A file's size is the end of its last request, which must be known first.
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    lines(path, &mut |line| {
        let end = ends.entry(line.file.to_owned()).or_default();
        *end = (*end).max(line.offset.saturating_add(line.len));
        ControlFlow::Continue(())
    })?;
    let numbers: BTreeMap<&String, u32> = ends.keys().zip(0..).collect();
    for (name, size) in &ends {
        let file = ReplayFile { file: numbers[name], path: name.clone(), replayable: true, open_flags: 0, size: *size };
        if each(ReplayEvent::File(file)).is_break() {
            return Ok(());
        }
    }
    lines(path, &mut |line| {
        each(ReplayEvent::Sync(ReplaySync {
            tid: 1,
            enter_ns: line.at_ns,
            exit_ns: line.at_ns,
            think_ns: 0,
            op: line.op,
            file: numbers.get(&line.file.to_owned()).copied(),
            offset: line.offset,
            len: line.len,
            op_flags: 0,
            result: i64::try_from(line.len).unwrap_or(i64::MAX),
        }))
    })
}

/// One request.
struct Line<'a> {
    at_ns: u64,
    file: &'a str,
    op: ReplayOp,
    offset: u64,
    len: u64,
}

fn lines(path: &Path, each: &mut dyn FnMut(Line<'_>) -> ControlFlow<()>) -> Result<()> {
    let refused =
        |e| Error::input(format!("cannot read {}", path.display()), "specify a recording or an iolog").because(e);
    let mut file = BufReader::new(File::open(path).map_err(refused)?);
    let (mut text, mut number, mut version, mut waited_us) = (Vec::new(), 0u64, 0, 0u64);
    loop {
        text.clear();
        number += 1;
        if file.by_ref().take(LINE_BYTES).read_until(b'\n', &mut text).map_err(refused)? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&text);
        let bad = |why: &str| {
            Error::input(
                format!("{why}: {:?}", line.trim_end()),
                "specify an iolog of version 2 or 3, as written by fio --write_iolog",
            )
            .at(format!("{}:{number}", path.display()))
        };
        if number == 1 {
            version = match line.trim_end() {
                "fio version 2 iolog" => 2,
                "fio version 3 iolog" => 3,
                _ => return Err(bad("unknown version")),
            };
            continue;
        }
        let mut words = line.split_whitespace();
        let mut at_us = waited_us;
        if version == 3 {
            at_us = words.next().and_then(|w| w.parse().ok()).ok_or_else(|| bad("no time"))?;
        }
        let (Some(file), Some(action)) = (words.next(), words.next()) else { return Err(bad("no action")) };
        let mut number = || words.next().map_or(Ok(0), str::parse::<u64>).map_err(|_| bad("no number"));
        let (offset, len) = (number()?, number()?);
        let op = match action {
            "add" | "open" | "close" => continue,
            "wait" => {
                waited_us = waited_us.saturating_add(offset);
                continue;
            }
            "read" => ReplayOp::Read,
            "write" => ReplayOp::Write,
            "sync" => ReplayOp::Fsync,
            "datasync" => ReplayOp::Fdatasync,
            "trim" => ReplayOp::Other,
            _ => return Err(bad("unknown action")),
        };
        if each(Line { at_ns: at_us.saturating_mul(1000), file, op, offset, len }).is_break() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::program::OpKind;

    fn read_text(text: &str) -> Result<Vec<ReplayEvent>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, text).unwrap();
        assert!(is_one(&path));
        let mut all = Vec::new();
        read(&path, &mut |event| {
            all.push(event);
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    #[test]
    fn fio_logs_of_versions_2_and_3_become_synchronous_calls() {
        let of_3 = "fio version 3 iolog\n1 /d add\n2 /d open\n3 /d read 4096 8192\n9 /d write 0 4096\n12 /d datasync 0 0\n13 /d close\n";
        let of_2 = "fio version 2 iolog\n/d add\n/d open\n/d wait 3 0\n/d read 4096 8192\n/d wait 6 0\n/d write 0 4096\n/d datasync 0 0\n";
        for text in [of_3, of_2] {
            let mut compiler = Compiler::new(100);
            read_text(text).unwrap().iter().for_each(|event| assert!(compiler.take(event).is_continue()));
            let program = compiler.finish().unwrap();
            let ops = &program.threads[0].ops;
            let kinds: Vec<OpKind> = ops.iter().map(|op| op.kind).collect();
            assert_eq!(kinds, [OpKind::Read, OpKind::Write, OpKind::Fsync]);
            assert_eq!((ops[0].offset, ops[0].len, program.threads[0].steps[1].at_ns), (4096, 8192, 6000));
            assert_eq!((program.files[0].size, program.files[0].written_to), (12288, Some(4096)));
        }
    }

    #[test]
    fn an_invalid_log_line_is_reported_with_its_line_number() {
        let refused = |text: &str| read_text(text).unwrap_err().to_string();
        assert!(refused("fio version 3 iolog\n1 /d read x 1\n").contains("log:2: no number: \"1 /d read x 1\""));
        assert!(refused("fio version 4 iolog\n").contains("unknown version"));
        assert!(refused("fio version 2 iolog\n/d chew 0 1\n").contains("unknown action"));
    }
}
