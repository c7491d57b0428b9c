//! Invalid loads: one line each with problem and remedy, the exit status, and no files left behind.

use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;

use crate::tool::{Ended, Place, bench, file, run};
use crate::{End, Test, confine};

pub const TESTS: &[Test] = &[
    ("bad_load::each_invalid_load_is_rejected_with_one_line_and_leaves_no_files", refused),
    ("bad_load::each_invalid_command_line_is_rejected_with_one_line", words),
    ("bad_load::polling_a_disk_without_poll_queues_is_one_error_line", iopoll),
    ("bad_load::a_mounted_device_is_never_written", mounted_device),
];

/// Options of `bench` on the 4 KiB file `f`, and the error line; `*` matches machine-dependent text.
const REFUSED: &[(&str, &str)] = &[
    // The target.
    ("--file missing", "missing does not exist; specify --size to create it"),
    (
        "--file no/where --size 1m",
        "cannot create no/where: No such file or directory (os error 2); check that its directory exists",
    ),
    ("--file f/x", "cannot access f/x: Not a directory (os error 20); check that its directory exists"),
    ("--file .", ". is a directory; specify a file in it, with --size to create it"),
    ("--file pipe", "pipe is neither a file nor a block device; specify one with --file"),
    ("--file /dev/null", "/dev/null is neither a file nor a block device; specify one with --file"),
    ("--file dangling --size 1m", "dangling is a dangling symlink; specify the file itself, or remove the symlink"),
    ("--file loop", "cannot access loop: Too many levels of symbolic links (os error 40); *"),
    ("--file new --size 1000", "--size 1000 is less than one block of 4096; use a larger --size or a smaller --bs"),
    (
        "--file f --size 8k",
        "f has 4096 bytes, but --size is 8192; use a smaller --size, or remove the file so that it is created with this size",
    ),
    (
        "--file f --bs 8k",
        "f has 4096 usable bytes, less than one block of 8192; use a smaller --bs, or a larger file or --size",
    ),
    (
        "--file f --rw read --jobs 2",
        "f has 1 blocks, but this load needs 2: each job uses its own share; use a larger file, a smaller --bs, or fewer --jobs or a smaller --depth",
    ),
    ("--file f --rw append", "--rw append needs a --size; add --size, which limits the appended data"),
    (
        "--file f --rw randwrite",
        "--rw randwrite would overwrite f, which exists; add --allow-write to overwrite its contents, or specify a file that does not exist, with --size",
    ),
    ("--file f --rw write", "--rw write would overwrite f, which exists; add --allow-write to *"),
    ("--file f --rw randrw", "--rw randrw would overwrite f, which exists; add --allow-write to *"),
    (
        "",
        "--engine io_uring with --rw randread needs a target; specify one with --file; with --size, a missing file is created",
    ),
    // Sizes and counts.
    (
        "--file f --bs 1000",
        "--bs 1000 is not a multiple of the *-byte logical blocks of f, as direct I/O needs; use --bs *, or --buffered",
    ),
    ("--file f --bs 0", "--bs 0 is out of range; use 1 byte to 1 GiB"),
    ("--file f --bs 2g", "--bs 2147483648 is out of range; use 1 byte to 1 GiB"),
    ("--file f --depth 0", "--depth 0 is out of range; use 1 to 32768"),
    ("--file f --depth 32769", "--depth 32769 is out of range; use 1 to 32768"),
    (
        "--file f --batch 0",
        "--batch 0 with --depth 16: a submission cannot contain more I/Os than are in flight; use a --batch from 1 to 16",
    ),
    (
        "--file f --depth 4 --batch 5",
        "--batch 5 with --depth 4: a submission cannot contain more I/Os than are in flight; use a --batch from 1 to 4",
    ),
    ("--file f --jobs 0", "--jobs 0 is out of range; use 1 to 4096"),
    ("--file f --jobs 4097", "--jobs 4097 is out of range; use 1 to 4096"),
    ("--file f --rate 0", "invalid --rate 0; use I/Os per second, above 0 and at most one billion"),
    ("--file f --rate nan", "invalid --rate NaN; use I/Os per second, above 0 and at most one billion"),
    ("--file f --rate inf", "invalid --rate inf; use I/Os per second, above 0 and at most one billion"),
    ("--file f --count 0", "--count 0 measures nothing; use 1 or more"),
    ("--file f --runtime 0", "--runtime 0 measures nothing; use a longer time"),
    ("--file f --think 1000000001", "--think 1000000001 is out of range; use at most 1000000000 (one second)"),
    (
        "--rw nop --bs 1g --depth 32768 --jobs 4096",
        "the I/O buffers need 137438953472 MiB of memory, but only * MiB is available; use a smaller --depth, --bs or --jobs",
    ),
    // Ring flags.
    (
        "--file f --ring sqpol",
        "unknown ring flag 'sqpol'; choose among coop_taskrun, taskrun_flag, defer_taskrun, single_issuer, sqpoll, iopoll, hybrid_iopoll, submit_all, no_sqarray, cqsize=N",
    ),
    ("--file f --ring coop_taskrun,coop_taskrun", "ring flag coop_taskrun is specified twice; specify it once"),
    ("--file f --ring coop_taskrun=1", "ring flag coop_taskrun takes no value; omit it"),
    (
        "--file f --ring defer_taskrun",
        "the kernel rejects ring flag defer_taskrun without single_issuer; add single_issuer",
    ),
    (
        "--file f --ring sqpoll,coop_taskrun",
        "the kernel rejects ring flag sqpoll with coop_taskrun: the SQPOLL thread runs the task work; omit coop_taskrun",
    ),
    (
        "--file f --ring sqpoll,single_issuer,defer_taskrun",
        "the kernel rejects ring flag sqpoll with defer_taskrun: the SQPOLL thread runs the task work; omit defer_taskrun",
    ),
    (
        "--file f --ring sqpoll,taskrun_flag",
        "the kernel rejects ring flag sqpoll with taskrun_flag: the SQPOLL thread runs the task work; omit taskrun_flag",
    ),
    (
        "--file f --ring taskrun_flag",
        "the kernel rejects ring flag taskrun_flag without coop_taskrun or defer_taskrun; add coop_taskrun",
    ),
    ("--file f --ring hybrid_iopoll", "the kernel rejects ring flag hybrid_iopoll without iopoll; add iopoll"),
    ("--file f --ring iopoll --buffered", "the kernel rejects ring flag iopoll for buffered I/O; omit --buffered"),
    (
        "--file f --min-wait 1us",
        "--min-wait has no effect with --batch 1: each wait is for one completion; use a larger --batch",
    ),
    ("--file f --batch 4 --min-wait 2s", "--min-wait 2000000 µs is out of range; use 1us to 1s"),
    (
        "--file f --batch 4 --min-wait 1us --wait peek",
        "--min-wait has no effect with --wait peek: no wait in the kernel may end with fewer completions; omit one of them",
    ),
    (
        "--file f --no-iowait --wait peek",
        "--no-iowait has no effect with --wait peek: no wait sleeps in the kernel; omit one of them",
    ),
    (
        "--file f --register wait --ring iopoll",
        "--register wait has no effect with ring flag iopoll: no wait sleeps in the kernel; omit one of them",
    ),
    ("--file f --ring cqsize", "ring flag cqsize needs a value; use cqsize=N, for example cqsize=4096"),
    ("--file f --ring cqsize=", "cqsize= is not a number of entries; use cqsize=N, for example cqsize=4096"),
    ("--file f --ring cqsize=x", "cqsize=x is not a number of entries; use cqsize=N, for example cqsize=4096"),
    ("--file f --ring cqsize=0", "cqsize=0 is not a number of entries; use cqsize=N, for example cqsize=4096"),
    (
        "--file f --ring cqsize=8",
        "the kernel rejects cqsize=8: the completion queue must not be smaller than the submission queue (16 entries); use cqsize=16 or more, or a smaller --depth",
    ),
    ("--file f --ring cqsize=65537", "the kernel rejects cqsize=65537: the maximum is 65536; use cqsize=65536 or less"),
    ("--file f --sq-cpu 0", "--sq-cpu needs an SQPOLL thread; add sqpoll to --ring"),
    ("--file f --sq-idle 5", "--sq-idle needs an SQPOLL thread; add sqpoll to --ring"),
    // Ring options with other engines.
    (
        "--file f --engine libaio --ring coop_taskrun",
        "--ring needs io_uring; --engine libaio has no ring; omit it, or use --engine io_uring",
    ),
    (
        "--file f --engine sync --register files",
        "--register needs io_uring; --engine sync has no ring; omit it, or use --engine io_uring",
    ),
    (
        "--file f --engine posix_aio --force-async",
        "--force-async needs io_uring; --engine posix_aio has no ring; omit it, or use --engine io_uring",
    ),
    (
        "--file f --engine libaio --rw nop",
        "--rw nop is an io_uring no-op, which --engine libaio does not have; use --engine io_uring, or --engine null",
    ),
    // Targets without files: nothing is created, and only NVMe drives are accepted.
    (
        "--file f --engine io_uring_cmd",
        "--engine io_uring_cmd requires an NVMe generic device, but f is not one; specify one with --file: `ls /dev/ng*` lists them",
    ),
    (
        "--file new --size 1m --engine io_uring_cmd",
        "new does not exist; specify an NVMe generic device: `ls /dev/ng*` lists them",
    ),
    (
        "--engine io_uring_cmd",
        "--engine io_uring_cmd with --rw randread needs a target; specify an NVMe generic device: --file /dev/ng0n1",
    ),
    ("--file f --engine io_uring_cmd --buffered", "--buffered: --engine io_uring_cmd bypasses the page cache; omit it"),
    (
        "--file f --engine io_uring_cmd --rw nop",
        "--rw nop is an io_uring no-op, which --engine io_uring_cmd does not have; use --engine io_uring, or --engine null",
    ),
    (
        "--file f --engine nvme_user",
        "--engine nvme_user requires a drive's PCI address, but f is not one; use --file 0000:00:04.0, with /N for namespace N; `lspci -D -d ::0108` lists the drives",
    ),
    (
        "--file ffff:ff:1f.7 --engine nvme_user",
        "PCI function ffff:ff:1f.7 does not exist; specify a drive by its address: `lspci -D -d ::0108` lists them",
    ),
    (
        "--file f --engine nvme_user --ring coop_taskrun",
        "--ring needs io_uring; --engine nvme_user has no ring; omit it, or use --engine io_uring",
    ),
    ("--file f --register file", "cannot register 'file'; use files, buffers, ring or wait"),
    ("--rw nop --register files", "--register files: no-ops use no file; omit files"),
    (
        "--rw nop --register buffers --depth 16385",
        "--register buffers: the kernel allows at most 16384, one per I/O in flight, not 16385; use a smaller --depth",
    ),
    // Threads and CPUs.
    ("--file f --cpus 9999", "--cpus: CPU 9999 does not exist; the online CPUs are 0*"),
    ("--file f --cpus 1-0", "'1-0' is not a CPU list; use the form 0,2-3, or irq or non-irq"),
    ("--file f --cpus all", "'all' is not a CPU list; use the form 0,2-3, or irq or non-irq"),
    ("--file f --ring sqpoll --sq-cpu 9999", "--sq-cpu: CPU 9999 does not exist; the online CPUs are 0*"),
    ("--file f --reaper thread:9999", "--reaper thread: CPU 9999 does not exist; the online CPUs are 0*"),
    (
        "--file f --reaper other",
        "unknown --reaper 'other'; use same, thread or thread:CPU, where CPU is a number, irq or non-irq",
    ),
    (
        "--file f --reaper thread --ring single_issuer,defer_taskrun",
        "the kernel rejects ring flag defer_taskrun with --reaper thread: only the submitting thread may wait; omit defer_taskrun, or use --reaper same",
    ),
    (
        "--file f --reaper thread --ring single_issuer --register ring",
        "the kernel rejects ring flag single_issuer with --reaper thread and --register ring: only the submitting thread may register; remove ring from --register, or use --reaper same",
    ),
    ("--file f --reaper thread --engine sync", "--reaper thread: --engine sync completes I/Os at submission; omit it"),
    ("--file f --neighbour busy", "unknown --neighbour 'busy'; use none, or busy:N with N from 1 to 64"),
    ("--file f --neighbour busy:0", "unknown --neighbour 'busy:0'; use none, or busy:N with N from 1 to 64"),
    ("--file f --neighbour busy:65", "unknown --neighbour 'busy:65'; use none, or busy:N with N from 1 to 64"),
    (
        "--file f --verify --bs 1000 --buffered",
        "--verify needs a block size that is a multiple of 512 bytes; use another --bs",
    ),
    ("--rw nop --verify", "--verify has nothing to check without a target; omit it"),
    // Rejected by the parser.
    (
        "--file f --engine aio",
        "invalid value 'aio' for '--engine <ENGINE>' [possible values: io_uring, libaio, posix_aio, sync, null, io_uring_cmd, nvme_user]; see `iotrail bench --help`",
    ),
    (
        "--file f --rw rnd",
        "invalid value 'rnd' for '--rw <RW>' [possible values: randread, read, randwrite, write, append, randrw, nop]; a similar value exists: 'randrw'",
    ),
    (
        "--file f --depth x",
        "invalid value 'x' for '--depth <N>': invalid digit found in string; see `iotrail bench --help`",
    ),
    (
        "--file f --bs 4q",
        "invalid value '4q' for '--bs <SIZE>': 'q' is not a unit of size: use k, m, g or t; see `iotrail bench --help`",
    ),
    (
        "--file f --bs 99999999t",
        "invalid value '99999999t' for '--bs <SIZE>': '99999999t' exceeds 64 bits; see `iotrail bench --help`",
    ),
    (
        "--file f --runtime 5",
        "invalid value '5' for '--runtime <TIME>': '5' has no unit of time: write 5s or 5ms; see `iotrail bench --help`",
    ),
    (
        "--file f --runtime 1s --count 5",
        "the argument '--runtime <TIME>' cannot be used with '--count <N>'; see `iotrail bench --help`",
    ),
    (
        "--file f --direct --buffered",
        "the argument '--direct' cannot be used with '--buffered'; see `iotrail bench --help`",
    ),
    ("--file f --dept 4", "unexpected argument '--dept' found; a similar argument exists: '--depth'"),
    (
        "--file f --depth 4 --depth 5",
        "the argument '--depth <N>' cannot be used multiple times; see `iotrail bench --help`",
    ),
];

