//! POSIX AIO: the libraries that have it, and the probes on its functions there.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, ProgramMut, UprobeOpts};

pub(super) const PROGRAM: &str = "posix_aio_called";

/// The names under which glibc has them, in the order of `enum posix_function`. Of lio_listio's versions the one before 2.4 is
/// another function.
const FUNCTIONS: [&str; 5] = ["aio_read", "aio_write", "aio_fsync", "lio_listio@GLIBC_2.4", "aio_return"];

/// Device and inode.
pub(super) type File = (u64, u64);

/// glibc as a process has it mapped, each with the files that may have POSIX AIO: itself since 2.34, librt before.
pub(super) fn libraries(tgid: u32) -> BTreeMap<File, Vec<PathBuf>> {
    // A process that has ended, or that is not ours to look at, has none that we could find.
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

/// The paths of glibc in the text of /proc/TGID/maps.
fn mapped(maps: &str) -> Vec<&str> {
    let path = |line| -> Option<&str> { Some(&line[str::find(line, '/')?..]) };
    let mut paths: Vec<&str> = maps.lines().filter_map(path).filter(|p| p.ends_with("/libc.so.6")).collect();
    paths.dedup();
    paths
}

/// Probes on the functions in the first of the files that has them, for every process that uses it.
pub(super) fn attach(program: &ProgramMut<'_>, files: &[PathBuf]) -> libbpf_rs::Result<Vec<Link>> {
    let all = |file: &PathBuf| -> libbpf_rs::Result<Vec<Link>> {
        let one = |(cookie, name): (u64, &&str)| {
            let opts = UprobeOpts { cookie, func_name: Some((*name).into()), ..UprobeOpts::default() };
            program.attach_uprobe_with_opts(-1, file, 0, opts)
        };
        (0..).zip(&FUNCTIONS).map(one).collect()
    };
    let mut last = Ok(vec![]);
    for file in files {
        last = all(file);
        if last.is_ok() {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_is_known_by_its_name() {
        let maps = "55d0-55d1 r--p 00000000 fe:00 12 /usr/bin/fio\n\
            7f00-7f01 r--p 00000000 fe:00 34 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
            7f01-7f02 r-xp 00028000 fe:00 34 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
            7f02-7f03 rw-p 00000000 00:00 0\n\
            7f03-7f04 r--p 00000000 fe:00 35 /lib/libcap.so.2\n\
            7ffd-7ffe r-xp 00000000 00:00 0 [vdso]\n";
        assert_eq!(mapped(maps), ["/usr/lib/x86_64-linux-gnu/libc.so.6"]);
        assert_eq!(mapped("7f00-7f01 r--p 00000000 fe:00 34 /lib/ld-musl-x86_64.so.1\n"), Vec::<&str>::new());
    }
}
