//! POSIX AIO: finds the libraries that implement it and probes their functions.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, ProgramMut, UprobeMultiOpts, UprobeOpts};

use iotrail_host::pid_namespace::own_number_in_proc;

/// Name of the BPF program that probes all functions in the libc that iotrail itself uses. The program [`EACH`] probes
/// one function.
pub(super) const AT_ONCE: &str = "posix_aio_called";
pub(super) const EACH: &str = "posix_aio_called_each";

/// Whether this is one of these programs, which are attached here; other programs are attached by their section.
pub(super) fn is(program: &ProgramMut<'_>) -> bool {
    program.name() == AT_ONCE || program.name() == EACH
}

/// glibc's symbols, in the order of `enum posix_function`. lio_listio before 2.4 is a different function; on arm64,
/// glibc starts at 2.17.
const FUNCTIONS: [&str; 5] = ["aio_read", "aio_write", "aio_fsync", LIO_LISTIO, "aio_return"];

const LIO_LISTIO: &str = if cfg!(target_arch = "x86_64") { "lio_listio@GLIBC_2.4" } else { "lio_listio" };

/// Device and inode.
pub(super) type File = (u64, u64);

/// glibc as mapped in a process (PID in /proc), and the files that may contain POSIX AIO: glibc itself since 2.34,
/// librt before.
pub(super) fn libraries(tgid: u32) -> BTreeMap<File, Vec<PathBuf>> {
    // An exited or inaccessible process has none.
    let maps = std::fs::read_to_string(format!("/proc/{tgid}/maps")).unwrap_or_default();
    let root = format!("/proc/{tgid}/root");
    let paths = mapped(&maps).into_iter().map(|path| Path::new(&root).join(path.trim_start_matches('/')));
    paths
        .filter_map(|libc| {
            let file = std::fs::metadata(&libc).ok()?;
            Some(((file.dev(), file.ino()), vec![libc.clone(), libc.with_file_name("librt.so.1")]))
        })
        .collect()
}

/// Paths of glibc in /proc/TGID/maps.
fn mapped(maps: &str) -> Vec<&str> {
    let path = |line| -> Option<&str> { Some(&line[str::find(line, '/')?..]) };
    let mut paths: Vec<&str> = maps.lines().filter_map(path).filter(|p| p.ends_with("/libc.so.6")).collect();
    paths.dedup();
    paths
}

/// The file with POSIX AIO in this process and its functions' offsets; `None` if not found.
fn ours() -> Option<(PathBuf, Vec<usize>)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let functions = [
        libc::aio_read as *const (),
        libc::aio_write as *const (),
        libc::aio_fsync as *const (),
        libc::lio_listio as *const (),
        libc::aio_return as *const (),
    ];
    let (files, offsets): (BTreeSet<&str>, Vec<usize>) = functions
        .into_iter()
        .map(|function| place(function as usize, &maps))
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .unzip();
    Some((files.first()?.into(), offsets))
}

/// The file mapped at an address, and the offset within that file.
fn place(address: usize, maps: &str) -> Option<(&str, usize)> {
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (from, to, offset) = (number(from)?, number(to)?, number(words.nth(1)?)?);
        let path = &line[line.find('/')?..];
        (from..to).contains(&address).then(|| (path, address - from + offset))
    })
}

/// Libraries that have probes attached.
#[derive(Default)]
pub(super) struct Libraries {
    known: BTreeSet<File>,
    links: Vec<Link>,
}

impl Libraries {
    /// Attaches to a process's libraries that have no probes yet; the probes apply to every process that uses the
    /// library. `at_once`: for iotrail's own library, one probe for all functions, if the kernel supports this.
    pub(super) fn attach(
        &mut self,
        at_once: Option<&ProgramMut<'_>>,
        each: &ProgramMut<'_>,
        tgid: u32,
    ) -> libbpf_rs::Result<()> {
        for (file, paths) in libraries(tgid) {
            if !self.known.insert(file) {
                continue;
            }
            let own = at_once.filter(|_| Some(tgid) == own_number_in_proc());
            if let Some((program, (path, offsets))) = own.zip(ours()) {
                let cookies = (0..offsets.len() as u64).collect();
                let opts = UprobeMultiOpts { offsets, cookies, ..UprobeMultiOpts::default() };
                self.links.push(program.attach_uprobe_multi_with_opts(-1, &path, "", opts)?);
                continue;
            }
            let (path, others) = paths.split_first().expect("there is the library itself");
            let next = |done: libbpf_rs::Result<_>, path| done.or_else(|_| attach_each(each, path));
            self.links.extend(others.iter().fold(attach_each(each, path), next)?);
        }
        Ok(())
    }
}

fn attach_each(program: &ProgramMut<'_>, path: &PathBuf) -> libbpf_rs::Result<Vec<Link>> {
    let one = |(cookie, name): (u64, &&str)| {
        let opts = UprobeOpts { cookie, func_name: Some((*name).into()), ..UprobeOpts::default() };
        program.attach_uprobe_with_opts(-1, path, 0, opts)
    };
    (0..).zip(&FUNCTIONS).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "55d0-55d1 r--p 00000000 fe:00 12 /usr/bin/fio\n\
            7f00-7f01 r--p 00000000 fe:00 34 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
            7f01-7f02 r-xp 00028000 fe:00 34 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
            7f02-7f03 rw-p 00000000 00:00 0\n\
            7f03-7f04 r--p 00000000 fe:00 35 /lib/libcap.so.2\n\
            7ffd-7ffe r-xp 00000000 00:00 0 [vdso]\n";

    #[test]
    fn glibc_is_found_by_name_among_the_mapped_files() {
        assert_eq!(mapped(MAPS), ["/usr/lib/x86_64-linux-gnu/libc.so.6"]);
        assert_eq!(mapped("7f00-7f01 r--p 00000000 fe:00 34 /lib/ld-musl-x86_64.so.1\n"), Vec::<&str>::new());
    }

    #[test]
    fn an_address_is_resolved_to_a_file_offset() {
        let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        assert_eq!(place(0x7f01, MAPS), Some((libc, 0x28000)));
        assert_eq!(place(0x7f00, MAPS), Some((libc, 0)));
        assert_eq!((place(0x7f02, MAPS), place(0x1000, MAPS)), (None, None));
        assert_eq!(ours().map(|(_, offsets)| offsets.len()), Some(FUNCTIONS.len()));
    }
}
