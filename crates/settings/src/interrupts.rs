//! Affinity of the target's interrupts.

use super::change::Change;
use super::conditions::CpuList;
use super::driver;
use super::roots::{Roots, is_so, not_writable, present};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::cpu::parse_list;
use iotrail_host::{files, irq};
use iotrail_schema::measurement::{Target, TargetInterrupt};

pub fn refusal(roots: &Roots, target: Option<&Target>, wanted: &CpuList) -> Option<Error> {
    let refuse = |what: String, remedy: String| Some(Error::machine(what, remedy));
    let Some(target) = target.filter(|t| !t.interrupts.is_empty()) else {
        return refuse(
            "the load has no target with movable interrupts".into(),
            "choose a target on a disk that has some, or omit irq-affinity".into(),
        );
    };
    let online = roots.text("sys/devices/system/cpu/online").and_then(|t| parse_list(&t).ok());
    if let Some(cpu) = online.and_then(|online| wanted.cpus().iter().copied().find(|c| !online.contains(c))) {
        return refuse(format!("irq-affinity: CPU {cpu} is not online"), "choose an online CPU".into());
    }
    for interrupt in &target.interrupts {
        let name = format!("interrupt {} ({})", interrupt.irq, interrupt.name);
        let file = roots.path(file(interrupt));
        if !file.exists() {
            return refuse(
                format!("{name} cannot be moved: {} does not exist", file.display()),
                "omit irq-affinity".into(),
            );
        }
        if is_so(&file, &wanted.to_string()) {
            continue;
        }
        if irq::affinity_in(&roots.system, interrupt.irq).movable == Some(false) {
            return Some(managed(roots, target, &name));
        }
        if let Some(e) = not_writable(&format!("the affinity of {name}"), &file) {
            return Some(e);
        }
    }
    let balancer = files::entries(&roots.system, "proc")
        .into_iter()
        .find(|p| roots.text(format!("proc/{p}/comm")).as_deref() == Some("irqbalance"));
    balancer.and_then(|process| {
        refuse(
            format!("irqbalance (process {process}) would move the target's interrupts back"),
            "stop it during the run: systemctl stop irqbalance".into(),
        )
    })
}

/// The kernel manages these interrupts: move the load or the queues instead.
fn managed(roots: &Roots, target: &Target, name: &str) -> Error {
    let reload = match driver::device_of(roots, target) {
        Ok(device) => match device.user(roots) {
            None => "; or set poll-queues, so that the driver's interrupts use fewer CPUs".to_owned(),
            Some(user) => format!(
                "; rebinding the device with other queue counts (poll-queues) requires an unused device, but this one is {user}"
            ),
        },
        Err(_) => String::new(),
    };
    Error::machine(
        format!("{name} cannot be moved: the kernel manages the affinity of its queues' interrupts"),
        format!("move the load instead: cpus = \"irq\" or \"non-irq\"{reload}"),
    )
}

pub fn changes(roots: &Roots, target: Option<&Target>, wanted: &CpuList) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for interrupt in target.iter().flat_map(|t| &t.interrupts) {
        let path = roots.path(file(interrupt));
        let old = present(&path).or_machine(format_args!("cannot read {}", path.display()), "omit irq-affinity")?;
        if old != wanted.to_string() {
            changes.push(Change::Value { path, old, new: wanted.to_string() });
        }
    }
    Ok(changes)
}

fn file(interrupt: &TargetInterrupt) -> String {
    format!("proc/irq/{}/smp_affinity_list", interrupt.irq)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::test::{roots, target, vda};

    fn cpus(text: &str) -> CpuList {
        CpuList::parse(text).unwrap()
    }

    fn says(t: &iotrail_testing::fixture::Tree, wanted: &str) -> String {
        refusal(&roots(t), Some(&target("vda")), &cpus(wanted)).unwrap().to_string()
    }

    #[test]
    fn a_managed_interrupt_cannot_be_moved_and_load_placement_is_advised() {
        let t = vda().file("proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n");
        let file = t.root().join("proc/irq/36/smp_affinity_list");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        assert_eq!(
            says(&t, "0"),
            "interrupt 36 (virtio1-req.0) cannot be moved: the kernel manages the affinity of its queues' interrupts; \
             move the load instead: cpus = \"irq\" or \"non-irq\"; rebinding the device with other queue counts \
             (poll-queues) requires an unused device, but this one is mounted at /"
        );
        // An interrupt that is already delivered there need not be moved.
        assert!(refusal(&roots(&t), Some(&target("vda")), &cpus("0-1")).is_none());
        let unused = t.file("proc/self/mountinfo", "");
        assert!(says(&unused, "0").ends_with("; or set poll-queues, so that the driver's interrupts use fewer CPUs"));
    }

    #[test]
    fn an_impossible_affinity_is_rejected_with_its_reason() {
        let t = vda();
        assert_eq!(says(&t, "0,7"), "irq-affinity: CPU 7 is not online; choose an online CPU");
        let none = Target { interrupts: Vec::new(), ..target("vda") };
        let e = refusal(&roots(&t), Some(&none), &cpus("0")).unwrap().to_string();
        assert!(e.starts_with("the load has no target with movable interrupts"), "{e}");
        fs::remove_file(t.root().join("proc/irq/36/smp_affinity_list")).unwrap();
        assert!(says(&t, "0").contains("smp_affinity_list does not exist"));
    }

    #[test]
    fn only_interrupts_with_a_different_affinity_are_changed() {
        let t = vda();
        let path = t.root().join("proc/irq/36/smp_affinity_list");
        let expected = Change::Value { path, old: "0-1".into(), new: "1".into() };
        assert_eq!(changes(&roots(&t), Some(&target("vda")), &cpus("1")).unwrap(), [expected]);
        assert_eq!(changes(&roots(&t), Some(&target("vda")), &cpus("1,0")).unwrap(), []);
    }
}
