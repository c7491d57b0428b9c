use super::*;
use crate::builtin;
use crate::file::parse;
use iotrail_schema::measurement::TargetInterrupt;

const TWO_BY_TWO: &str = r#"
name = "two-by-two"
title = "Two by two"
question = "Which?"
expect = "Either."
repeats = 3
control = false
[load]
runtime = "1s"
warmup = "150ms"
[matrix]
depth = [1, 4]
[[arm]]
name = "default"
[[arm]]
name = "coop_taskrun"
ring = "coop_taskrun"
"#;

pub(crate) fn two_by_two() -> Plan {
    let experiment = parse(TWO_BY_TWO, "two-by-two.toml").unwrap();
    plan(&experiment, false, &scratch(), &two_cpus(), &|_, _| None).unwrap()
}

fn scratch() -> Target {
    Target { path: Some("/data/scratch-1g".into()), size: Some(Bytes(1 << 30)), scratch: true, allow_write: false }
}

fn two_cpus() -> Facts<'static> {
    interrupts_on(&[1])
}

/// Two CPUs, and a disk that interrupts `cpus`.
fn interrupts_on(cpus: &[u32]) -> Facts<'static> {
    let interrupt = TargetInterrupt { irq: 36, name: "virtio1-req.0".into(), cpus: cpus.to_vec() };
    let target = measurement::Target { interrupts: vec![interrupt], ..Default::default() };
    Facts { online_cpus: vec![0, 1], may_watch: false, below: Box::leak(Box::new(move |_: &_| Some(target.clone()))) }
}

fn load(cell: &Cell) -> &LoadOptions {
    cell.load.storage().unwrap()
}

#[test]
fn each_parameter_combination_is_a_cell_with_its_options() {
    let p = two_by_two();
    let labels: Vec<&str> = p.cells.iter().map(|c| c.label.as_str()).collect();
    assert_eq!(
        labels,
        ["depth 1 · arm default", "depth 1 · arm coop_taskrun", "depth 4 · arm default", "depth 4 · arm coop_taskrun"]
    );
    let last = load(&p.cells[3]);
    assert_eq!((p.cells[3].number, last.depth, last.ring.as_str()), (4, 4, "coop_taskrun"));
    assert_eq!(last.file.as_deref(), Some(Path::new("/data/scratch-1g")));
    assert_eq!((last.size, last.allow_write), (Some(Bytes(1 << 30)), true));
    assert_eq!(p.arms, ["default", "coop_taskrun"]);
    // (160 ms + 150 ms + 1 s) × 4 cells × 3 repeats
    let all = Duration::from_millis(15_720);
    assert_eq!(p.estimate(), Estimate { stated: all, least: all, counted_ios: 0, runs: 0 });
    // The estimate includes the time of the probes.
    assert_eq!(Plan { may_watch: true, ..p }.estimate().stated, all + PROBES * 12);
}

#[test]
fn an_exclusive_option_of_an_arm_overrides_the_fixed_one() {
    let planned = |from: &str, to: &str| {
        assert!(TWO_BY_TWO.contains(from));
        let text = TWO_BY_TWO.replacen(from, to, 1);
        plan(&parse(&text, "x.toml").unwrap(), false, &scratch(), &two_cpus(), &|_, _| None)
    };
    let arm = "ring = \"coop_taskrun\"";
    let p = planned(arm, "count = 100").unwrap();
    assert_eq!((load(&p.cells[1]).count, load(&p.cells[1]).runtime), (Some(100), None));
    assert!(load(&p.cells[0]).runtime.is_some());
    let p = planned("[matrix]", "buffered = true\n[matrix]").unwrap();
    assert!(p.cells.iter().all(|c| load(c).buffered));
    let text = TWO_BY_TWO.replace("[matrix]", "buffered = true\n[matrix]").replace(arm, "direct = true");
    let p = plan(&parse(&text, "x.toml").unwrap(), false, &scratch(), &two_cpus(), &|_, _| None).unwrap();
    assert_eq!(
        p.cells[..2].iter().map(|c| (load(c).buffered, load(c).direct)).collect::<Vec<_>>(),
        [(true, false), (false, true)]
    );
    // Two parameters must not override each other.
    let e = planned("depth = [1, 4]", "count = [1, 4]\nwait = [\"block\"]").unwrap();
    assert!(e.cells.iter().all(|c| load(c).runtime.is_none()));
    let two = "direct = [false, true]\nbuffered = [false, true]";
    let e = planned("depth = [1, 4]", two).unwrap_err().to_string();
    assert!(e.contains("'direct' and 'buffered' cannot be combined"), "{e}");
}

