//! VFIO (linux/vfio.h): user-space access to a device behind an IOMMU, type 1, without interrupts.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::prp::PAGE;
use crate::engine::last_error;
use iotrail_base::error::{Error, Result};
use iotrail_host::pci::Address;

const fn request(number: u32) -> u32 {
    (b';' as u32) << 8 | (100 + number)
}

const GET_API_VERSION: u32 = request(0);
const CHECK_EXTENSION: u32 = request(1);
const SET_IOMMU: u32 = request(2);
const GROUP_GET_STATUS: u32 = request(3);
const GROUP_SET_CONTAINER: u32 = request(4);
const GROUP_GET_DEVICE_FD: u32 = request(6);
const DEVICE_GET_REGION_INFO: u32 = request(8);
const IOMMU_MAP_DMA: u32 = request(13);
const IOMMU_UNMAP_DMA: u32 = request(14);

const API_VERSION: i32 = 0;
const TYPE1_V2: u32 = 3;
const GROUP_VIABLE: u32 = 1;
pub const BAR0: u32 = 0;
pub const CONFIGURATION: u32 = 7;
const READ_AND_WRITE: u32 = 1 | 2;

/// First device address: above the range that a PC reserves for interrupts and firmware.
const FIRST: u64 = 1 << 32;

#[repr(C)]
#[derive(Default)]
struct GroupStatus {
    argsz: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct RegionInfo {
    argsz: u32,
    flags: u32,
    index: u32,
    cap_offset: u32,
    size: u64,
    offset: u64,
}

#[repr(C)]
struct Map {
    argsz: u32,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
}

#[repr(C)]
struct Unmap {
    argsz: u32,
    flags: u32,
    iova: u64,
    size: u64,
}

const _: () = assert!(size_of::<RegionInfo>() == 32 && size_of::<Map>() == 32 && size_of::<Unmap>() == 24);

/// An ioctl with a numeric argument.
fn ask(file: &File, what: u32, argument: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: these requests take a number, or ignore it.
    match unsafe { libc::ioctl(file.as_raw_fd(), what.into(), argument) } {
        -1 => Err(last_error()),
        answer => Ok(answer),
    }
}

/// An ioctl with a structure as argument.
///
/// # Safety
/// `argument` has the type that the request expects.
unsafe fn ask_with<T>(file: &File, what: u32, argument: *mut T) -> io::Result<i32> {
    // SAFETY: the caller's promise.
    match unsafe { libc::ioctl(file.as_raw_fd(), what.into(), argument) } {
        -1 => Err(last_error()),
        answer => Ok(answer),
    }
}

/// The IOMMU page tables for a group of devices.
pub struct Container {
    container: File,
    /// Open as long as the container is in use.
    _group: File,
    next: AtomicU64,
}

/// Part of a device's file: a BAR, or the configuration space.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    pub offset: u64,
    pub bytes: u64,
}

/// Opens the device and its group.
pub fn open(address: &Address, group: u32) -> Result<(Container, File)> {
    let cannot = |what: String, e: io::Error| {
        Error::machine(
            what,
            "check that all devices in its IOMMU group are bound to vfio-pci and not in use by another process",
        )
        .because(e)
    };
    let path = format!("/dev/vfio/{group}");
    let node = |path: &str| OpenOptions::new().read(true).write(true).open(path);
    let container = node("/dev/vfio/vfio").map_err(|e| cannot("cannot open /dev/vfio/vfio".into(), e))?;
    let group = node(&path).map_err(|e| cannot(format!("cannot open {path}"), e))?;
    let unusable = |e| cannot(format!("cannot use {address} through VFIO"), e);
    let other = |what: &str| unusable(io::Error::other(what.to_owned()));
    if ask(&container, GET_API_VERSION, 0).map_err(unusable)? != API_VERSION {
        return Err(other("this kernel has another VFIO version"));
    }
    if ask(&container, CHECK_EXTENSION, TYPE1_V2.into()).map_err(unusable)? == 0 {
        return Err(other("this kernel has no type 1 IOMMU (the module vfio_iommu_type1)"));
    }
    let mut status = GroupStatus { argsz: size_of::<GroupStatus>() as u32, flags: 0 };
    // SAFETY: a live structure of the type that the request expects.
    unsafe { ask_with(&group, GROUP_GET_STATUS, &raw mut status) }.map_err(unusable)?;
    if status.flags & GROUP_VIABLE == 0 {
        return Err(other("another device in its group is bound to a kernel driver"));
    }
    let mut fd = container.as_raw_fd();
    // SAFETY: the request takes the address of a descriptor number.
    unsafe { ask_with(&group, GROUP_SET_CONTAINER, &raw mut fd) }.map_err(unusable)?;
    ask(&container, SET_IOMMU, TYPE1_V2.into()).map_err(unusable)?;
    let name = std::ffi::CString::new(address.to_string()).map_err(|e| unusable(io::Error::other(e)))?;
    // SAFETY: the request takes a NUL-terminated string.
    let device = unsafe { ask_with(&group, GROUP_GET_DEVICE_FD, name.as_ptr().cast_mut()) }.map_err(unusable)?;
    // SAFETY: the kernel has just created this descriptor for this process, and it has no other owner.
    let device = unsafe { File::from_raw_fd(device) };
    Ok((Container { container, _group: group, next: AtomicU64::new(FIRST) }, device))
}

/// Location of a region in the device's file.
pub fn region(device: &File, index: u32) -> io::Result<Region> {
    let mut info = RegionInfo { argsz: size_of::<RegionInfo>() as u32, index, ..RegionInfo::default() };
    // SAFETY: a live structure of the type that the request expects.
    unsafe { ask_with(device, DEVICE_GET_REGION_INFO, &raw mut info) }?;
    Ok(Region { offset: info.offset, bytes: info.size })
}

impl Container {
    /// Maps `bytes` at `memory` (complete pages) for the device, and returns the device address. The pages stay pinned
    /// until [`unmap`](Self::unmap).
    pub fn map(&self, memory: *mut u8, bytes: usize) -> io::Result<u64> {
        // An unmapped page separates mappings, so that overruns fault.
        let iova = self.next.fetch_add((bytes + PAGE) as u64, Ordering::Relaxed);
        let mut map = Map {
            argsz: size_of::<Map>() as u32,
            flags: READ_AND_WRITE,
            vaddr: memory as u64,
            iova,
            size: bytes as u64,
        };
        // SAFETY: a live structure of the type that the request expects; the caller owns the memory.
        unsafe { ask_with(&self.container, IOMMU_MAP_DMA, &raw mut map) }?;
        Ok(iova)
    }

    pub fn unmap(&self, iova: u64, bytes: usize) {
        let mut unmap = Unmap { argsz: size_of::<Unmap>() as u32, flags: 0, iova, size: bytes as u64 };
        // SAFETY: as above.
        let done = unsafe { ask_with(&self.container, IOMMU_UNMAP_DMA, &raw mut unmap) };
        debug_assert!(done.is_ok(), "{done:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vfio_ioctl_numbers_match_the_kernel_headers() {
        assert_eq!([GET_API_VERSION, GROUP_GET_DEVICE_FD, IOMMU_MAP_DMA], [0x3b64, 0x3b6a, 0x3b71]);
    }
}
