//! Library functions that make system calls for their callers: the call site is the caller.

/// Prefixes of library file names, without the version.
const FILES: [&str; 8] = ["libc.", "libc-", "liburing", "libaio", "libpthread", "librt.", "ld-linux", "ld-musl"];

/// Functions of statically linked or inlined libraries: exact names, or prefixes if they end in `_`, `:`, `.` or `/`.
const FUNCTIONS: [&str; 27] = [
    // C
    "io_uring_",
    "__io_uring_",
    "_io_uring_",
    "syscall",
    "__sys_io_uring_",
    "____sys_io_uring_",
    "__libc_",
    "__GI_",
    // Rust
    "std::",
    "core::",
    "alloc::",
    "io_uring::",
    "rustix::",
    "libc::",
    "nix::",
    "mio::",
    "linux_raw_sys::",
    // Go
    "runtime.",
    "syscall.",
    "internal/",
    "os.",
    "golang.org/x/sys/",
    "sync.",
    "io.",
    "bufio.",
    "time.",
    "net.",
];

/// Maximum number of frames; a stack with that many may be truncated.
pub(super) const WHOLE_FRAMES: usize = 32;

/// Functions with which a thread starts.
const FIRST: [&str; 14] = [
    "_start",
    "main",
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    // Go: goroutines, OS threads, and code on a thread's own stack.
    "runtime.goexit",
    "runtime.mstart",
    "runtime.rt0_go",
    "runtime.mcall",
    "runtime.systemstack",
    "runtime.morestack",
    "runtime.clone",
];

pub(super) fn is(module: Option<&str>, function: Option<&str>) -> bool {
    let file = module.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    FILES.iter().any(|name| file.starts_with(name))
        || function.is_some_and(|of| {
            // `<std::fs::File as Trait>::function` belongs to the type in brackets, `<u64 as
            // core::cmp::Trait>::function` to the trait.
            let Some(of) = of.strip_prefix('<') else { return is_named(of) };
            let (kind, of_trait) = of.split_once(" as ").unwrap_or((of, ""));
            let kind = kind.trim_start_matches("&mut ").trim_start_matches(['&', '[', '(']);
            is_named(kind) || !kind.contains("::") && is_named(of_trait)
        })
}

fn is_named(of: &str) -> bool {
    FUNCTIONS.iter().any(|name| if name.ends_with(['_', ':', '.', '/']) { of.starts_with(name) } else { of == *name })
}

/// Whether the function starts a thread, and so has no caller.
pub(super) fn begins_thread(module: Option<&str>, function: Option<&str>) -> bool {
    let file = module.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    FILES.iter().any(|name| file.starts_with(name))
        || function.is_some_and(|of| {
            let of = of.strip_suffix(".abi0").unwrap_or(of);
            FIRST.contains(&of)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_functions_are_distinguished_from_callers() {
        for (module, function) in [
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", "fsync"),
            ("/usr/lib/liburing.so.2.3", "io_uring_submit"),
            ("/srv/program", "io_uring_submit_and_wait"),
            ("/srv/program", "<io_uring::submit::Submitter>::submit_and_wait"),
            ("/srv/program", "std::fs::File::sync_all"),
            ("/srv/program", "syscall.Fsync"),
            ("/srv/program", "internal/runtime/syscall/linux.Syscall6"),
            ("/srv/program", "<&std::fs::File as std::io::Write>::write"),
            ("/srv/program", "<u64 as core::cmp::PartialOrd>::lt"),
        ] {
            assert!(is(Some(module), Some(function)), "{function}");
        }
        for function in
            ["main", "wal::Log::commit", "<wal::Log as core::ops::Drop>::drop", "syscall_loop", "Storage::io"]
        {
            assert!(!is(Some("/srv/program"), Some(function)), "{function}");
        }
        assert!(!is(None, None));
    }
}