#[test]
fn the_coop_experiment_has_168_cells_and_a_quick_form_below_two_minutes() {
    let coop = builtin::find("coop").unwrap();
    let full = plan(&coop, false, &scratch(), &two_cpus(), &|_, _| None).unwrap();
    assert_eq!((full.cells.len(), full.testable().count()), (168, 168));
    assert_eq!(full.axes, ["cpus", "wait", "neighbour", "depth", "arm"]);
    let quick = plan(&coop, true, &scratch(), &two_cpus(), &|_, _| None).unwrap();
    assert_eq!((quick.cells.len(), quick.repeats), (48, 6));
    // (160 ms + 50 ms + 200 ms) × 48 cells × 6 repeats
    assert_eq!(quick.estimate().stated, Duration::from_millis(118_080));
    let of = |p: &Plan, ring: &str| p.cells.iter().filter(|c| load(c).ring == ring).count();
    assert_eq!((of(&full, ""), of(&full, "coop_taskrun")), (112, 56), "the default, its control, and the other arm");
    assert_eq!(full.arms, ["default", "coop_taskrun"]);
}

#[test]
fn the_interfaces_experiment_has_36_cells() {
    let p = plan(&builtin::find("interfaces").unwrap(), false, &scratch(), &two_cpus(), &|_, _| None).unwrap();
    assert_eq!((p.cells.len(), p.repeats), (36, 16));
    let counts: Vec<_> = p.cells.iter().map(|c| load(c).count).collect();
    assert_eq!(counts.iter().filter(|c| **c == Some(5120)).count(), 12);
    assert!(p.cells.iter().all(|c| load(c).bs == Bytes(1024) && load(c).warmup.0.is_zero()));
    assert!(p.cells.iter().all(|c| load(c).depth == if load(c).engine == EngineKind::Sync { 1 } else { 1024 }));
    assert_eq!(p.estimate().counted_ios, (2048 + 5120 + 10240) * 12 * 16);
}

#[test]
fn cells_that_the_host_cannot_run_are_kept_with_a_reason() {
    let coop = builtin::find("coop").unwrap();
    let untestable = |facts: &Facts<'_>| -> Vec<(String, String)> {
        let p = plan(&coop, true, &scratch(), facts, &|_, _| None).unwrap();
        assert_eq!(p.cells.len(), 48);
        p.cells.iter().filter_map(|c| Some((load(c).cpus.clone()?, c.untestable.clone()?))).collect()
    };
    let all = untestable(&interrupts_on(&[0, 1]));
    assert_eq!(all.len(), 24);
    assert!(all.iter().all(|(cpus, why)| cpus == "non-irq" && why.contains("every online CPU handles")), "{all:?}");
    // Unknown facts are not assumed.
    assert_eq!(untestable(&interrupts_on(&[])).len(), 48);
    assert_eq!(untestable(&Facts { below: &|_| None, ..two_cpus() }).len(), 48);
}

