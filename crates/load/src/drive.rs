//! NVMe targets without files: a namespace's generic device, for passthrough, and an entire drive, for iotrail's own
//! driver.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use crate::engine::Passage;
use crate::engine::io_uring::cmd;
use crate::engine::nvme::identify::Namespace;
use crate::engine::nvme::user::{self, Controller};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::block;
use iotrail_host::pci::Address;
use iotrail_schema::measurement::Warning;

use super::device;
use super::refusal::{cannot, check_leave, usable};
use super::spec::LoadSpec;

/// Maximum number of blocks per command, whose counter has 16 bits.
const BLOCKS_MAX: u32 = 1 << 16;

/// Called after the last I/O: flushes a drive driven by iotrail's own driver, because only the kernel flushes other
/// drives. The measurement is valid even if this fails.
pub fn settle(passage: &Passage, spec: &LoadSpec) -> Option<Warning> {
    let Passage::Own(controller) = passage else { return None };
    let failed = if spec.writes() { controller.flush().err()? } else { return None };
    Some(Warning::new("not_flushed", format!("written data may be lost if the drive loses power: {failed}"), ""))
}

/// Whether `path` is a namespace's generic character device.
pub fn is_generic(path: &Path) -> bool {
    let Ok(meta) = fs::metadata(path) else { return false };
    let number = meta.rdev();
    let subsystem = format!("/sys/dev/char/{}:{}/subsystem", libc::major(number), libc::minor(number));
    meta.file_type().is_char_device() && fs::read_link(subsystem).is_ok_and(|s| s.ends_with("nvme-generic"))
}

/// A drive for use by all jobs.
pub struct Opened {
    pub passage: Passage,
    /// One descriptor per job, or none.
    pub fds: Vec<OwnedFd>,
    /// Prevents mounts while the load writes.
    pub claim: Option<File>,
    pub bytes: u64,
}

/// `/dev/ng0n1`, for `--engine io_uring_cmd`.
pub fn generic(spec: &LoadSpec, path: &Path) -> Result<Opened> {
    let name = path.display();
    let meta = fs::metadata(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            Error::input(format!("{name} does not exist"), "specify an NVMe generic device: `ls /dev/ng*` lists them")
        }
        _ => cannot("access", path, e),
    })?;
    if !is_generic(path) {
        let what = if meta.file_type().is_block_device() { "is a block device" } else { "is not one" };
        return Err(Error::input(
            format!("--engine {} requires an NVMe generic device, but {name} {what}", spec.engine),
            match instead(path) {
                Some(generic) => format!("use --file {generic}"),
                None => "specify one with --file: `ls /dev/ng*` lists them".into(),
            },
        ));
    }
    check_leave(spec, path)?;
    let claim = if spec.writes() { claim_disk(path)? } else { None };
    let open = || OpenOptions::new().read(true).write(spec.writes()).open(path).map_err(|e| cannot("open", path, e));
    let first = open()?;
    let namespace = cmd::namespace(first.as_raw_fd()).map_err(|e| match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            Error::machine(format!("passthrough commands to {name} are not permitted"), "run as root (CAP_SYS_ADMIN)")
                .because(e)
        }
        _ => Error::machine(format!("cannot identify the NVMe namespace of {name}"), "choose another one").because(e),
    })?;
    check_format(spec, path, &namespace, None)?;
    let bytes = usable(spec, path, namespace.bytes())?;
    let mut fds = vec![OwnedFd::from(first)];
    while fds.len() < spec.jobs as usize {
        fds.push(open()?.into());
    }
    Ok(Opened { passage: Passage::Generic(namespace), fds, claim, bytes })
}

/// The generic device of a namespace whose disk or partition was specified, if the kernel has one with the usual name.
fn instead(path: &Path) -> Option<String> {
    let disk = block::describe(path).ok()?.disks.into_iter().next()?.name;
    let generic = format!("/dev/ng{}", disk.strip_prefix("nvme")?);
    Path::new(&generic).exists().then_some(generic)
}

/// Claims the kernel's disk for the same namespace, if it exists: a load must not bypass a file system on it or a
/// device stacked on it.
fn claim_disk(path: &Path) -> Result<Option<File>> {
    let below = block::describe(path)?;
    let disk = below.disks.iter().find(|d| d.dev.is_some());
    disk.map(|d| device::claim(&Path::new("/dev").join(&d.name))).transpose()
}

