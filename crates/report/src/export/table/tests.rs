//! Each field of a measurement has a column.

use std::collections::BTreeSet;

use super::*;
use crate::export::rows::Run;
use iotrail_schema::measurement::{DeliveredBy, Delivery, LoadRecord, Measurement};
use iotrail_schema::program_record::{OwnFigure, ProgramRecord, ProgramRing};
use iotrail_testing::sample;

/// A measurement with all optional parts, for storage and network.
pub fn full() -> Measurement {
    let mut m = sample::measurement();
    sample::echo(&mut m, 500, 10, 0.5);
    sample::delivered(&mut m, 1, 2);
    m.load.seed = Some(7);
    m
}

/// JSON pointers to all values except objects and lists of objects.
fn leaves(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, v)| leaves(v, &format!("{at}/{name}"), found)),
        Value::Array(items) if items.iter().any(|i| i.is_object()) => (),
        _ => drop(found.insert(at.to_owned())),
    }
}

#[test]
fn each_measurement_field_has_a_column() {
    let mut found = BTreeSet::new();
    let mut of_program = full();
    of_program.program = Some(ProgramRecord::default().into());
    for m in [full(), of_program] {
        leaves(&serde_json::to_value(m).unwrap(), "", &mut found);
    }
    let lists: Vec<&str> =
        all().filter_map(|t| if let RowSubject::Item(at) = t.of { Some(at) } else { None }).collect();
    let told = |at: &str| {
        MEASUREMENTS
            .columns
            .iter()
            .any(|c| at == c.at || at.starts_with(&format!("{}/", c.at)) || c.at.starts_with(&format!("{at}/")))
            || lists.iter().any(|list| at == *list || list.starts_with(&format!("{at}/")))
            || at == "/host/hostname"
            // Loads measure all latencies, so their mean is exact.
            || at == "/latency_ns/mean_ci95"
    };
    let untold: Vec<&String> = found.iter().filter(|at| !told(at)).collect();
    assert!(untold.is_empty(), "no column for {untold:?}");
}

#[test]
fn per_io_columns_have_the_names_of_their_metrics() {
    for metric in iotrail_answer::compare::Metric::PER_IO {
        let at = format!("/per_io/{}", metric.field());
        assert!(MEASUREMENTS.columns.iter().any(|c| (c.name, c.at) == (metric.name(), at.as_str())), "{metric}");
    }
}

#[test]
fn each_column_has_a_source() {
    // The sample lacks one object, whose fields another test checks.
    let json = serde_json::to_value(full()).unwrap();
    let parent_is_known = |at: &str| {
        let parent = &at[..at.rfind('/').unwrap_or(0)];
        matches!(json.pointer(parent), Some(Value::Object(_)))
    };
    for c in MEASUREMENTS.columns.iter().filter(|c| parent_is_known(c.at)) {
        assert!(json.pointer(c.at).is_some(), "{} has no source: {}", c.name, c.at);
    }
    let mut names: Vec<&str> = IDENTITY.iter().chain(MEASUREMENTS.columns).map(|c| c.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]), "duplicate name");
}

#[test]
fn list_tables_contain_the_items_of_the_measurement() {
    let m = full();
    let json = serde_json::to_value(&m).unwrap();
    let rows = |name: &str| {
        let mut rows: Vec<Vec<Field>> = vec![];
        let table = all().find(|t| t.name == name).unwrap();
        let taken: Result<(), ()> = table.rows(&json, Some(&sample::histogram()), &mut |row| {
            assert_eq!(row.len(), table.columns.len());
            rows.push(row.to_vec());
            Ok(())
        });
        taken.unwrap();
        rows
    };
    let sum = |name: &str, column: usize| -> i64 {
        rows(name).iter().map(|r| if let Field::Integer(n) = r[column] { n } else { panic!("{r:?}") }).sum()
    };
    assert_eq!(rows("measurements").len(), 1);
    assert_eq!((rows("vehicles").len(), sum("vehicles", 2)), (2, 500));
    assert_eq!(rows("vehicles")[0][1], Field::Unknown);
    assert_eq!(rows("interrupts")[1][0], Field::Text("36".into()));
    assert_eq!(sum("mode_switches", 1), 1000);
    assert_eq!(sum("histogram", 2), 10_000);
    assert_eq!((rows("throughput").len(), sum("throughput", 1)), (40, 500));
    assert_eq!(rows("throughput")[39][0], Field::Integer(39));
    assert_eq!(rows("server_threads").len(), 1);
    assert_eq!(rows("target_interrupts")[0][2], Field::Text("1".into()));
}

