//! Detects whether this is a virtual machine, and which hypervisor runs it.

use std::path::Path;

use super::files::{self, ROOT};

/// Name of the hypervisor (`kvm`, `qemu` for pure emulation, `xen`, `vmware`, `hyperv`, …), `none` on bare metal,
/// `None` if unknown.
pub fn detect() -> Option<String> {
    match by_cpuid() {
        Some(answer) => Some(answer),
        None => by_files(Path::new(ROOT)),
    }
}

/// From the CPU: every x86 hypervisor sets a bit and provides its signature (Intel SDM, CPUID leaf 1, ECX bit 31; leaf
/// 0x40000000 by convention). The result is conclusive: without the bit it is bare metal.
#[cfg(target_arch = "x86_64")]
fn by_cpuid() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    // SAFETY: every x86-64 CPU has the instruction and leaf 1; 0x40000000 is used only if the bit is set.
    #[allow(unused_unsafe)] // A safe function from Rust 1.94 on.
    let (features, signature) = unsafe { (__cpuid(1), __cpuid(0x4000_0000)) };
    if features.ecx & (1 << 31) == 0 {
        return Some("none".into());
    }
    let mut bytes = Vec::with_capacity(12);
    for register in [signature.ebx, signature.ecx, signature.edx] {
        bytes.extend_from_slice(&register.to_le_bytes());
    }
    Some(by_signature(&bytes))
}

#[cfg(not(target_arch = "x86_64"))]
fn by_cpuid() -> Option<String> {
    None
}

/// Name for CPUID's twelve-byte signature; an unknown signature is returned as-is.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
fn by_signature(bytes: &[u8]) -> String {
    let text: String = bytes.iter().filter(|b| b.is_ascii_graphic() || **b == b' ').map(|&b| b as char).collect();
    match text.trim() {
        "KVMKVMKVM" | "Linux KVM Hv" => "kvm".into(),
        "TCGTCGTCGTCG" => "qemu".into(),
        "XenVMMXenVMM" => "xen".into(),
        "VMwareVMware" => "vmware".into(),
        "Microsoft Hv" => "hyperv".into(),
        "VBoxVBoxVBox" => "virtualbox".into(),
        "bhyve bhyve" => "bhyve".into(),
        "ACRNACRNACRN" => "acrn".into(),
        "prl hyperv" | "lrpepyh  vr" => "parallels".into(),
        "" => "unnamed".into(),
        other => other.to_lowercase(),
    }
}

/// From files of firmware and kernel, for CPUs without CPUID.
fn by_files(root: &Path) -> Option<String> {
    if let Some(kind) = files::text(root, "sys/hypervisor/type") {
        return Some(kind);
    }
    if let Some(compatible) = files::text(root, "proc/device-tree/hypervisor/compatible") {
        let first = compatible.split('\0').next()?.to_owned();
        return Some(match first.as_str() {
            "linux,kvm" => "kvm".into(),
            f if f.contains("xen") => "xen".into(),
            _ => first,
        });
    }
    let dmi: Vec<String> = ["sys_vendor", "product_name", "board_vendor", "bios_vendor"]
        .iter()
        .filter_map(|f| files::text(root, format!("sys/class/dmi/id/{f}")))
        .collect();
    // The strings that systemd-detect-virt checks. If the firmware names any other manufacturer, it is bare metal.
    const KNOWN: [(&str, &str); 8] = [
        ("KVM", "kvm"),
        ("Amazon EC2", "kvm"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("innotek GmbH", "virtualbox"),
        ("Xen", "xen"),
        ("Parallels", "parallels"),
        ("Hyper-V", "hyperv"),
    ];
    match KNOWN.iter().find(|(mark, _)| dmi.iter().any(|d| d.contains(mark))) {
        // Product names of EC2's bare-metal instances have this suffix.
        Some(_) if dmi.iter().any(|d| d.ends_with(".metal")) => Some("none".into()),
        Some((_, name)) => Some((*name).into()),
        None if dmi.is_empty() => by_device_tree(root),
        None => Some("none".into()),
    }
}

/// A QEMU machine without firmware has no DMI, but a device that passes its configuration. QEMU's own CPU model (`-cpu
/// max`), which exists only in emulation, has implementer 0, which Arm reserves for software.
fn by_device_tree(root: &Path) -> Option<String> {
    let nodes = std::fs::read_dir(root.join("proc/device-tree")).ok()?.flatten();
    let is_qemus = nodes.into_iter().any(|node| node.file_name().to_string_lossy().starts_with("fw-cfg"));
    let processor = files::text(root, "proc/cpuinfo").unwrap_or_default();
    let made_of_software =
        processor.lines().any(|line| line.starts_with("CPU implementer") && line.ends_with(": 0x00"));
    is_qemus.then(|| if made_of_software { "qemu".into() } else { "kvm".into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    #[test]
    fn cpuid_signatures_are_mapped_to_hypervisor_names() {
        assert_eq!(by_signature(b"KVMKVMKVM\0\0\0"), "kvm");
        assert_eq!(by_signature(b"TCGTCGTCGTCG"), "qemu");
        assert_eq!(by_signature(b"NewHyper\0\0\0\0"), "newhyper");
        assert_eq!(by_signature(&[0; 12]), "unnamed");
    }

    #[test]
    fn the_hypervisor_is_identified_by_sysfs_files_without_cpuid() {
        let dmi = |vendor: &str, product: &str| {
            by_files(
                Tree::new()
                    .file("sys/class/dmi/id/sys_vendor", vendor)
                    .file("sys/class/dmi/id/product_name", product)
                    .root(),
            )
        };
        assert_eq!(dmi("QEMU\n", "KVM Virtual Machine\n").as_deref(), Some("kvm"));
        assert_eq!(dmi("Amazon EC2\n", "c6g.metal\n").as_deref(), Some("none"));
        assert_eq!(dmi("Ampere\n", "Altra\n").as_deref(), Some("none"));
        assert_eq!(by_files(Tree::new().root()), None);
        let t = Tree::new().file("proc/device-tree/hypervisor/compatible", "linux,kvm\0");
        assert_eq!(by_files(t.root()).as_deref(), Some("kvm"));
        // arm64 with -machine virt and a kernel booted without firmware.
        let direct = |maker: &str| {
            let t = Tree::new().file("proc/device-tree/fw-cfg@9020000/compatible", "qemu,fw-cfg-mmio\0");
            by_files(t.file("proc/cpuinfo", &format!("processor\t: 0\nCPU implementer\t: {maker}\n")).root())
        };
        assert_eq!(direct("0x00").as_deref(), Some("qemu"));
        assert_eq!(direct("0x41").as_deref(), Some("kvm"));
    }
}
