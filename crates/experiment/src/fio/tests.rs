//! Typical job files and how they are mapped.

use super::*;
use iotrail_stats::random::SplitMix64;

const ONE_NVME: &str = "\
; random reads of a drive, as most people begin
[global]
ioengine=io_uring
direct=1
bs=4k
group_reporting
time_based
runtime=30s   # half a minute
ramp_time=2

[randread]
description=a drive; and what is behind the semicolon is a comment
filename=/dev/nvme0n1
rw=randread
iodepth=32
iodepth_batch_submit=8
numjobs=4
cpus_allowed=0-3
cpus_allowed_policy=split
registerfiles=1
fixedbufs=1
";

const DATABASE: &str = "\
[global]
directory=/data/fio/
size=4g
ioengine=libaio
[wal]
filename=wal.log
readwrite=write
blocksize=16k
buffered=0
number_ios=1k
thinktime=20
thinktime_spin=20
rate_iops=500
verify=crc32c
fsync=1
rwmixread=70
unknown_option=3
";

const POLLED: &str = "\
[job]
ioengine=io_uring
filename=/dev/nvme0n1
rw=randread
direct=1
sqthread_poll=1
sqthread_poll_cpu=3
hipri
iodepth=16
force_async=4
runtime=10
time_based=1
";

fn table(text: &str) -> toml::Table {
    toml::from_str(text).unwrap()
}

fn refused(text: &str) -> String {
    let e = import(text, "x.fio").unwrap_err();
    assert_eq!(e.exit_status(), 2);
    let line = e.to_string();
    let remedy = "; docs/formats.md lists the supported fio options; `iotrail trace -- fio JOB` traces fio itself";
    line.strip_suffix(remedy).unwrap_or_else(|| panic!("{line}")).to_owned()
}

#[test]
fn a_random_read_job_is_mapped_completely() {
    let got = import(ONE_NVME, "x.fio").unwrap();
    assert_eq!(
        got.options,
        table(
            "engine = 'io_uring'\nrw = 'randread'\njobs = 4\nbs = 4096\ndepth = 32\nbatch = 8\n\
             ring = 'coop_taskrun,single_issuer,defer_taskrun,cqsize=32'\nregister = 'ring,files,buffers'\n\
             file = '/dev/nvme0n1'\ndirect = true\nwarmup = '2s'\nruntime = '30s'\ncpus = '0-3'"
        )
    );
    assert_eq!(got.unmapped, []);
    assert!(
        got.notes.iter().any(|n| n.starts_with("fio always requests COOP_TASKRUN, SINGLE_ISSUER and DEFER_TASKRUN"))
    );
}

#[test]
fn unmapped_options_are_reported_with_their_line() {
    let got = import(DATABASE, "x.fio").unwrap();
    assert_eq!(
        got.options,
        table(
            "engine = 'libaio'\nrw = 'write'\njobs = 1\nbs = 16384\ndepth = 1\nbatch = 1\nfile = '/data/fio/wal.log'\n\
             size = 4294967296\ndirect = true\nwarmup = '0s'\ncount = 1024\nrate = 500.0\nthink = 20000\nverify = true"
        )
    );
    let unmapped: Vec<(usize, &str)> = got.unmapped.iter().map(|(n, t)| (*n, t.as_str())).collect();
    assert_eq!(
        unmapped,
        [
            (15, "fsync=1: a load has no fsync"),
            (16, "rwmixread=70: randrw is half reads, half writes"),
            (17, "unknown_option=3"),
        ]
    );
}

#[test]
fn a_polled_job_is_mapped_to_the_flags_that_the_kernel_allows() {
    let got = import(POLLED, "x.fio").unwrap();
    assert_eq!(got.options["ring"].as_str(), Some("iopoll,sqpoll,cqsize=16"));
    assert_eq!(got.options["register"].as_str(), Some("ring,files"));
    assert_eq!((got.options["sq-cpu"].as_integer(), got.options["wait"].as_str()), (Some(3), Some("peek")));
    assert_eq!(
        got.unmapped,
        [(10, "force_async=4: either all requests go to io-wq or none, not every Nth".to_owned())]
    );
}

#[test]
fn fio_defaults_become_part_of_the_load() {
    let got = import("[a]\nfilename=f\nsize=1m\n", "x.fio").unwrap();
    assert_eq!(
        got.options,
        table(
            "engine = 'sync'\nrw = 'read'\njobs = 1\nbs = 4096\ndepth = 1\nfile = 'f'\nsize = 1048576\nbuffered = true\n\
             warmup = '0s'\ncount = 256"
        )
    );
    let notes = got.notes.join("\n");
    assert!(notes.contains("without ioengine, fio uses psync") && notes.contains("(invalidate=1)"), "{notes}");
}

