//! Kernel modules that a guest needs before it can see the host's files, with their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::kernel::unpack;
use iotrail_base::error::{Error, OrFail, Result};

/// A module file for the guest, uncompressed: an emulated guest takes long to decompress xz.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Path below `lib/modules/RELEASE`, without a compression suffix.
    pub path: String,
    pub bytes: Vec<u8>,
}

/// Files for a guest's initramfs: modules, and modprobe's lists restricted to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    pub modules: Vec<Module>,
    /// `modules.dep` for these modules.
    pub dependencies: String,
    /// Names of the modules to load; the others are built in.
    pub to_load: Vec<String>,
}

/// `names` with all their dependencies, from `folder` (`lib/modules/RELEASE`). Built-in modules need no file.
///
/// Fails if the kernel has one of them neither as a module nor built in.
pub fn closure(folder: &Path, names: &[&str]) -> Result<Closure> {
    let read = |file: &str| {
        let path = folder.join(file);
        std::fs::read_to_string(&path).or_input(
            format_args!("cannot read {}", path.display()),
            "specify the kernel's module directory with --modules",
        )
    };
    let listed = read("modules.dep")?;
    let dependencies = Dependencies::parse(&listed);
    let built_in: BTreeSet<String> = read("modules.builtin")?.lines().map(name_of).collect();
    let (mut wanted, mut to_load) = (BTreeSet::new(), Vec::new());
    for name in names {
        if dependencies.add(name, &mut wanted) {
            to_load.push((*name).to_owned());
        } else if !built_in.contains(&plain(name)) {
            return Err(Error::input(
                format!(
                    "the kernel whose modules are in {} has no {name}, so it cannot run in the lab",
                    folder.display()
                ),
                "choose another one with --kernel",
            ));
        }
    }
    let mut modules = Vec::new();
    let mut lines = String::new();
    for path in wanted {
        let file = folder.join(path);
        let fail = |why: String| {
            Error::input(
                format!("cannot read the module {}", file.display()),
                "fetch the kernel again, or choose another",
            )
            .because(why)
        };
        let bytes = std::fs::read(&file).map_err(|e| fail(e.to_string()))?;
        let (path, bytes) = match unpacked_name(path) {
            same if same == path => (same, bytes),
            other => (other, unpack(&bytes, bytes.len() * 4).map_err(fail)?),
        };
        let needs: Vec<&str> = dependencies.of(path).iter().map(|p| unpacked_name(p)).collect();
        lines.push_str(&format!("{path}: {}\n", needs.join(" ")));
        modules.push(Module { path: path.to_owned(), bytes });
    }
    Ok(Closure { modules, dependencies: lines, to_load })
}

/// `modules.dep` by module name: the module's path and those of its dependencies.
struct Dependencies<'a>(BTreeMap<String, (&'a str, Vec<&'a str>)>);

impl<'a> Dependencies<'a> {
    fn parse(text: &'a str) -> Self {
        let entry = |line: &'a str| {
            let (path, needs) = line.split_once(':')?;
            Some((name_of(path), (path, needs.split_whitespace().collect())))
        };
        Dependencies(text.lines().filter_map(entry).collect())
    }

    /// Adds the paths of a module and its dependencies. Returns false if the module does not exist.
    fn add(&self, name: &str, to: &mut BTreeSet<&'a str>) -> bool {
        let Some((path, needs)) = self.0.get(&plain(name)) else { return false };
        if to.insert(path) {
            // Some depmod versions list all dependencies, others only the direct ones.
            for path in needs {
                self.add(&name_of(path), to);
            }
        }
        true
    }

    fn of(&self, path: &str) -> &[&'a str] {
        self.0.get(&name_of(path)).map_or(&[], |(_, needs)| needs)
    }
}

/// `nvme_core` for `kernel/drivers/nvme/host/nvme-core.ko.xz`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    plain(file.split_once(".ko").map_or(file, |(name, _)| name))
}

fn plain(name: &str) -> String {
    name.replace('-', "_")
}

fn unpacked_name(path: &str) -> &str {
    [".xz", ".zst", ".gz"].iter().find_map(|packer| path.strip_suffix(packer)).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_loaded_with_all_its_dependencies() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        write(
            "modules.dep",
            b"kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko\nkernel/net/9p/9pnet.ko: kernel/fs/netfs.ko\nkernel/fs/netfs.ko:\n\
              kernel/drivers/nvme/host/nvme-core.ko:\nkernel/other.ko:\n",
        );
        write("modules.builtin", b"kernel/drivers/virtio/virtio_pci.ko\n");
        for (name, bytes) in [
            ("fs/9p/9p.ko", "9p"),
            ("net/9p/9pnet.ko", "net"),
            ("fs/netfs.ko", "netfs"),
            ("drivers/nvme/host/nvme-core.ko", "nvme"),
        ] {
            write(&format!("kernel/{name}"), bytes.as_bytes());
        }
        let c = closure(folder.path(), &["virtio_pci", "9p", "nvme_core"]).unwrap();
        let names: Vec<&str> = c.modules.iter().map(|m| m.path.as_str()).collect();
        assert_eq!(
            names,
            [
                "kernel/drivers/nvme/host/nvme-core.ko",
                "kernel/fs/9p/9p.ko",
                "kernel/fs/netfs.ko",
                "kernel/net/9p/9pnet.ko"
            ]
        );
        assert_eq!(
            (c.modules[1].bytes.as_slice(), c.to_load),
            (b"9p".as_slice(), vec!["9p".to_owned(), "nvme_core".into()])
        );
        assert!(c.dependencies.contains("kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko\n"), "{}", c.dependencies);
        let e = closure(folder.path(), &["overlay"]).unwrap_err();
        assert!(e.to_string().contains("has no overlay"), "{e}");
    }

    #[test]
    fn compressed_modules_are_decompressed_and_renamed() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(b"\x7fELF").unwrap();
        std::fs::write(folder.path().join("a.ko.gz"), packer.finish().unwrap()).unwrap();
        std::fs::write(folder.path().join("modules.dep"), "a.ko.gz:\n").unwrap();
        std::fs::write(folder.path().join("modules.builtin"), "").unwrap();
        let c = closure(folder.path(), &["a"]).unwrap();
        assert_eq!(c.modules, [Module { path: "a.ko".into(), bytes: b"\x7fELF".to_vec() }]);
        assert_eq!(c.dependencies, "a.ko: \n");
    }
}