#[test]
fn the_target_of_a_cell_determines_its_cpus_and_testability() {
    let text = TWO_BY_TWO
        .replace("depth = [1, 4]", "depth = [1]")
        .replace("[load]", "[host]\nscheduler = \"none\"\n[load]\ncpus = \"irq\"")
        .replace("name = \"default\"", "name = \"default\"\nfile = \"/dev/vdb\"")
        .replace("name = \"coop_taskrun\"", "name = \"coop_taskrun\"\nfile = \"/dev/loop0\"");
    // Each disk interrupts a different CPU; the loop device has no interrupts.
    let below = |load: &LoadOptions| {
        let path = load.file.clone()?;
        let vdb = TargetInterrupt { irq: 40, name: "virtio3-req.0".into(), cpus: vec![0] };
        let interrupts = if path == Path::new("/dev/vdb") { vec![vdb] } else { Vec::new() };
        Some(measurement::Target { path: path.display().to_string(), interrupts, ..Default::default() })
    };
    let facts = Facts { online_cpus: vec![0, 1], may_watch: false, below: &below };
    let asked = RefCell::new(Vec::new());
    let refusal = |_: &Conditions, target: Option<&measurement::Target>| {
        asked.borrow_mut().push(target?.path.clone());
        None
    };
    let p = plan(&parse(&text, "x.toml").unwrap(), false, &Target::default(), &facts, &refusal).unwrap();
    assert_eq!(*asked.borrow(), ["/dev/vdb"]);
    let reasons: Vec<Option<&str>> = p.cells.iter().map(|c| c.untestable.as_deref()).collect();
    let of_loop =
        "--cpus irq: /dev/loop0 is on no disk, so no interrupt completes its I/O; specify the CPUs: --cpus 0,2-3";
    assert_eq!(reasons, [None, Some(of_loop)]);
    let paths: Vec<&str> = p.cells.iter().map(|c| c.target.as_ref().unwrap().path.as_str()).collect();
    assert_eq!(paths, ["/dev/vdb", "/dev/loop0"]);
}

#[test]
fn an_experiment_with_universally_invalid_options_is_rejected() {
    let refused = |from: &str, to: &str| {
        let experiment = parse(&TWO_BY_TWO.replacen(from, to, 1), "x.toml").unwrap();
        let e = plan(&experiment, false, &scratch(), &two_cpus(), &|_, _| None).unwrap_err();
        assert_eq!(e.exit_status(), 2);
        e.to_string()
    };
    let e = refused("ring = \"coop_taskrun\"", "ring = \"coop_taskrnu\"");
    assert!(
        e.starts_with("x.toml:15:1: the combination 'depth 1 · arm coop_taskrun' is impossible: ")
            && e.contains("coop_taskrnu"),
        "{e}"
    );
    let e = refused("[1, 4]", "[0, 4]");
    assert!(e.starts_with("x.toml:13:1: the combination 'depth 0 · arm default' is impossible: --depth 0"), "{e}");
    let e = refused("warmup", "count = 5\nwarmup");
    assert!(e.contains("'runtime' and 'count' cannot be combined"), "{e}");
}

#[test]
fn the_plan_key_depends_on_measurements_and_not_on_descriptions() {
    let p = two_by_two();
    let mut q = p.clone();
    q.question = "Which one?".into();
    assert_eq!(p.key(), q.key());
    q.target = Some("/data/other".into());
    assert_eq!(difference(&p.key(), &q.key()), "target was /data/scratch-1g and is now /data/other");
    q = p.clone();
    q.cells[1].options.insert("bs".into(), 8192.into());
    assert_eq!(
        difference(&p.key(), &q.key()),
        "cell 'depth 1 · arm coop_taskrun' has different options, or different limits on this host"
    );
    q.cells.pop();
    assert_eq!(difference(&p.key(), &q.key()), "it had 4 cells and now has 3");
}

#[test]
fn the_plan_key_includes_dropped_arms_without_their_reasons() {
    let text = "name = \"n\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nkind = \"program\"\nrepeats = 2\n[load]\nprogram = [\"true\"]\n\
                [[arm]]\nname = \"as-is\"\n[[arm]]\nname = \"sqpoll\"\nring = \"sqpoll\"\n";
    let experiment = parse(text, "x.toml").unwrap();
    let p = plan(&experiment, false, &Target::default(), &two_cpus(), &|_, _| None).unwrap();
    let dropped = |why: &str| {
        let mut p = p.clone();
        p.cells[1].untestable = Some(why.into());
        p.key()
    };
    assert_eq!(dropped("none was delivered for 5.10 s"), dropped("none was delivered for 5.07 s"));
    assert_ne!(dropped("it stalled"), p.key());
    // For other loads, the reason concerns the machine and is constant.
    let of_disk = |why: &str| {
        let mut p = two_by_two();
        p.cells[1].untestable = Some(why.into());
        p.key()
    };
    assert_ne!(of_disk("no poll queues"), of_disk("no such scheduler"));
}

