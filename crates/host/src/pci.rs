//! A PCI function: its class, current user, and IOMMU.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::block::usage;
use super::files::{self, ROOT};

/// Class code of an NVMe controller: mass storage, non-volatile memory, NVM Express.
pub const NVME: u32 = 0x01_08_02;

/// `0000:00:04.0`: domain, bus, device, function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let hex = |part: &str, digits: std::ops::RangeInclusive<usize>| {
            digits.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit())
        };
        let (rest, function) = text.split_once('.').ok_or(())?;
        let parts: Vec<&str> = rest.split(':').collect();
        let sound =
            matches!(parts[..], [domain, bus, device] if hex(domain, 4..=8) && hex(bus, 2..=2) && hex(device, 2..=2));
        if sound && matches!(function.as_bytes(), [b'0'..=b'7']) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(())
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// IOMMU state of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iommu {
    /// IOMMU group number.
    pub group: u32,
    /// `identity`: physical addresses; `DMA` and others: page tables.
    pub kind: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub class: Option<u32>,
    /// Kernel driver bound to the function; `None` if there is none.
    pub driver: Option<String>,
    /// `None` if no IOMMU is in use for the function.
    pub iommu: Option<Iommu>,
    /// Disks (`nvme0n1`) that a driver has created for it.
    pub disks: Vec<String>,
    /// Current user of one of the disks: `nvme0n1: mounted at /srv`.
    pub user: Option<String>,
}

/// sysfs directory of a function.
pub fn folder(address: &Address) -> PathBuf {
    folder_in(Path::new(ROOT), address)
}

fn folder_in(root: &Path, address: &Address) -> PathBuf {
    root.join("sys/bus/pci/devices").join(&address.0)
}

/// `None` if the PCI function does not exist.
pub fn function(address: &Address) -> Option<Function> {
    function_in(Path::new(ROOT), address)
}

fn function_in(root: &Path, address: &Address) -> Option<Function> {
    let dir = fs::canonicalize(folder_in(root, address)).ok()?;
    let class = files::text(&dir, "class").and_then(|t| u32::from_str_radix(t.strip_prefix("0x")?, 16).ok());
    let group = files::link_name(&dir.join("iommu_group")).and_then(|n| n.parse().ok());
    let iommu = group.map(|group| Iommu { group, kind: files::text(&dir, "iommu_group/type") });
    let ours = |name: &String| fs::canonicalize(root.join("sys/block").join(name)).is_ok_and(|d| d.starts_with(&dir));
    let disks: Vec<String> = files::entries(root, "sys/block").into_iter().filter(ours).collect();
    let used = |name: &String| {
        let disk = fs::canonicalize(root.join("sys/block").join(name)).ok()?;
        usage::user_in(root, &disk).map(|by| format!("{name}: {by}"))
    };
    let user = disks.iter().find_map(used);
    Some(Function { class, driver: files::link_name(&dir.join("driver")), iommu, disks, user })
}

/// All NVMe controllers with their addresses.
pub fn nvme_controllers() -> Vec<(Address, Function)> {
    let all = files::entries(Path::new(ROOT), "sys/bus/pci/devices");
    let addresses = all.iter().filter_map(|name| name.parse::<Address>().ok());
    let described = addresses.filter_map(|a| function(&a).map(|f| (a, f)));
    described.filter(|(_, f)| f.class == Some(NVME)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    #[test]
    fn only_complete_pci_addresses_are_accepted() {
        for yes in ["0000:00:04.0", "10000:e1:1f.7", "0000:AB:00.0"] {
            assert_eq!(yes.parse::<Address>().unwrap().to_string(), yes.to_ascii_lowercase());
        }
        for no in
            ["00:04.0", "0000:00:04", "0000:00:04.8", "0000:00:4.0", "/dev/ng0n1", "0000:0g:04.0", "0000:00:04.0 "]
        {
            assert_eq!(no.parse::<Address>(), Err(()), "{no}");
        }
    }

    #[test]
    fn the_driver_and_iommu_of_a_pci_function_are_read() {
        const PCI: &str = "sys/devices/pci0000:00/0000:00:04.0";
        let at: Address = "0000:00:04.0".parse().unwrap();
        let t = Tree::new()
            .file(&format!("{PCI}/class"), "0x010802\n")
            .link("sys/bus/pci/devices/0000:00:04.0", PCI)
            .dir("sys/block");
        let bare = Function { class: Some(NVME), driver: None, iommu: None, disks: vec![], user: None };
        assert_eq!(function_in(t.root(), &at), Some(bare.clone()));
        let t = t
            .dir("sys/bus/pci/drivers/nvme")
            .link(&format!("{PCI}/driver"), "sys/bus/pci/drivers/nvme")
            .file("sys/kernel/iommu_groups/7/type", "DMA-FQ\n")
            .link(&format!("{PCI}/iommu_group"), "sys/kernel/iommu_groups/7")
            .file(&format!("{PCI}/nvme/nvme0/nvme0n1/dev"), "259:0")
            .link("sys/block/nvme0n1", &format!("{PCI}/nvme/nvme0/nvme0n1"))
            .file("proc/self/mountinfo", "21 1 259:0 / /srv rw - xfs /dev/nvme0n1 rw\n");
        assert_eq!(
            function_in(t.root(), &at),
            Some(Function {
                driver: Some("nvme".into()),
                iommu: Some(Iommu { group: 7, kind: Some("DMA-FQ".into()) }),
                disks: vec!["nvme0n1".into()],
                user: Some("nvme0n1: mounted at /srv".into()),
                ..bare
            })
        );
        assert_eq!(function_in(t.root(), &"0000:00:05.0".parse().unwrap()), None);
    }
}