/// Whether `line` matches `pattern`, with `*` for any text.
fn matches(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut last = "";
    let open = pattern.contains('*');
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        (rest, last) = (&rest[at + part.len()..], part);
    }
    rest.is_empty() || (open && last.is_empty())
}

/// Asserts one line that matches, and the exit status.
#[track_caller]
pub fn assert_refused(ended: &Ended, status: i32, pattern: &str) {
    assert_eq!(ended.status, status, "{}", ended.stderr);
    let line = ended.one_line();
    assert!(matches(line, pattern), "\n  said: {line}\n  not:  {pattern}");
}

fn refused() -> End {
    assert!(
        matches("a 12 b", "a * b") && matches("a 12", "a *") && !matches("a 12 bc", "a * b") && !matches("ab", "a")
    );
    let place = Place::new();
    place.write("f", [7; 4096]);
    symlink("nowhere", place.join("dangling")).expect("our own folder");
    symlink("loop", place.join("loop")).expect("our own folder");
    let pipe = std::ffi::CString::new(place.join("pipe").into_os_string().into_encoded_bytes()).expect("no NUL");
    // SAFETY: a live string.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let before = place.contents();
    for (options, line) in REFUSED {
        let memory = line.starts_with("the I/O buffers");
        let mut command = bench(&place, options);
        command.args(["--neighbour", "busy:1"].iter().filter(|_| !options.contains("--neighbour")));
        command.args(["--store", "s.db"]);
        assert_refused(&run(&mut command), if memory { 3 } else { 2 }, line);
        assert_eq!(place.contents(), before, "bench {options} leaves something behind");
    }
    End::Passed
}