#[test]
fn later_values_and_later_globals_take_precedence() {
    let of = |text: &str| import(text, "x.fio").unwrap();
    let got = of("[a]\nrw=randwrite\nbs=4k,8k\ndirect=1\nbuffered=1\n[global]\nbs=64k\n");
    assert_eq!(got.options["bs"].as_integer(), Some(8192));
    assert_eq!(got.options["buffered"].as_bool(), Some(true));
    let got = of("[global]\nbs=64k\n[a]\nrw=randrw\nbs=4k,8k\n");
    assert_eq!(got.options["bs"].as_integer(), Some(4096));
    assert_eq!(got.unmapped, [(5, "bs=4k,8k: reads and writes have the same block size; 4k is used".to_owned())]);
    assert_eq!(of("[a]\nbs=4kib\nkb_base=1000\n").options["bs"].as_integer(), Some(4096));
    assert_eq!(of("[a]\nfilename=/dev/disk/by-id/x\\:1\n").options["file"].as_str(), Some("/dev/disk/by-id/x:1"));
    let got = of("[a]\nfilename=/dev/sda:/dev/sdb\nthinktime=5ms\niodepth=8\nsize=50%\n");
    let lines: Vec<usize> = got.unmapped.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 3, 4, 5]);
    assert!(got.unmapped[1].1.contains("fio sleeps"), "{:?}", got.unmapped);
    let step = of("[a]\nrw=write:112k\nruntime=1500ms\n");
    assert_eq!(step.unmapped, [(2, "rw=write:112k: a sequential load accesses consecutive blocks".to_owned())]);
    assert_eq!(step.options["runtime"].as_str(), Some("1500000us"));
    assert!(!got.options.contains_key("think") && !got.options.contains_key("file"));
}

#[test]
fn unsupported_jobs_are_rejected_with_their_line() {
    assert_eq!(refused(""), "x.fio: it has no job section");
    assert_eq!(refused("bs=4k\n"), "x.fio:1: 'bs=4k' precedes the first [section]");
    assert_eq!(refused("[a\n"), "x.fio:1: a section's name ends with ']'");
    assert_eq!(refused("[a]\n\n[b]\n[c]\n"), "x.fio:3: it has 3 jobs (a, b, c): keep one");
    assert_eq!(refused("[global]\ninclude other.fio\n"), "x.fio:2: include is not supported: copy the lines here");
    assert_eq!(
        refused("[a]\nfilename=${DISK}\n"),
        "x.fio:2: 'filename=${DISK}' uses an environment variable: write its value"
    );
    assert_eq!(refused("[a]\nnumjobs=$ncpus\n"), "x.fio:2: 'numjobs=$ncpus' uses a keyword of fio: write its value");
    assert!(
        refused("[a]\nioengine=mmap\n")
            .starts_with("x.fio:2: ioengine=mmap has no counterpart: the supported engines are ")
    );
    assert!(refused("[a]\nrw=trim\n").starts_with("x.fio:2: rw=trim has no counterpart: the supported patterns are "));
    assert_eq!(refused("[a]\nbs=4q\n"), "x.fio:2: bs=4q: not a size above 0");
    assert_eq!(refused("[a]\nioengine=null\niodepth\n"), "x.fio:3: iodepth needs a number");
    let deep = |n: &str| refused(&format!("[a]\nioengine=libaio\niodepth={n}\n"));
    assert_eq!(deep("8388608t"), "x.fio:3: 9223372036854775808 is too large");
    assert!(deep("8388607t").starts_with("x.fio: invalid value: integer `922337"), "{}", deep("8388607t"));
}

/// Any file is either rejected or parsed as a valid load.
#[test]
fn mutated_job_files_are_parsed_or_rejected() {
    let mut random = SplitMix64::new(0x2545_f491_4f6c_dd1d);
    let mut below = |n: usize| random.below(n.max(1) as u64) as usize;
    let pieces = [
        "=",
        "[",
        "]",
        ";",
        "#",
        "\n",
        ":",
        ",",
        "\\",
        "$",
        "${",
        "%",
        "0x",
        "-1",
        "99999999999999999999",
        "k",
        "é",
        "\u{0}",
        "include",
        "[global]\n",
        "[x]\n",
        "18446744073709551615",
        "µs",
    ];
    let (mut read, mut refused) = (0, 0);
    for _ in 0..10_000 {
        let mut text: Vec<char> = [ONE_NVME, DATABASE, POLLED][below(3)].chars().collect();
        for _ in 0..=below(4) {
            let at = below(text.len() + 1);
            match below(4) {
                0 if at < text.len() => drop(text.remove(at)),
                1 => {
                    let end = (at + below(12)).min(text.len());
                    text.drain(at..end);
                }
                2 => {
                    let lines: Vec<char> = text[at..(at + below(40)).min(text.len())].to_vec();
                    let to = below(text.len() + 1);
                    text.splice(to..to, lines);
                }
                _ => drop(text.splice(at..at, pieces[below(pieces.len())].chars())),
            }
        }
        match import(&text.into_iter().collect::<String>(), "x.fio") {
            Ok(got) => {
                assert!(got.options.contains_key("engine") && got.options.contains_key("rw"));
                read += 1;
            }
            Err(e) => {
                assert_eq!(e.exit_status(), 2);
                refused += 1;
            }
        }
    }
    assert!(read > 2000 && refused > 2000, "{read} read, {refused} refused");
}
