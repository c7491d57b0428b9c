use super::*;
use crate::salvage::salvage;
use iotrail_schema::fleet_record::NodeState;
use iotrail_testing::run::two_by_two;
use iotrail_testing::sample;

fn node(name: &str, state: NodeState, run: Option<i64>, said: Option<&str>) -> FleetNode {
    FleetNode { node: name.into(), state, run, said: said.map(Into::into) }
}

fn record(nodes: Vec<FleetNode>) -> FleetRecord {
    FleetRecord {
        schema: SCHEMA.into(),
        fleet: 0,
        name: "rack 4".into(),
        experiment: "two-by-two".into(),
        plan: "{}".into(),
        command: Some("iotrail run two-by-two --slurm c[1-3]".into()),
        started_unix_s: 1_772_366_400,
        finished_unix_s: None,
        nodes,
    }
}

/// Two runs, and a fleet of both and of two machines without runs.
fn made(dir: &tempfile::TempDir, name: &str) -> (Store, [i64; 2], FleetRecord) {
    let mut store = Store::create_or_open(&dir.path().join(name)).unwrap();
    let mut begin = || {
        let run = store.begin(&two_by_two(), "{}").unwrap();
        store.save(run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
        run
    };
    let runs = [begin(), begin()];
    let mut record = record(vec![
        node("c9", NodeState::Partial, Some(runs[0]), Some("the time was up")),
        node("c1", NodeState::Done, Some(runs[1]), None),
        node("c2", NodeState::Lost, None, None),
    ]);
    record.fleet = store.begin_fleet(&record).unwrap();
    (store, runs, record)
}

#[test]
fn a_fleet_is_read_back_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _, record) = made(&dir, "s.db");
    drop(store);
    let store = Store::open(&dir.path().join("s.db")).unwrap().unwrap();
    assert_eq!(store.fleet(record.fleet).unwrap(), Some(record.clone()));
    assert_eq!(store.fleets().unwrap(), std::slice::from_ref(&record));
    assert_eq!(store.fleet(record.fleet + 1).unwrap(), None);
}

#[test]
fn updates_of_a_machine_keep_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, runs, record) = made(&dir, "s.db");
    store.set_node(record.fleet, &node("c9", NodeState::Done, Some(runs[0]), None)).unwrap();
    store.set_node(record.fleet, &node("c3", NodeState::Failed, None, Some("no such file"))).unwrap();
    store.finish_fleet(record.fleet, 1_772_366_500).unwrap();
    let now = store.fleet(record.fleet).unwrap().unwrap();
    let of = |n: &FleetNode| (n.node.clone(), n.state, n.run);
    let expected = [
        ("c9", NodeState::Done, Some(runs[0])),
        ("c1", NodeState::Done, Some(runs[1])),
        ("c2", NodeState::Lost, None),
        ("c3", NodeState::Failed, None),
    ];
    assert_eq!(now.nodes.iter().map(of).collect::<Vec<_>>(), expected.map(|(n, s, r)| (n.to_owned(), s, r)));
    assert_eq!((now.nodes[3].said.as_deref(), now.finished_unix_s), (Some("no such file"), Some(1_772_366_500)));
    assert_eq!(now.runs().map(|(_, run)| run).collect::<Vec<_>>(), runs);
    // A machine requires an existing fleet, and an existing run if it has one.
    assert!(store.set_node(record.fleet + 1, &node("c1", NodeState::Done, None, None)).is_err());
    assert!(store.set_node(record.fleet, &node("c1", NodeState::Done, Some(99), None)).is_err());
}

#[test]
fn removing_a_run_keeps_its_machine_and_removing_a_fleet_its_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, runs, record) = made(&dir, "s.db");
    store.forget(runs[0]).unwrap();
    assert_eq!(store.fleet(record.fleet).unwrap().unwrap().nodes[0].run, None);
    store.forget_fleet(record.fleet).unwrap();
    assert_eq!(store.fleets().unwrap(), []);
    assert!(store.load(runs[1]).unwrap().is_some());
    let left: i64 = store.db.query_row("SELECT count(*) FROM fleet_nodes", [], |r| r.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn fleets_of_an_imported_store_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    drop(made(&dir, "there.db"));
    let (mut store, ours, first) = made(&dir, "here.db");
    let runs = store.take_in(&dir.path().join("there.db")).unwrap();
    assert_eq!(runs, ours.map(|run| run + 2));
    let fleets = store.fleets().unwrap();
    assert_eq!((fleets.len(), fleets[0].fleet), (2, first.fleet));
    let of: Vec<Option<i64>> = fleets[1].nodes.iter().map(|n| n.run).collect();
    assert_eq!(of, [Some(runs[0]), Some(runs[1]), None]);
    assert_eq!((fleets[1].name.as_str(), fleets[1].fleet), ("rack 4", first.fleet + 1));
}

#[test]
fn a_salvaged_store_keeps_its_fleets() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _, record) = made(&dir, "s.db");
    drop(store);
    let salvaged = salvage(&dir.path().join("s.db"), &dir.path().join("new.db")).unwrap();
    assert_eq!((salvaged.runs, salvaged.lost), (2, 0));
    assert_eq!(Store::open(&dir.path().join("new.db")).unwrap().unwrap().fleets().unwrap(), [record]);
}

#[test]
fn a_store_with_only_a_fleet_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut store = Store::create_or_open(&path).unwrap();
    store.begin_fleet(&record(vec![node("c1", NodeState::Waiting, None, None)])).unwrap();
    store.abandon();
    assert_eq!(Store::open(&path).unwrap().unwrap().fleets().unwrap().len(), 1);
}