fn words() -> End {
    let place = Place::new();
    for (args, line) in [
        ("foo", "unrecognized subcommand 'foo'; see `iotrail --help`"),
        ("benhc", "unrecognized subcommand 'benhc'; a similar subcommand exists: 'bench'"),
        ("--foo", "unexpected argument '--foo' found; see `iotrail --help`"),
        ("run", "the following required arguments were not provided: <EXPERIMENT>; see `iotrail run --help`"),
        (
            "run coop --size much",
            "invalid value 'much' for '--size <SIZE>': 'much' is not a size: write 4096, 4k or 1m; see `iotrail run --help`",
        ),
        ("run coop --resume --plan", "the argument '--resume' cannot be used with '--plan'; see `iotrail run --help`"),
        (
            "check --file missing",
            "cannot access missing: No such file or directory (os error 2); specify an existing file, directory or device",
        ),
        ("list extra", "unexpected argument 'extra' found; see `iotrail list --help`"),
    ] {
        assert_refused(&run(&mut place.tool(args.split(' '))), 2, line);
    }
    // Quoted text cannot control the terminal, and stays on the line.
    let ended = run(&mut place.tool(["bench", "--file", "a\nb\u{1b}[31mc"]));
    assert_refused(&ended, 2, "a*b\\u{1b}[31mc does not exist; specify --size to create it");
    assert_eq!(place.contents().len(), 0);
    End::Passed
}

