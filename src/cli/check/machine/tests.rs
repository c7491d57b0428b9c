use super::clock::clocks;
use super::cpus::isolation;
use super::kernel::{locked, symbols};
use super::target::{delivered, movable, poll_queues, taking};
use iotrail_host::block::Disk;
use iotrail_host::{clock, lockdown};
use iotrail_report::check::{Cpus, State};
use iotrail_schema::measurement::{Target, TargetInterrupt};

fn interrupt(irq: u32, name: &str, cpus: &[u32]) -> TargetInterrupt {
    TargetInterrupt { irq, name: name.into(), cpus: cpus.into() }
}

#[test]
fn only_online_cpus_that_take_the_targets_interrupts_are_listed() {
    let target = Target {
        interrupts: vec![interrupt(41, "nvme0q1", &[1, 9]), interrupt(42, "nvme0q2", &[3])],
        ..Default::default()
    };
    assert_eq!(taking(&target, &[0, 1, 2, 3]), [1, 3]);
}

#[test]
fn few_interrupts_are_listed_and_many_are_summarized() {
    assert_eq!(delivered(&[]), None);
    assert_eq!(delivered(&[interrupt(36, "virtio1-req.0", &[1])]).unwrap(), "36 virtio1-req.0 on CPU 1");
    let many: Vec<_> = (0..9).map(|n| interrupt(40 + n, &format!("nvme0q{}", n + 1), &[n])).collect();
    assert_eq!(delivered(&many).unwrap(), "9, 40 nvme0q1 to 48 nvme0q9, on CPUs 0-8");
}

#[test]
fn interrupts_are_not_movable_if_one_is_managed() {
    assert_eq!(movable(&[Some(true), Some(true)], "x").state, State::Ok);
    assert_eq!(movable(&[Some(true), Some(false), None], "x").state, State::Missing);
    assert_eq!(movable(&[Some(true), None], "x").state, State::Unknown);
}

#[test]
fn missing_poll_queues_are_reported_with_the_driver_parameter() {
    let disk = |driver: &str, n| Disk { driver: Some(driver.into()), poll_queues: n, ..Default::default() };
    assert!(poll_queues(&disk("nvme", Some(0)), "x").restore.unwrap().contains("nvme.poll_queues=N"));
    assert!(poll_queues(&disk("virtio_blk", Some(0)), "x").restore.unwrap().contains("virtio_blk.poll_queues=N"));
    assert_eq!(poll_queues(&disk("nvme", Some(2)), "x").text, "2");
    assert_eq!(poll_queues(&disk("nvme", None), "x").state, State::Unknown);
}

#[test]
fn the_tsc_is_used_only_if_the_kernel_trusts_it() {
    let tsc = |constant, nonstop| Some(clock::Tsc { constant, nonstop });
    let states = |source, tsc| clocks(Some(source), tsc, Some(250)).iter().map(|i| i.state).collect::<Vec<_>>();
    assert_eq!(states("tsc", tsc(true, true)), [State::Ok, State::Ok, State::Ok]);
    assert_eq!(states("kvm-clock", tsc(true, true)), [State::Ok, State::Missing, State::Ok]);
    assert_eq!(states("hpet", tsc(true, false)), [State::Missing, State::Missing, State::Ok]);
    assert_eq!(states("arch_sys_counter", None), [State::Ok, State::Ok, State::Ok]);
    assert!(
        clocks(None, None, Some(250))[2].text.contains("250 Hz")
            && clocks(None, None, Some(250))[2].text.contains("4.0 ms")
    );
    assert_eq!(clocks(None, None, None)[2].state, State::Unknown);
}

#[test]
fn lockdown_and_hidden_symbols_are_reported() {
    let mode = |m: Option<&str>| locked(lockdown::Lockdown { mode: m.map(Into::into), how: "h".into() }).state;
    assert_eq!(mode(Some("none")), State::Ok);
    assert_eq!(mode(Some("integrity")), State::Ok);
    assert_eq!(mode(Some("confidentiality")), State::Missing);
    assert_eq!(mode(None), State::Unknown);
    assert!(symbols(Some(false), Some(2)).restore.unwrap().contains("kptr_restrict=1"));
    assert!(symbols(Some(false), Some(1)).restore.unwrap().contains("root"));
    assert_eq!(symbols(None, None).state, State::Missing);
}

#[test]
fn cpu_isolation_is_reported_as_absent_present_or_unknown() {
    let with = |isolated: Option<Vec<u32>>, nohz_full: Option<Vec<u32>>| {
        isolation(&Cpus { isolated, nohz_full, ..Default::default() })
    };
    assert_eq!(with(None, None).state, State::Unknown);
    assert_eq!(with(Some(vec![]), None).restore.unwrap(), "boot with isolcpus=LIST");
    assert_eq!(with(Some(vec![2, 3]), Some(vec![3])).text, "CPU 2-3; without tick: 3");
}
