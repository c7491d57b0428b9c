//! Finds available kernels (on this machine, in the lab's cache, in Debian's registry), and prepares one for booting.

mod image;
mod release;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use super::arch::Arch;
use super::cache::{Cache, cannot_write};
use super::packages::{Packages, said_by};
use super::tools;
use iotrail_base::error::{Error, OrFail, Result};

pub use self::image::unpack;

/// A bootable kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// `None` if unknown.
    pub release: Option<String>,
    /// The ELF file.
    pub vmlinux: PathBuf,
    /// `lib/modules/RELEASE` with `modules.dep`.
    pub modules: PathBuf,
}

/// Where a kernel is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In /boot and /lib/modules of this machine.
    Installed,
    /// In the lab's cache.
    Fetched,
    /// In Debian's registry.
    Registry,
}

/// A release, at the location that requires the least effort.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its release.
    pub release: String,
    /// Its location.
    pub place: Place,
}

/// Kernel selected by `--kernel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelChoice {
    /// The newest one that needs no download; if there is none, the newest in the registry.
    AtHand,
    /// The newest anywhere.
    Newest,
    /// A release or its prefix.
    Release(String),
    /// `vmlinux` or `vmlinuz`, and its module directory.
    File(PathBuf, PathBuf),
}

/// Kernels of this machine, the cache, and the registry according to the last downloaded lists; newest first.
pub fn list(cache: &Cache, arch: Arch) -> Result<Vec<Listed>> {
    let mut found: BTreeMap<String, Place> = BTreeMap::new();
    for name in Packages::of(cache, arch).names("linux-image-")? {
        if let Some(release) = release::of_package(&name, arch) {
            found.insert(release.to_owned(), Place::Registry);
        }
    }
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().into_string().ok()).filter(|n| !n.starts_with('.')).collect()
    };
    let fetched = names(&cache.root().join(KERNELS)).into_iter().filter(|release| Arch::of_release(release) == arch);
    found.extend(fetched.map(|release| (release, Place::Fetched)));
    if arch == Arch::host() {
        let installed = names(Path::new(MODULES)).into_iter().filter(|release| installed(release).is_some());
        found.extend(installed.map(|release| (release, Place::Installed)));
    }
    let mut list: Vec<Listed> = found.into_iter().map(|(release, place)| Listed { release, place }).collect();
    list.sort_by(|a, b| release::order(&b.release, &a.release));
    Ok(list)
}

const MODULES: &str = "/lib/modules";
const KERNELS: &str = "kernels";

/// Image and modules of an installed kernel, if this user may read them.
fn installed(release: &str) -> Option<(PathBuf, PathBuf)> {
    let modules = Path::new(MODULES).join(release);
    let images = [Path::new("/boot").join(format!("vmlinuz-{release}")), modules.join("vmlinuz")];
    let image = images.into_iter().find(|i| std::fs::File::open(i).is_ok())?;
    modules.join("modules.dep").exists().then_some((image, modules))
}

/// Prepares the selected kernel for booting, and downloads it if necessary. `tell` receives a message before each slow
/// step.
pub fn ready(asked: &KernelChoice, arch: Arch, cache: &Cache, tell: &dyn Fn(&str)) -> Result<Kernel> {
    if let KernelChoice::File(file, modules) = asked {
        return of_file(file, modules, cache);
    }
    let Listed { release, place } = choose(asked, arch, cache, tell)?;
    match place {
        Place::Registry => fetch(&release, arch, cache, tell),
        Place::Fetched => Ok(fetched(&release, &cache.root().join(KERNELS).join(&release))),
        Place::Installed => {
            let (image, modules) = installed(&release).ok_or_else(|| {
                Error::disturbed(format!("kernel {release} was removed meanwhile"), "choose another one with --kernel")
            })?;
            Ok(Kernel { release: Some(release), ..of_file(&image, &modules, cache)? })
        }
    }
}

/// The same, ignoring kernels installed on this machine.
pub fn fetch_asked(asked: &str, arch: Arch, cache: &Cache, tell: &dyn Fn(&str)) -> Result<Kernel> {
    let asked = if asked == "newest" { KernelChoice::Newest } else { KernelChoice::Release(asked.into()) };
    Packages::of(cache, arch).refresh(tell)?;
    let all = list(cache, arch)?.into_iter().filter(|k| k.place != Place::Installed).collect::<Vec<_>>();
    let release = pick(&asked, &all).ok_or_else(|| unknown(&asked))?.release;
    fetch(&release, arch, cache, tell)
}

