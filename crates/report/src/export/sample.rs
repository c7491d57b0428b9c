//! Runs for the tests of exports.

use serde_json::{Map, json};

use super::rows::Run;
use iotrail_schema::run_record::CellRecord;
use iotrail_testing::sample::measurement;

/// What spreadsheets, terminals and separators take amiss.
pub const HOSTILE: [&str; 6] =
    ["=cmd|'/c calc'!A1", "a,\"b\"\r\nc;d=e %", "'already", "\u{1b}[31mred\u{7}", "-1+2\t", "ä\u{202e}x/../y\u{fffd}"];

/// Two cells with hostile names, of two repeats each.
pub fn run() -> Run {
    let cell = |number: u32| {
        let params: Map<String, serde_json::Value> =
            [("arm".to_owned(), json!(HOSTILE[number as usize % 6])), ("depth".to_owned(), json!(number * 16))]
                .into_iter()
                .collect();
        let repeat = |i: u64| {
            let mut m = measurement();
            m.started_unix_s += u64::from(number) * 10 + i;
            m.load.depth = number * 16;
            m.load.file = Some(HOSTILE[(number as usize + i as usize) % 6].into());
            m.host.hostname = HOSTILE[5].into();
            m
        };
        CellRecord { cell: number, params, untestable: None, measurements: vec![repeat(0), repeat(1)] }
    };
    Run {
        number: Some(3),
        experiment: Some(HOSTILE[0].into()),
        started_unix_s: 1_772_366_400,
        cells: vec![cell(1), cell(2)],
    }
}