fn iopoll() -> End {
    let place = Place::new();
    let check = run(place.tool(["check", "--json", "--file"]).arg(file())).ok().json();
    let queues = check["host"]["target"]["poll_queues"].as_u64();
    for flags in ["iopoll", "iopoll,hybrid_iopoll", "iopoll,sqpoll"] {
        for more in ["", "--wait peek", "--jobs 2 --depth 1"] {
            let ended = run(bench(&place, &format!("--ring {flags} --count 100 {more} --file")).arg(file()));
            if queues.is_some_and(|n| n > 0) {
                ended.ok();
                continue;
            }
            let line = format!(
                "every randread on {} failed: Operation not supported (os error 95); iopoll needs a device with poll queues \
                 (nvme.poll_queues=N, virtio_blk.poll_queues=N) and a file system that polls: omit iopoll",
                file().display()
            );
            assert_refused(&ended, 3, &line);
        }
    }
    End::Passed
}

/// A mounted block device, as named in /proc/mounts, that the kernel itself would not release.
fn mounted_at() -> Result<(String, String), String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|e| e.to_string())?;
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let Some(source) = fields.iter().position(|f| *f == "-").and_then(|dash| fields.get(dash + 2)) else {
            continue;
        };
        let Ok(meta) = std::fs::metadata(source) else { continue };
        let number = format!("{}:{}", libc::major(meta.rdev()), libc::minor(meta.rdev()));
        if meta.file_type().is_block_device() && number == fields[2] {
            return Ok(((*source).to_owned(), fields[4].to_owned()));
        }
    }
    Err("no file system of a block device is mounted here".into())
}

