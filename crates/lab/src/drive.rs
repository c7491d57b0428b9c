//! `--nvme`: a guest's drive, its queues, data and injected faults.

use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use iotrail_base::units::{Bytes, Span};

/// One NVMe drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// Number of I/O queues with interrupts.
    pub queues: u32,
    /// Number of additional polled I/O queues.
    pub poll: u32,
    pub size_bytes: u64,
    pub data: Data,
    /// Where reads or writes fail.
    pub errors: Vec<Failing>,
}

/// How written data is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// Written data is discarded and reads return zeros. Each request completes after this time, with its own
    /// interrupt.
    Discard { latency: Duration },
    /// Written data can be read back until the guest ends.
    Keep,
}

/// Requests of this kind that touch the sector at this offset fail with EIO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failing {
    pub write: bool,
    pub offset_bytes: u64,
}

/// Long enough that no request completes before the next one is submitted.
const LATENCY: Duration = Duration::from_micros(100);

const SECTOR: u64 = 512;

/// Above the emulated drive's limit.
const MOST_QUEUES: u32 = 1024;

impl FromStr for Drive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut drive = Drive { queues: 1, poll: 0, size_bytes: 1 << 30, data: Data::Keep, errors: vec![] };
        let (mut keep, mut latency) = (false, None);
        for option in text.split(',').filter(|o| !o.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| format!("'{option}' has no value: {FORM}"))?;
            let number = || value.parse::<u32>().map_err(|_| format!("{name}: '{value}' is not a number"));
            match name {
                "queues" => drive.queues = number()?,
                "poll" => drive.poll = number()?,
                "size" => drive.size_bytes = value.parse::<Bytes>()?.0,
                "latency" => latency = Some(value.parse::<Span>()?.0),
                "data" => {
                    keep = match value {
                        "keep" => true,
                        "discard" => false,
                        _ => return Err(format!("data: '{value}' is neither keep nor discard")),
                    }
                }
                "errors" => drive.errors.push(value.parse()?),
                _ => return Err(format!("unknown property '{name}': {FORM}")),
            }
        }
        if drive.queues == 0 || drive.queues.saturating_add(drive.poll) > MOST_QUEUES {
            return Err(format!("a drive needs 1 to {MOST_QUEUES} queues, at least one of them with an interrupt"));
        }
        if drive.size_bytes == 0 || !drive.size_bytes.is_multiple_of(SECTOR) {
            return Err(format!("size: must be a multiple of the {SECTOR}-byte sectors"));
        }
        if let Some(far) = drive.errors.iter().find(|e| e.offset_bytes >= drive.size_bytes) {
            return Err(format!("errors: {} is beyond the end of the drive", far.offset_bytes));
        }
        drive.data = match (keep, latency) {
            (true, Some(_)) => {
                return Err("latency: requires data=discard, since the latency of stored data is unknown".into());
            }
            (true, None) => Data::Keep,
            (false, latency) => Data::Discard { latency: latency.unwrap_or(LATENCY) },
        };
        Ok(drive)
    }
}

const FORM: &str = "queues=N,poll=N,size=1g,data=discard|keep,latency=100us,errors=read@OFFSET";

impl FromStr for Failing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("errors: '{text}' is neither read@OFFSET nor write@OFFSET");
        let (kind, offset) = text.split_once('@').ok_or_else(wrong)?;
        let write = match kind {
            "read" => false,
            "write" => true,
            _ => return Err(wrong()),
        };
        // 0 is a valid offset, but not a valid size.
        let offset_bytes = if offset == "0" { 0 } else { offset.parse::<Bytes>()?.0 };
        if !offset_bytes.is_multiple_of(SECTOR) {
            return Err(format!("errors: offset {offset} is not a multiple of the {SECTOR}-byte sectors"));
        }
        Ok(Failing { write, offset_bytes })
    }
}

/// File with the data of a drive that keeps it, in the run's directory.
pub fn file(folder: &Path, number: usize) -> std::path::PathBuf {
    folder.join(format!("drive{number}"))
}

