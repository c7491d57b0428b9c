use super::*;
use crate::options::{EngineKind, LoadOptions, Rw, Wait};
use iotrail_base::units::{Bytes, Span};
use iotrail_schema::measurement::{Target, TargetInterrupt};

fn options() -> LoadOptions {
    LoadOptions { file: Some("/data/x".into()), ..LoadOptions::default() }
}

fn refused(o: LoadOptions) -> String {
    let e = LoadSpec::resolve(&o, None, &[0, 1]).unwrap_err();
    assert_eq!(e.exit_status(), 2);
    e.to_string()
}

#[test]
fn jobs_are_assigned_to_cpus_round_robin() {
    let o = LoadOptions { jobs: 3, cpus: Some("0-1".into()), ..options() };
    let spec = LoadSpec::resolve(&o, None, &[0, 1]).unwrap();
    assert_eq!(spec.cpus, [0, 1, 0]);
    assert_eq!(spec.neighbour_cpus, [0, 1]);
    assert_eq!(spec.end, End::After(Duration::from_secs(5)));
    assert!(refused(LoadOptions { cpus: Some("0,7".into()), ..options() }).contains("CPU 7"));
}

#[test]
fn cpus_irq_selects_the_cpus_of_the_targets_interrupts() {
    let irq = TargetInterrupt { irq: 36, name: "virtio1-req.0".into(), cpus: vec![1] };
    let target = Target { interrupts: vec![irq], ..Target::default() };
    let cpus = |list: &str, online: &[u32]| {
        let o = LoadOptions { cpus: Some(list.into()), ..options() };
        LoadSpec::resolve(&o, Some(&target), online).map(|s| s.cpus).map_err(|e| e.to_string())
    };
    assert_eq!(cpus("irq", &[0, 1]), Ok(vec![1]));
    assert_eq!(cpus("non-irq", &[0, 1]), Ok(vec![0]));
    assert!(cpus("non-irq", &[1]).unwrap_err().contains("every online CPU"));
    let o = LoadOptions { cpus: Some("irq".into()), ..options() };
    assert_eq!(LoadSpec::resolve(&o, None, &[0, 1]).unwrap_err().exit_status(), 3);

    let reaper = |who: &str, online: &[u32]| {
        let o = LoadOptions { reaper: who.into(), ..options() };
        LoadSpec::resolve(&o, Some(&target), online).map(|s| s.reaper).map_err(|e| e.to_string())
    };
    assert_eq!(reaper("thread:irq", &[0, 1]), Ok(ReaperKind::Thread { cpu: Some(1) }));
    assert_eq!(reaper("thread:non-irq", &[0, 1, 2]), Ok(ReaperKind::Thread { cpu: Some(0) }));
    assert!(reaper("thread:non-irq", &[1]).unwrap_err().contains("or use --reaper thread:irq"));
    assert!(reaper("thread:irqs", &[1]).unwrap_err().starts_with("unknown --reaper 'thread:irqs'"));
}

#[test]
fn an_impossible_load_is_rejected_with_a_remedy() {
    assert!(refused(LoadOptions::default()).contains("needs a target; specify one with --file"));
    assert!(refused(LoadOptions { ring: "defer_taskrun".into(), ..options() }).contains("add single_issuer"));
    assert!(refused(LoadOptions { sq_cpu: Some(1), ..options() }).contains("add sqpoll to --ring"));
    assert!(refused(LoadOptions { batch: 32, ..options() }).contains("--batch 32 with --depth 16"));
    assert!(refused(LoadOptions { engine: EngineKind::Libaio, ring: "iopoll".into(), ..options() }).contains("--ring"));
    assert!(refused(LoadOptions { rw: Rw::Nop, engine: EngineKind::Sync, ..options() }).contains("no-op"));
    assert!(refused(LoadOptions { register: "file".into(), ..options() }).contains("'file'"));
    assert!(refused(LoadOptions { neighbour: "busy".into(), ..options() }).contains("busy:N"));
    assert!(refused(LoadOptions { reaper: "thread:9".into(), ..options() }).contains("CPU 9"));
    assert!(refused(LoadOptions { rate: Some(0.0), ..options() }).contains("--rate 0"));
    assert!(refused(LoadOptions { think: 1_000_000_001, ..options() }).contains("(one second)"));
    let registers =
        LoadOptions { ring: "single_issuer".into(), reaper: "thread".into(), register: "ring".into(), ..options() };
    assert!(refused(registers).contains("remove ring from --register"));
    let both = LoadOptions { count: Some(1), runtime: Some(Span(Duration::from_secs(5))), ..options() };
    assert!(refused(both).contains("both"));
    assert!(refused(LoadOptions { bs: Bytes(1000), verify: true, ..options() }).contains("512"));
}