/// A program as-is, with SQPOLL, and with SQPOLL plus further settings.
pub fn of_a_program() -> Plan {
    let text = "name = \"n\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nkind = \"program\"\nrepeats = 40\ncontrol = false\n\
                [load]\nprogram = [\"true\"]\n[[arm]]\nname = \"as-is\"\n[[arm]]\nname = \"cpus 0\"\ncpus = \"0\"\n\
                [[arm]]\nname = \"sqpoll\"\nring = \"sqpoll\"\n[[arm]]\nname = \"sqpoll · cpus 0\"\nring = \"sqpoll\"\ncpus = \"0\"\n\
                [[arm]]\nname = \"sqpoll sq-cpu 0\"\nring = \"sqpoll\"\nsq-cpu = 0\n\
                [[arm]]\nname = \"coop\"\nring = \"coop_taskrun,taskrun_flag\"\n";
    plan(&parse(text, "x.toml").unwrap(), false, &Target::default(), &two_cpus(), &|_, _| None).unwrap()
}

#[test]
fn an_arm_includes_another_if_it_has_all_of_its_settings() {
    let plan = of_a_program();
    assert_eq!(plan.with_settings_of("sqpoll"), ["sqpoll · cpus 0", "sqpoll sq-cpu 0"]);
    assert_eq!(plan.with_settings_of("cpus 0"), ["sqpoll · cpus 0"]);
    for alone in ["as-is", "coop", "sqpoll sq-cpu 0", "sqpoll · cpus 0", "unknown"] {
        assert_eq!(plan.with_settings_of(alone), [""; 0], "{alone}");
    }
}

#[test]
fn the_estimated_time_of_a_program_run_includes_its_overhead() {
    let each = Duration::from_millis(170);
    let plan = Plan { each: Some(each), ..of_a_program() };
    assert_eq!(plan.estimate().stated, each * 6 * 40);
}

#[test]
fn a_load_without_a_file_needs_no_target() {
    let of = |load: &str| {
        let text = TWO_BY_TWO.replace("[load]", &format!("[load]\n{load}"));
        target_use(Kind::Storage, &parse(&text, "x").unwrap().full).unwrap()
    };
    assert_eq!(of(""), TargetUse::Reads);
    assert_eq!(of("rw = \"write\""), TargetUse::Writes);
    for nothing in ["rw = \"nop\"", "engine = \"null\"", "file = \"/dev/vdb\""] {
        assert_eq!(of(nothing), TargetUse::Nothing, "{nothing}");
    }
}

#[test]
fn a_network_load_needs_no_target_and_keeps_options_of_both_sides() {
    let text = "name = \"n\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nkind = \"net\"\nrepeats = 2\n[load]\nruntime = \"1s\"\n\
                warmup = \"100ms\"\nserver-cpus = \"0\"\n[matrix]\nconnections = [4, 64]\n[[arm]]\nname = \"epoll\"\n\
                engine = \"epoll\"\n[[arm]]\nname = \"coop\"\nring = \"coop_taskrun\"\n";
    let planned = |text: &str| {
        let e = parse(text, "x.toml").unwrap();
        assert_eq!(target_use(e.kind, &e.full).unwrap(), TargetUse::Nothing);
        plan(&e, false, &Target::default(), &two_cpus(), &|_, _| None)
    };
    let p = planned(text).unwrap();
    assert_eq!((p.cells.len(), p.testable().count(), p.target), (6, 6, None));
    let Load::Net(last) = &p.cells[4].load else { panic!("{:?}", p.cells[4]) };
    assert_eq!((last.sender.connections, last.server.ring.as_str()), (64, "coop_taskrun"));
    let each = BESIDE_A_NET_LOAD + Duration::from_millis(1100);
    assert_eq!(planned(text).unwrap().estimate().stated, each * 12);
    let e = planned(&text.replace("coop_taskrun", "coop")).unwrap_err().to_string();
    assert!(e.starts_with("x.toml:16:1: the combination 'connections 4 · arm coop' is impossible: "), "{e}");
    let e = planned(&text.replace("server-cpus = \"0\"", "server-cpus = \"7\"")).unwrap_err().to_string();
    assert!(e.contains("CPU 7 does not exist"), "{e}");
}