impl Drive {
    /// QEMU options. Each drive has its own port, so that it can be unplugged.
    pub fn options(&self, number: usize, folder: &Path) -> Vec<OsString> {
        let mut image = match self.data {
            Data::Discard { latency } => format!(
                "driver=null-co,size={},read-zeroes=on,latency-ns={}",
                self.size_bytes,
                latency.as_nanos().min(u128::from(u64::MAX))
            ),
            Data::Keep => {
                let file = escaped(&file(folder, number).display().to_string());
                format!("driver=raw,file.driver=file,file.filename={file},cache.no-flush=on")
            }
        };
        if !self.errors.is_empty() {
            let inner: Vec<String> = image.split(',').map(|o| format!("image.{o}")).collect();
            image = format!("driver=blkdebug,{}", inner.join(","));
            for (i, error) in self.errors.iter().enumerate() {
                let kind = if error.write { "write" } else { "read" };
                image.push_str(&format!(
                    ",inject-error.{i}.event=none,inject-error.{i}.iotype={kind},inject-error.{i}.errno=5,\
                     inject-error.{i}.sector={},inject-error.{i}.once=off",
                    error.offset_bytes / SECTOR
                ));
            }
        }
        // The admin queue needs a vector too.
        let device = format!(
            "nvme,serial=lab{number},drive=drive{number},bus=port{number},max_ioqpairs={},msix_qsize={}",
            self.queues + self.poll,
            self.queues + 1
        );
        let port = format!("pcie-root-port,id=port{number},chassis={},slot={}", number + 1, number + 1);
        ["-drive".into(), format!("{image},if=none,id=drive{number}"), "-device".into(), port, "-device".into(), device]
            .into_iter()
            .map(OsString::from)
            .collect()
    }
}

/// Escapes commas, which end a value in QEMU options.
pub(super) fn escaped(value: &str) -> String {
    value.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> String {
        let drive: Drive = text.parse().unwrap();
        drive.options(0, Path::new("/r")).iter().map(|o| o.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn drive_options_become_qemu_options() {
        assert_eq!(
            options("queues=2,poll=1"),
            "-drive driver=null-co,size=1073741824,read-zeroes=on,latency-ns=100000,if=none,id=drive0 \
             -device pcie-root-port,id=port0,chassis=1,slot=1 \
             -device nvme,serial=lab0,drive=drive0,bus=port0,max_ioqpairs=3,msix_qsize=3"
        );
        assert!(
            options("data=keep,size=64m").starts_with("-drive driver=raw,file.driver=file,file.filename=/r/drive0,")
        );
        assert!(options("latency=1ms,errors=read@1m,errors=write@0").contains(
            "driver=blkdebug,image.driver=null-co,image.size=1073741824,image.read-zeroes=on,image.latency-ns=1000000,\
             inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector=2048,\
             inject-error.0.once=off,inject-error.1.event=none,inject-error.1.iotype=write,"
        ));
    }

    #[test]
    fn invalid_drive_options_are_rejected() {
        let told = |text: &str| text.parse::<Drive>().unwrap_err();
        assert_eq!(told("queues"), format!("'queues' has no value: {FORM}"));
        assert_eq!(told("queue=1"), format!("unknown property 'queue': {FORM}"));
        assert_eq!(told("queues=x"), "queues: 'x' is not a number");
        assert!(told("queues=0").contains("1 to 1024 queues") && told("poll=4294967295").contains("1 to 1024 queues"));
        assert_eq!(told("data=maybe"), "data: 'maybe' is neither keep nor discard");
        assert!(told("data=keep,latency=1ms").starts_with("latency: "));
        assert_eq!(told("errors=5"), "errors: '5' is neither read@OFFSET nor write@OFFSET");
        assert!(told("errors=read@100").contains("is not a multiple of the"));
        assert_eq!(told("size=1m,errors=read@1m"), "errors: 1048576 is beyond the end of the drive");
        assert!(told("size=1000").starts_with("size: "));
    }
}