#[test]
fn the_load_record_contains_the_resolved_options() {
    let o = LoadOptions {
        ring: "single_issuer,defer_taskrun,cqsize=64".into(),
        register: "files,ring".into(),
        count: Some(9),
        neighbour: "busy:2".into(),
        ..options()
    };
    let r = LoadSpec::resolve(&o, None, &[0]).unwrap().record(&["single_issuer".into()]);
    assert_eq!(r.ring.requested, ["defer_taskrun", "single_issuer", "cqsize=64"]);
    assert_eq!(r.ring.granted, ["single_issuer"]);
    assert_eq!((r.count, r.runtime_ns, r.bs, r.neighbour.as_str()), (Some(9), None, 4096, "busy:2"));
    assert_eq!(r.register, ["files", "ring"]);
    assert!(r.direct && r.cpus.is_empty());
}

#[test]
fn the_sync_engine_runs_at_depth_1_with_a_warning() {
    let spec = LoadSpec::resolve(&LoadOptions { engine: EngineKind::Sync, ..options() }, None, &[0]).unwrap();
    assert_eq!((spec.depth, spec.batch), (1, 1));
    assert_eq!(spec.warnings[0].code, "sync_depth");
}

#[test]
fn passthrough_loads_reject_buffering_and_unavailable_polling() {
    let passthrough = LoadOptions { engine: EngineKind::IoUringCmd, ..options() };
    let spec = LoadSpec::resolve(&passthrough, None, &[0]).unwrap();
    assert!(spec.ring.big_entries != 0 && LoadSpec::resolve(&options(), None, &[0]).unwrap().ring.big_entries == 0);
    assert!(refused(LoadOptions { buffered: true, ..passthrough.clone() }).contains("bypasses the page cache"));
    assert!(
        refused(LoadOptions { rw: Rw::Nop, ..passthrough.clone() })
            .contains("which --engine io_uring_cmd does not have")
    );
    let polled = LoadOptions { ring: "iopoll".into(), ..passthrough };
    let on = |poll_queues| {
        let target = Target { poll_queues, device: Some("nvme0n1".into()), ..Target::default() };
        LoadSpec::resolve(&polled, Some(&target), &[0]).map(drop).map_err(|e| (e.exit_status(), e.to_string()))
    };
    assert_eq!((on(Some(1)), on(None)), (Ok(()), Ok(())));
    let (status, said) = on(Some(0)).unwrap_err();
    assert!(status == 3 && said.starts_with("ring flag iopoll: nvme0n1 has no poll queues; boot with"), "{said}");
}

#[test]
fn the_nvme_user_engine_always_polls_and_warns_about_it() {
    let own = LoadOptions { engine: EngineKind::NvmeUser, file: Some("0000:00:04.0".into()), ..options() };
    let spec = LoadSpec::resolve(&own, None, &[0]).unwrap();
    assert_eq!((spec.wait, spec.warnings[0].code.as_str()), (Wait::Peek, "polls"));
    let spec = LoadSpec::resolve(&LoadOptions { wait: Wait::Peek, ..own }, None, &[0]).unwrap();
    assert!(spec.warnings.is_empty());
}
