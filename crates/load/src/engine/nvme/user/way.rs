//! Whether and how a drive can be driven from user space: facts in, a decision or a refusal out.

use iotrail_base::error::{Error, Result};
use iotrail_host::lockdown;
use iotrail_host::pci::{self, Address, Function};
use iotrail_host::privileges::{Capability, Privileges};

/// How the drive, and how the drive's memory accesses, are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveAccess {
    /// Registers through sysfs; the drive uses physical addresses.
    Physical,
    /// Both through VFIO: an IOMMU restricts the drive to mapped memory.
    Vfio { group: u32 },
}

/// The kernel driver for user-space device access.
const VFIO: &str = "vfio-pci";

/// Facts about a drive.
pub struct Facts {
    /// `None` if the PCI function does not exist.
    pub function: Option<Function>,
    /// `None` if unknown.
    pub administrator: Option<bool>,
    /// Lockdown mode; `None` if unknown.
    pub lockdown: Option<String>,
}

impl Facts {
    pub fn read(address: &Address) -> Self {
        Self {
            function: pci::function(address),
            administrator: Privileges::read().has(Capability::SysAdmin),
            lockdown: lockdown::detect().mode,
        }
    }
}

/// Chooses the access to `address`.
///
/// Usage error: not an NVMe controller. Machine error: the kernel's driver has it, it is in use, or no access is
/// possible.
pub fn way(address: &Address, facts: &Facts) -> Result<DriveAccess> {
    let Some(function) = &facts.function else {
        return Err(Error::input(
            format!("PCI function {address} does not exist"),
            "specify a drive by its address: `lspci -D -d ::0108` lists them",
        ));
    };
    if function.class != Some(pci::NVME) {
        let class = function.class.map_or("is unknown".into(), |c| format!("is {c:#08x}"));
        return Err(Error::input(
            format!("{address} is not an NVMe controller (its class {class})"),
            "specify a drive by its address: `lspci -D -d ::0108` lists them",
        ));
    }
    let kind = function.iommu.as_ref().map(|i| i.kind.as_deref().unwrap_or("unknown"));
    match (function.driver.as_deref(), &function.user) {
        (Some(driver), Some(user)) => {
            return Err(Error::machine(
                format!("{address} is in use ({user}), by the kernel driver {driver}"),
                "choose an unused drive",
            ));
        }
        (Some(VFIO), None) => {
            return match &function.iommu {
                Some(iommu) => administrator(facts).map(|()| DriveAccess::Vfio { group: iommu.group }),
                None => Err(Error::machine(
                    format!("{address} is bound to {VFIO}, but without an IOMMU"),
                    format!("release it: echo {address} > /sys/bus/pci/drivers/{VFIO}/unbind, as root"),
                )),
            };
        }
        (Some(driver), None) => {
            let disks =
                if function.disks.is_empty() { String::new() } else { format!(" ({})", function.disks.join(", ")) };
            return Err(Error::machine(
                format!("{address} is bound to the kernel driver {driver}{disks}"),
                format!(
                    "release it: echo {address} > /sys/bus/pci/drivers/{driver}/unbind, as root; …/bind rebinds it"
                ),
            ));
        }
        (None, _) => administrator(facts)?,
    }
    let by_vfio = format!(
        "bind it to {VFIO}, as root: modprobe {VFIO}; echo {VFIO} > /sys/bus/pci/devices/{address}/driver_override; \
         echo {address} > /sys/bus/pci/drivers_probe"
    );
    if let Some(kind) = kind.filter(|kind| *kind != "identity") {
        return Err(Error::machine(
            format!("{address} reaches memory through an IOMMU (its group is of type {kind})"),
            by_vfio,
        ));
    }
    if let Some(mode) = facts.lockdown.as_deref().filter(|mode| *mode != "none") {
        return Err(Error::machine(
            format!("the kernel is locked down ({mode}), which denies access to device registers"),
            format!("with an IOMMU, {by_vfio}; or boot without lockdown"),
        ));
    }
    Ok(DriveAccess::Physical)
}

fn administrator(facts: &Facts) -> Result<()> {
    match facts.administrator {
        Some(false) => {
            Err(Error::machine("driving an NVMe device from user space needs root (CAP_SYS_ADMIN)", "run as root"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_host::pci::Iommu;

    fn free() -> Function {
        Function { class: Some(pci::NVME), driver: None, iommu: None, disks: vec![], user: None }
    }

    fn asked(
        function: Option<Function>,
        administrator: bool,
        lockdown: &str,
    ) -> std::result::Result<DriveAccess, String> {
        let facts = Facts { function, administrator: Some(administrator), lockdown: Some(lockdown.into()) };
        way(&"0000:00:04.0".parse().unwrap(), &facts).map_err(|e| e.to_string())
    }

    fn refused(function: Function) -> String {
        asked(Some(function), true, "none").unwrap_err()
    }

    fn iommu(kind: &str) -> Option<Iommu> {
        Some(Iommu { group: 3, kind: Some(kind.into()) })
    }

    #[test]
    fn an_unbound_drive_and_a_vfio_drive_are_accessible() {
        assert_eq!(asked(Some(free()), true, "none"), Ok(DriveAccess::Physical));
        assert_eq!(
            asked(Some(Function { iommu: iommu("identity"), ..free() }), true, "none"),
            Ok(DriveAccess::Physical)
        );
        let vfio = Function { driver: Some("vfio-pci".into()), iommu: iommu("DMA-FQ"), ..free() };
        assert_eq!(asked(Some(vfio.clone()), true, "integrity"), Ok(DriveAccess::Vfio { group: 3 }));
        assert!(asked(Some(vfio.clone()), false, "none").unwrap_err().ends_with("run as root"));
        assert!(refused(Function { iommu: None, ..vfio }).contains("but without an IOMMU"));
    }

    #[test]
    fn a_pci_function_that_is_not_an_unused_drive_is_rejected() {
        assert!(
            asked(None, true, "none")
                .unwrap_err()
                .starts_with("PCI function 0000:00:04.0 does not exist; specify a drive")
        );
        assert!(refused(Function { class: Some(0x020000), ..free() }).contains("(its class is 0x020000); specify"));
        let held = Function { driver: Some("nvme".into()), disks: vec!["nvme0n1".into()], ..free() };
        assert_eq!(
            refused(held.clone()),
            "0000:00:04.0 is bound to the kernel driver nvme (nvme0n1); release it: echo 0000:00:04.0 > \
             /sys/bus/pci/drivers/nvme/unbind, as root; …/bind rebinds it"
        );
        assert_eq!(
            refused(Function { user: Some("nvme0n1: mounted at /srv".into()), ..held }),
            "0000:00:04.0 is in use (nvme0n1: mounted at /srv), by the kernel driver nvme; choose an unused drive"
        );
    }

    #[test]
    fn an_inaccessible_drive_is_rejected_with_the_remedy() {
        assert!(asked(Some(free()), false, "none").unwrap_err().contains("CAP_SYS_ADMIN"));
        let translated = refused(Function { iommu: iommu("DMA-FQ"), ..free() });
        assert!(translated.contains("through an IOMMU (its group is of type DMA-FQ); bind it to vfio-pci"));
        assert!(
            refused(Function { iommu: Some(Iommu { group: 3, kind: None }), ..free() }).contains("of type unknown")
        );
        let locked = asked(Some(free()), true, "integrity").unwrap_err();
        assert!(
            locked.starts_with("the kernel is locked down (integrity), ") && locked.contains("boot without lockdown")
        );
    }
}