fn choose(asked: &KernelChoice, arch: Arch, cache: &Cache, tell: &dyn Fn(&str)) -> Result<Listed> {
    let here: Vec<Listed> = list(cache, arch)?.into_iter().filter(|k| k.place != Place::Registry).collect();
    if *asked != KernelChoice::Newest
        && let Some(kernel) = pick(asked, &here)
    {
        return Ok(kernel);
    }
    match (Packages::of(cache, arch).refresh(tell), asked) {
        (Ok(()), _) => {}
        (Err(e), KernelChoice::Newest) if !here.is_empty() => {
            tell(&format!("{e}; the newest local kernel is used"));
            return pick(asked, &here).ok_or(e);
        }
        (Err(e), _) => return Err(e),
    }
    pick(asked, &list(cache, arch)?).ok_or_else(|| unknown(asked))
}

/// First match in the list, which is sorted newest first. The newest one may be at any location; plain flavours are
/// preferred.
fn pick(asked: &KernelChoice, list: &[Listed]) -> Option<Listed> {
    let is_plain = |k: &&Listed| release::flavour(&k.release).is_none();
    let found = match asked {
        KernelChoice::Release(name) => list.iter().find(|k| release::stands_for(name, &k.release)),
        KernelChoice::AtHand | KernelChoice::Newest => list.iter().find(is_plain).or(list.first()),
        KernelChoice::File(..) => None,
    };
    found.cloned()
}

fn unknown(asked: &KernelChoice) -> Error {
    let name = match asked {
        KernelChoice::Release(name) => format!("no kernel {name}"),
        _ => "no kernel".to_owned(),
    };
    Error::input(
        format!("there is {name} on this machine, in the lab's cache, or in Debian's registry"),
        "`iotrail lab kernels` lists the available kernels",
    )
}

/// Downloads a release from the registry to the cache, unless it is already there.
fn fetch(release: &str, arch: Arch, cache: &Cache, tell: &dyn Fn(&str)) -> Result<Kernel> {
    let folder = cache.entry(&format!("{KERNELS}/{release}"), |folder| {
        let packages = Packages::of(cache, arch);
        let mut wanted = Vec::new();
        // Newer kernels are split into packages, and `linux-image-…` only depends on the others.
        for piece in ["linux-image", "linux-binary", "linux-modules", "linux-base"] {
            let name = format!("{piece}-{release}");
            wanted.extend(packages.names(&name)?.into_iter().filter(|n| *n == name));
        }
        // busybox runs on this machine.
        let busybox = tools::busybox(cache, Arch::host(), tell)?;
        tell(&format!("fetching the kernel {release}"));
        packages.unpack(&wanted, folder)?;
        let files = |e| cannot_write(folder, e);
        let modules = folder.join("lib/modules").join(release);
        if !modules.exists() {
            std::fs::create_dir_all(folder.join("lib")).map_err(files)?;
            std::fs::rename(folder.join("usr/lib/modules"), folder.join("lib/modules")).map_err(files)?;
        }
        let images = [folder.join("boot").join(format!("vmlinuz-{release}")), modules.join("vmlinuz")];
        let image = images.iter().find(|i| i.exists()).or_machine(
            format_args!("the packages of {release} contain no kernel image"),
            "choose another one with --kernel",
        )?;
        let bytes = std::fs::read(image).map_err(|e| cannot_read(image, e))?;
        let elf = image::vmlinux(bytes).map_err(|why| unusable(image, &why))?;
        std::fs::write(folder.join("vmlinux"), elf).map_err(files)?;
        std::fs::remove_file(image).map_err(files)?;
        for rest in ["boot", "usr"].map(|name| folder.join(name)).iter().filter(|rest| rest.exists()) {
            std::fs::remove_dir_all(rest).map_err(files)?;
        }
        tell(&format!("listing the modules of {release}"));
        said_by(Command::new(busybox).arg("depmod").arg("-b").arg(folder).arg(release), "busybox depmod").map(drop)
    })?;
    Ok(fetched(release, &folder))
}