#[test]
fn delivery_columns_are_separate_from_order() {
    let by = DeliveredBy { file_system: None, task_work: 1, inline: None };
    let m = full();
    assert_eq!(
        m.delivery(),
        Some(&Delivery { completions: 1000, without_ready: 0, inversions: 1, max_displacement: 2, by })
    );
    let json = serde_json::to_value(&m).unwrap();
    let column = |name: &str| MEASUREMENTS.columns.iter().find(|c| c.name == name).unwrap().field(&json);
    assert_eq!(column("delivery_inversions"), Field::Integer(1));
    assert_eq!(column("order_inversions"), Field::Integer(0));
    assert_eq!(column("delivery_by_file_system"), Field::Unknown);
    assert_eq!(column("load_ring_granted"), Field::Text("coop_taskrun".into()));
    assert_eq!(column("load_direct"), Field::Flag(true));
    assert_eq!(Run::from(m).count().unwrap(), 1);
}

#[test]
fn unknown_values_of_an_untraced_program_are_null_not_zero() {
    let known = sample::measurement();
    let m = Measurement {
        load: LoadRecord { engine: "program".into(), ..LoadRecord::default() }.into(),
        elapsed_ns: known.elapsed_ns,
        program: Some(ProgramRecord::default().into()),
        ..Measurement::default()
    };
    let json = serde_json::to_value(&m).unwrap();
    for name in ["ios", "operations", "bytes", "errors", "short_ios", "iops", "phases"] {
        assert!(json[name].is_null(), "{name}: {}", json[name]);
    }
    assert_eq!(serde_json::from_value::<Measurement>(json.clone()).unwrap(), m);
    let field = |name: &str, of: &Value| MEASUREMENTS.columns.iter().find(|c| c.name == name).unwrap().field(of);
    for name in
        ["ios", "bytes", "iops", "phase_poll_share", "load_depth", "load_block_bytes", "load_direct", "load_think_ns"]
    {
        assert_eq!(field(name, &json), Field::Unknown, "{name}");
        assert_ne!(field(name, &serde_json::to_value(&known).unwrap()), Field::Unknown, "{name}");
    }
    assert_eq!(field("load_engine", &json), Field::Text("program".into()));
}

#[test]
fn the_metrics_and_rings_of_a_program_are_tables() {
    let figure = OwnFigure { name: "rate".into(), value: 1.5, less_is_better: false };
    let flags = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let ring = ProgramRing { pid: 9, asked: vec![], granted: flags(&["sqpoll", "clamp"]), ..ProgramRing::default() };
    let program = ProgramRecord {
        argv: flags(&["./db", "-x"]),
        figures: vec![figure],
        rings: vec![ring],
        ..ProgramRecord::default()
    };
    let json = serde_json::to_value(Measurement { program: Some(program.into()), ..full() }).unwrap();
    let rows = |name: &str| {
        let mut rows = Vec::new();
        let mut take = |row: &[Field]| {
            rows.push(row.to_vec());
            Ok::<_, ()>(())
        };
        all().find(|table| table.name == name).unwrap().rows(&json, None, &mut take).unwrap();
        rows
    };
    let text = |text: &str| Field::Text(text.into());
    assert_eq!(rows("figures"), [[text("rate"), Field::Number(1.5), Field::Flag(false)]]);
    let of_ring =
        [Field::Integer(0), Field::Integer(9), text(""), text("sqpoll,clamp"), Field::Unknown, Field::Unknown];
    assert_eq!(rows("program_rings"), [of_ring]);
    let argv = MEASUREMENTS.columns.iter().find(|c| c.name == "program_argv").unwrap();
    assert_eq!(argv.field(&json), text("./db,-x"));
}
