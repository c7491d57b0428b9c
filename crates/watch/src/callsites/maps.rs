//! Finds the file mapped at an address of a process, from /proc.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::rc::Rc;

/// A file with executable code.
#[derive(Debug)]
pub(super) struct Module {
    /// Its path as the process sees it.
    pub path: String,
    identity: (u64, u64),
    /// Path by which iotrail can read the file.
    pub at: PathBuf,
    /// Descriptor that keeps the file accessible if no path leads to it: it was deleted, or is in another mount
    /// namespace.
    _open: Option<File>,
}

/// Location of an address.
#[derive(Debug, Clone)]
pub(super) enum Place {
    File {
        module: Rc<Module>,
        offset: u64,
    },
    /// Anonymous memory, such as generated code.
    Generated(u64),
    Unmapped,
}

#[derive(Debug)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    module: Option<Rc<Module>>,
}

/// Executable mappings of one process.
#[derive(Debug)]
pub(super) struct Mappings(Vec<Mapping>);

/// Maximum number of files kept open.
const OPEN: usize = 16;

impl Mappings {
    /// `None` if the process has no memory map, or /proc hides it.
    pub fn read(pid: u32, modules: &mut Vec<Rc<Module>>) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let mappings: Vec<Mapping> = text.lines().filter_map(|line| mapping(pid, line, modules)).collect();
        (!mappings.is_empty()).then_some(Mappings(mappings))
    }

    pub fn place(&self, address: u64) -> Place {
        let Some(of) = self.0.iter().find(|of| (of.start..of.end).contains(&address)) else { return Place::Unmapped };
        match &of.module {
            Some(module) => Place::File { module: Rc::clone(module), offset: address - of.start + of.offset },
            None => Place::Generated(address),
        }
    }
}

/// Parses `start-end perms offset device inode path`; `None` if the mapping is not executable.
fn mapping(pid: u32, line: &str, modules: &mut Vec<Rc<Module>>) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (range, permissions) = (words.next()?, words.next()?);
    if permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let offset = hex(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = rustix::fs::makedev(hex(major)? as u32, hex(minor)? as u32);
    let inode: u64 = words.next()?.parse().ok()?;
    let path = words.next().unwrap_or_default().trim_start();
    let module = (inode != 0).then(|| module(pid, range, path, (device, inode), modules));
    Some(Mapping { start: hex(start)?, end: hex(end)?, offset, module })
}

fn module(pid: u32, range: &str, path: &str, identity: (u64, u64), modules: &mut Vec<Rc<Module>>) -> Rc<Module> {
    if let Some(known) = modules.iter().find(|known| known.identity == identity && known.path == path) {
        return Rc::clone(known);
    }
    let is_it = |at: &PathBuf| std::fs::metadata(at).is_ok_and(|of| of.ino() == identity.1);
    let mut at = PathBuf::from(path);
    let mut open = None;
    if !is_it(&at) && modules.iter().filter(|module| module._open.is_some()).count() < OPEN {
        open = File::open(format!("/proc/{pid}/map_files/{range}")).ok();
        at = open.as_ref().map_or(at, |file| format!("/proc/self/fd/{}", file.as_raw_fd()).into());
    }
    let new = Rc::new(Module { path: path.trim_end_matches(" (deleted)").to_owned(), identity, at, _open: open });
    modules.push(Rc::clone(&new));
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_program_is_resolved_to_its_file() {
        let mut modules = vec![];
        let own = Mappings::read(std::process::id(), &mut modules).unwrap();
        let Place::File { module, offset } =
            own.place(an_address_of_this_program_is_resolved_to_its_file as *const () as u64)
        else {
            panic!("{own:?}")
        };
        assert_eq!(PathBuf::from(&module.path), std::env::current_exe().unwrap());
        assert_eq!(module.at, PathBuf::from(&module.path));
        assert!(offset > 0);
        assert!(matches!(own.place(8), Place::Unmapped));
        let before = modules.len();
        Mappings::read(std::process::id(), &mut modules).unwrap();
        assert_eq!(modules.len(), before, "each file is known once");
    }

    #[test]
    fn addresses_of_generated_code_have_no_file() {
        let line = "7f0000000000-7f0000001000 rwxp 00000000 00:00 0 ";
        let own = Mappings(vec![mapping(1, line, &mut vec![]).unwrap()]);
        assert!(matches!(own.place(0x7f00_0000_0010), Place::Generated(0x7f00_0000_0010)));
        assert!(mapping(1, &line.replace("rwxp", "rw-p"), &mut vec![]).is_none());
    }
}