fn mounted_device() -> End {
    let (device, at) = match mounted_at() {
        Ok(found) => found,
        Err(reason) => return End::Skipped(reason),
    };
    if let Some(reason) = confine::cannot_filter() {
        return End::Skipped(reason);
    }
    // If permitted, the kernel must report that the device is in use; it is opened only for reading.
    let claimed = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(Path::new(&device));
    assert!(claimed.is_err(), "{device} is mounted at {at}, and the kernel gives it away?");
    let place = Place::new();
    for rw in ["write", "randwrite", "randrw"] {
        for engine in ["io_uring", "sync", "libaio", "posix_aio"] {
            // The filter prevents any write; the test is whether the tool refuses by itself.
            let options = format!("--engine {engine} --rw {rw} --count 1 --depth 1 --file {device}");
            let ended = run(confine::read_only(&mut bench(&place, &options)));
            assert_refused(
                &ended,
                2,
                &format!("--rw {rw} would overwrite {device}, which exists; add --allow-write to *"),
            );
            let ended = run(confine::read_only(&mut bench(&place, &format!("{options} --allow-write"))));
            let line = format!(
                "{device} is in use (mounted at *); a write load would overwrite it; unmount or release it first, or choose another device or a file"
            );
            assert_refused(&ended, 2, &line);
        }
    }
    End::Passed
}