fn fetched(release: &str, folder: &Path) -> Kernel {
    Kernel {
        release: Some(release.to_owned()),
        vmlinux: folder.join("vmlinux"),
        modules: folder.join("lib/modules").join(release),
    }
}

/// Extracts the kernel from an image once. The image's size and time distinguish it from another one at the same path.
fn of_file(file: &Path, modules: &Path, cache: &Cache) -> Result<Kernel> {
    let canonical = |path: &Path| std::fs::canonicalize(path).map_err(|e| cannot_read(path, e));
    let (file, modules) = (canonical(file)?, canonical(modules)?);
    if !modules.join("modules.dep").is_file() {
        return Err(Error::input(
            format!("{} has no modules.dep, so it is not a kernel module directory", modules.display()),
            "specify lib/modules/RELEASE with --modules; run depmod if it has not been run",
        ));
    }
    let release = modules.file_name().map(|n| n.to_string_lossy().into_owned());
    let meta = file.metadata().map_err(|e| cannot_read(&file, e))?;
    let time = meta.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    let stamp = format!("{}-{}", meta.len(), time.as_nanos());
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = cache.entry(&format!("images/{name}-{stamp}"), |folder| {
        let bytes = std::fs::read(&file).map_err(|e| cannot_read(&file, e))?;
        let elf = image::vmlinux(bytes).map_err(|why| unusable(&file, &why))?;
        std::fs::write(folder.join("vmlinux"), elf).map_err(|e| cannot_write(folder, e))
    })?;
    Ok(Kernel { release, vmlinux: folder.join("vmlinux"), modules })
}

fn cannot_read(path: &Path, cause: std::io::Error) -> Error {
    Error::input(
        format!("cannot read {}", path.display()),
        "specify an existing file or directory with --kernel and --modules",
    )
    .because(cause)
}

fn unusable(image: &Path, why: &str) -> Error {
    Error::input(
        format!("{} is not a bootable kernel: {why}", image.display()),
        "specify a vmlinux or vmlinuz with --kernel",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_matching_kernel_is_chosen() {
        let kernel = |release: &str, place| Listed { release: release.into(), place };
        let list = [
            kernel("7.3.4+deb13-rt-amd64", Place::Registry),
            kernel("7.3.4+deb13-amd64", Place::Registry),
            kernel("6.12.117+deb13-amd64", Place::Fetched),
            kernel("6.1.0-56-amd64", Place::Registry),
            kernel("6.1.0-50-amd64", Place::Fetched),
        ];
        let chosen = |asked: KernelChoice| pick(&asked, &list).map(|k| k.release);
        assert_eq!(chosen(KernelChoice::Newest).as_deref(), Some("7.3.4+deb13-amd64"));
        assert_eq!(chosen(KernelChoice::Release("6.1".into())).as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(chosen(KernelChoice::Release("6.1.0-50".into())).as_deref(), Some("6.1.0-50-amd64"));
        assert_eq!(chosen(KernelChoice::Release("5".into())), None);
        assert_eq!(chosen(KernelChoice::Release("7-rt".into())).as_deref(), Some("7.3.4+deb13-rt-amd64"));
        assert_eq!(chosen(KernelChoice::Release("6.1-rt".into())), None);
    }

    #[test]
    fn a_kernel_file_requires_its_modules() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(Some(&folder.path().join("cache"))).unwrap();
        let (file, modules) = (folder.path().join("vmlinux"), folder.path().join("6.1.0-custom"));
        std::fs::write(&file, b"\x7fELF").unwrap();
        std::fs::create_dir(&modules).unwrap();
        let asked = KernelChoice::File(file.clone(), modules.clone());
        let e = ready(&asked, Arch::host(), &cache, &|_| ()).unwrap_err();
        assert!(e.to_string().contains("has no modules.dep"), "{e}");
        std::fs::write(modules.join("modules.dep"), "").unwrap();
        let kernel = ready(&asked, Arch::host(), &cache, &|_| ()).unwrap();
        assert_eq!(kernel.release.as_deref(), Some("6.1.0-custom"));
        assert_eq!(std::fs::read(&kernel.vmlinux).unwrap(), b"\x7fELF");
        std::fs::write(&file, b"#!/bin/sh").unwrap();
        let e = ready(&asked, Arch::host(), &cache, &|_| ()).unwrap_err();
        assert_eq!((e.exit_status(), e.to_string().contains("is not a bootable kernel")), (2, true));
    }
}
