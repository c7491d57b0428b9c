//! The lab's drives, and loads on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use iotrail_schema::measurement::Measurement;

/// A drive with one namespace.
#[derive(Debug, Clone)]
pub struct Drive {
    /// `lab0`
    pub serial: String,
    /// `nvme0n1`
    pub disk: String,
    /// `0000:01:00.0`
    pub address: String,
}

impl Drive {
    pub fn block(&self) -> String {
        format!("/dev/{}", self.disk)
    }

    pub fn generic(&self) -> String {
        format!("/dev/{}", self.disk.replacen("nvme", "ng", 1))
    }
}

/// Identified by their serial numbers.
pub fn all() -> Vec<Drive> {
    let read = |path: PathBuf| fs::read_to_string(path).map(|t| t.trim().to_owned()).unwrap_or_default();
    let mut drives: Vec<Drive> = fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("nvme"))
        .filter_map(|e| {
            let serial = read(e.path().join("device/serial"));
            let is_ours = serial.starts_with("lab") && read(e.path().join("device/model")).starts_with("QEMU NVMe");
            let address = fs::canonicalize(e.path().join("device/device")).ok()?;
            let address = address.file_name()?.to_str()?.to_owned();
            is_ours.then(|| Drive { serial, disk: e.file_name().to_string_lossy().into_owned(), address })
        })
        .collect();
    drives.sort_by(|a, b| a.serial.cmp(&b.serial));
    drives
}

/// The drive that retains its data.
pub fn sound() -> Drive {
    named("lab0")
}

/// The drive with read and write errors.
pub fn failing() -> Drive {
    named("lab1")
}

fn named(serial: &str) -> Drive {
    all().into_iter().find(|d| d.serial == serial).unwrap_or_else(|| panic!("there is no drive {serial}"))
}

pub fn bench(options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrail"));
    command.args(["bench", "--json", "--warmup", "0"]).args(options.split_whitespace());
    command
}

pub fn read(out: &Output) -> Measurement {
    assert!(out.status.success(), "{}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("--json prints one measurement")
}

#[track_caller]
pub fn run(options: &str) -> Measurement {
    let out = bench(options).output().expect("the built binary starts");
    assert!(out.status.success(), "bench {options}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    read(&out)
}

/// Exit status and error line of a rejected load.
#[track_caller]
pub fn refused(options: &str) -> (i32, String) {
    let out = bench(options).output().expect("the built binary starts");
    let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    (out.status.code().expect("an exit status"), said)
}

/// Writes the entire used part, so that every block can be checked; then reads and writes it at random with checks, and
/// with probes if `watched` is `on`.
#[track_caller]
pub fn written_and_checked(options: &str, bytes: u64, block: u64, watched: &str) -> Measurement {
    const MIXED: u64 = 10_000;
    let common = format!("{options} --allow-write --verify --size {bytes} --bs {block}");
    let wrote = run(&format!("{common} --trace off --rw write --count {}", bytes / block));
    assert_eq!(
        (wrote.ios.unwrap(), wrote.bytes.unwrap(), wrote.errors.unwrap(), wrote.short_ios.unwrap()),
        (bytes / block, bytes, 0, 0),
        "{options}"
    );
    let m = run(&format!("{common} --trace {watched} --rw randrw --count {MIXED}"));
    assert_eq!(
        (m.ios.unwrap(), m.bytes.unwrap(), m.errors.unwrap(), m.short_ios.unwrap()),
        (MIXED, MIXED * block, 0, 0),
        "{options}"
    );
    assert_eq!(m.errors_by, Some(vec![]));
    m
}

/// Polls `is` until it is true; panics after a minute.
#[track_caller]
pub fn until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(60), "never came: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn write(path: impl AsRef<Path>, text: &str) {
    fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()));
}

/// Unbinds the kernel's driver from the drive, and rebinds it on drop.
pub struct Released(pub Drive);

pub fn release(drive: &Drive) -> Released {
    write("/sys/bus/pci/drivers/nvme/unbind", &drive.address);
    Released(drive.clone())
}

impl Drop for Released {
    fn drop(&mut self) {
        write("/sys/bus/pci/drivers/nvme/bind", &self.0.address);
        appear(&self.0.serial);
    }
}

/// Waits for the disk and the generic device of a newly added drive.
pub fn appear(serial: &str) {
    until("a drive's devices", || {
        all()
            .iter()
            .any(|d| d.serial == serial && fs::File::open(d.block()).is_ok() && fs::File::open(d.generic()).is_ok())
    });
}

/// Removes the drive from its bus through sysfs.
pub fn take_out(drive: &Drive) {
    write(format!("/sys/bus/pci/devices/{}/remove", drive.address), "1");
}

/// Makes the kernel rescan its buses.
pub fn put_back(drive: &Drive) {
    write("/sys/bus/pci/rescan", "1");
    appear(&drive.serial);
}