/// `0000:00:04.0` or `0000:00:04.0/2`, for `--engine nvme_user`.
pub fn own(spec: &LoadSpec, path: &Path) -> Result<Opened> {
    let (address, wanted) = path.to_str().and_then(parse).or_input(
        format_args!("--engine {} requires a drive's PCI address, but {} is not one", spec.engine, path.display()),
        "use --file 0000:00:04.0, with /N for namespace N; `lspci -D -d ::0108` lists the drives",
    )?;
    check_leave(spec, path)?;
    let controller = Controller::open(&address, wanted, spec.jobs, user::entries(spec.depth))?;
    let limit = controller.limits.transfer_bytes(controller.capabilities.least_page_shift());
    check_format(spec, path, &controller.namespace, limit)?;
    let bytes = usable(spec, path, controller.namespace.bytes())?;
    Ok(Opened { passage: Passage::Own(Arc::new(controller)), fds: Vec::new(), claim: None, bytes })
}

fn parse(text: &str) -> Option<(Address, Option<u32>)> {
    let (address, namespace) = match text.split_once('/') {
        Some((address, n)) => (address, Some(n.parse().ok().filter(|n| *n > 0)?)),
        None => (text, None),
    };
    Some((address.parse().ok()?, namespace))
}

/// Whether blocks of this size can be read and written. `limit`: maximum bytes per command, if limited.
fn check_format(spec: &LoadSpec, path: &Path, namespace: &Namespace, limit: Option<u64>) -> Result<()> {
    let (name, unit) = (path.display(), namespace.block_bytes());
    if namespace.metadata_bytes > 0 {
        return Err(Error::machine(
            format!("the blocks of {name} have {} bytes of metadata each", namespace.metadata_bytes),
            "choose a namespace without metadata (nvme format can remove it, but destroys the contents)",
        ));
    }
    if !spec.block_bytes.is_multiple_of(unit) {
        return Err(Error::input(
            format!("--bs {} is not a multiple of the {unit}-byte blocks of {name}", spec.block_bytes),
            format!("use --bs {}", spec.block_bytes.next_multiple_of(unit)),
        ));
    }
    let most = limit.unwrap_or(u64::MAX).min(u64::from(unit) * u64::from(BLOCKS_MAX));
    if u64::from(spec.block_bytes) > most {
        return Err(Error::input(
            format!("--bs {}: {name} accepts at most {most} bytes per command", spec.block_bytes),
            format!("use --bs {most} or less"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{EngineKind, LoadOptions};
    use iotrail_base::units::Bytes;

    fn spec(engine: EngineKind, bs: u64) -> LoadSpec {
        let o = LoadOptions { engine, bs: Bytes(bs), file: Some("/dev/ng0n1".into()), ..LoadOptions::default() };
        LoadSpec::resolve(&o, None, &[0]).unwrap()
    }

    #[test]
    fn a_pci_address_may_include_a_namespace() {
        assert_eq!(parse("0000:00:04.0").unwrap().1, None);
        assert_eq!(parse("0000:00:04.0/2").unwrap().1, Some(2));
        for no in ["0000:00:04.0/0", "0000:00:04.0/x", "/dev/nvme0n1", "nvme0", ""] {
            assert!(parse(no).is_none(), "{no}");
        }
    }

    #[test]
    fn block_sizes_that_do_not_fit_the_namespace_are_rejected() {
        let ns = Namespace { id: 1, blocks: 1 << 20, block_shift: 12, metadata_bytes: 0 };
        let check = |bs, ns: &Namespace, limit| {
            check_format(&spec(EngineKind::NvmeUser, bs), Path::new("x"), ns, limit).map_err(|e| e.to_string())
        };
        assert_eq!(check(8192, &ns, Some(512 << 10)), Ok(()));
        assert_eq!(
            check(512, &ns, None).unwrap_err(),
            "--bs 512 is not a multiple of the 4096-byte blocks of x; use --bs 4096"
        );
        assert_eq!(
            check(1 << 20, &ns, Some(512 << 10)).unwrap_err(),
            "--bs 1048576: x accepts at most 524288 bytes per command; use --bs 524288 or less"
        );
        let small = Namespace { block_shift: 9, ..ns };
        assert!(check(64 << 20, &small, None).unwrap_err().contains("33554432 bytes"));
        assert!(check(4096, &Namespace { metadata_bytes: 8, ..ns }, None).unwrap_err().contains("8 bytes of metadata"));
    }

    #[test]
    fn a_path_that_is_not_a_generic_device_is_rejected_and_not_created() {
        let says =
            |path: &str| generic(&spec(EngineKind::IoUringCmd, 4096), Path::new(path)).err().unwrap().to_string();
        assert!(
            says("/dev/null").ends_with("but /dev/null is not one; specify one with --file: `ls /dev/ng*` lists them")
        );
        assert!(says("/no/such").starts_with("/no/such does not exist; specify an NVMe generic device"));
        let e = own(&spec(EngineKind::NvmeUser, 4096), Path::new("/dev/nvme0n1")).err().unwrap().to_string();
        assert!(
            e.starts_with("--engine nvme_user requires a drive's PCI address, but /dev/nvme0n1 is not one; use"),
            "{e}"
        );
        assert!(!is_generic(Path::new("/dev/null")));
    }
}
