//! The interfaces: io_uring's rings, flags, opcodes and registrations, and each engine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use iotrail_host::refusal::{Circumstances, Refusal};
use iotrail_host::{aio, io_uring, pci};
use iotrail_load::engine::nvme::user::way::{Facts, way};
use iotrail_report::check::{Item, Section, State};

pub(super) fn items(circumstances: &Circumstances) -> Vec<Item> {
    let ring = io_uring::ring(circumstances);
    let mut items = match &ring {
        Ok(()) => rings(circumstances),
        Err(refusal) => without_rings(refusal),
    };
    items.extend(engines(&ring, aio::native(circumstances), aio::posix()));
    items.push(passthrough(circumstances, &ring, &generic_devices()));
    items.push(own_driver());
    items
}

const FLAGS: &str = "setup flags";
const OPCODES: &str = "opcodes";
const REGISTERED: &str = "registered";

fn flag(name: &str, text: &str) -> Item {
    Item::ok(Section::IoUring, &format!("io_uring.flag.{name}"), name, text).in_group(FLAGS)
}

/// Nothing can be asked for, so nothing is claimed to be missing but the ring.
fn without_rings(refusal: &Refusal) -> Vec<Item> {
    let ring = Item::ok(Section::IoUring, "io_uring.ring", "ring", "");
    let mut items = vec![refused(ring, refusal, "the io_uring engine")];
    items.extend(io_uring::flag_names().map(|name| Item {
        state: State::Unknown,
        restore: Some("see ring".into()),
        ..flag(name, "can't be asked for without a ring")
    }));
    let unasked = |id: &str, name: &str| {
        Item::unknown(Section::IoUring, id, name, "can't be asked for without a ring", "see ring")
    };
    items.push(unasked("io_uring.register", REGISTERED));
    items.push(unasked("io_uring.opcodes", OPCODES));
    items
}

fn refused(item: Item, refusal: &Refusal, lost: &str) -> Item {
    let missing = Item::missing(item.section, &item.id, &item.name, &refusal.why, lost, &refusal.restore);
    Item { group: item.group, ..missing }
}

fn answered(item: Item, answer: &Result<(), Refusal>, lost: &str) -> Item {
    match answer {
        Ok(()) => item,
        Err(refusal) => refused(item, refusal, lost),
    }
}

fn rings(circumstances: &Circumstances) -> Vec<Item> {
    let open_to = match circumstances.settings.io_uring_disabled {
        Some(0) => "made; kernel.io_uring_disabled is 0: everyone may",
        Some(1) => "made; kernel.io_uring_disabled is 1: this process may, others may not",
        _ => "made",
    };
    let mut items = vec![Item::ok(Section::IoUring, "io_uring.ring", "ring", open_to)];
    for f in io_uring::flags(circumstances) {
        items.push(answered(flag(f.name, f.purpose), &f.answer, f.purpose));
    }
    for r in io_uring::registrations(circumstances) {
        let item = Item::ok(Section::IoUring, &format!("io_uring.register.{}", r.name), r.name, r.purpose)
            .in_group(REGISTERED);
        items.push(answered(item, &r.answer, r.purpose));
    }
    match io_uring::opcodes(circumstances) {
        Ok(opcodes) => {
            for op in opcodes.known {
                let item = Item::ok(Section::IoUring, &format!("io_uring.opcode.{}", op.name), op.name, "supported")
                    .in_group(OPCODES);
                items.push(answered(item, &op.answer, "programs that use them"));
            }
            if opcodes.unnamed > 0 {
                items.push(Item::fact(
                    Section::IoUring,
                    "io_uring.opcodes_unnamed",
                    "",
                    format!("and {} that are newer than this program", opcodes.unnamed),
                ));
            }
        }
        Err(refusal) => {
            items.push(Item::unknown(Section::IoUring, "io_uring.opcodes", "opcodes", refusal.why, refusal.restore))
        }
    }
    items
}

/// An engine that can or can't be had.
fn engine(name: &str, answer: Result<String, Refusal>) -> Item {
    let item = Item::ok(Section::Engines, &format!("engine.{name}"), name, "");
    match answer {
        Ok(text) => Item { text, ..item },
        Err(refusal) => refused(item, &refusal, &format!("--engine {name}, and comparisons with it")),
    }
}

/// The device files of NVMe namespaces, as the kernel names them.
fn generic_devices() -> Vec<PathBuf> {
    let named = fs::read_dir("/sys/class/nvme-generic").into_iter().flatten().flatten();
    let mut devices: Vec<PathBuf> = named.map(|e| Path::new("/dev").join(e.file_name())).collect();
    devices.sort();
    devices
}

fn passthrough(circumstances: &Circumstances, ring: &Result<(), Refusal>, devices: &[PathBuf]) -> Item {
    let answer = ring.clone().and_then(|()| io_uring::big_entries(circumstances)).and_then(|()| {
        let Some(first) = devices.first() else {
            return Err(Refusal {
                why: "no NVMe namespace has a generic device here".into(),
                restore: "an NVMe drive that the kernel's driver has (Linux 5.13 or later)".into(),
            });
        };
        let opened = devices.iter().find(|d| File::open(d).is_ok());
        let opened = opened.ok_or_else(|| Refusal {
            why: format!("{} can't be opened", first.display()),
            restore: "run as root".into(),
        })?;
        Ok(format!("NVMe passthrough: {}", opened.display()))
    });
    engine("io_uring_cmd", answer)
}

fn own_driver() -> Item {
    let answers: Vec<_> = pci::nvme_controllers()
        .into_iter()
        .map(|(address, _)| (way(&address, &Facts::read(&address)), address))
        .collect();
    let answer = match answers.iter().find(|(answer, _)| answer.is_ok()).or(answers.first()) {
        Some((Ok(_), address)) => Ok(format!("a drive without the kernel: {address} is free")),
        Some((Err(e), _)) => Err(Refusal { why: e.what.clone(), restore: e.remedy.clone() }),
        None => Err(Refusal {
            why: "no NVMe controller is on the PCI bus".into(),
            restore: "an NVMe drive that nothing else uses".into(),
        }),
    };
    engine("nvme_user", answer)
}

fn engines(ring: &Result<(), Refusal>, libaio: Result<(), Refusal>, posix: Result<(), Refusal>) -> Vec<Item> {
    let engine = |name: &str, text: &str| Item::ok(Section::Engines, &format!("engine.{name}"), name, text);
    let lost = |name: &str| format!("--engine {name}, and comparisons with it");
    vec![
        answered(engine("io_uring", "a ring can be made"), ring, &lost("io_uring")),
        answered(engine("libaio", "native aio: a context can be made"), &libaio, &lost("libaio")),
        answered(engine("posix_aio", "glibc's: a read was done by its helper thread"), &posix, &lost("posix_aio")),
        engine("sync", "pread and pwrite: needs nothing"),
        engine("null", "does nothing: needs nothing"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_ring_only_the_ring_is_missing() {
        let items = without_rings(&Refusal { why: "w".into(), restore: "r".into() });
        let missing: Vec<_> = items.iter().filter(|i| i.state == State::Missing).map(|i| i.id.as_str()).collect();
        assert_eq!(missing, ["io_uring.ring"]);
        assert!(items.iter().any(|i| i.id == "io_uring.flag.defer_taskrun" && i.state == State::Unknown));
        assert_eq!(items.len(), 3 + io_uring::flag_names().count());
    }

    #[test]
    fn passthrough_needs_big_entries_and_a_device() {
        let circumstances = Circumstances::read();
        let no_ring = Err(Refusal { why: "w".into(), restore: "r".into() });
        let item = passthrough(&circumstances, &no_ring, &["/dev/null".into()]);
        assert_eq!((item.state, item.text.as_str()), (State::Missing, "w"));
        let item = passthrough(&circumstances, &Ok(()), &[]);
        assert_eq!((item.state, item.text.as_str()), (State::Missing, "no NVMe namespace has a generic device here"));
        let item = passthrough(&circumstances, &Ok(()), &["/no/such".into(), "/dev/null".into()]);
        assert_eq!((item.state, item.text.as_str()), (State::Ok, "NVMe passthrough: /dev/null"));
        let item = passthrough(&circumstances, &Ok(()), &["/no/such".into()]);
        assert_eq!((item.text.as_str(), item.restore.as_deref()), ("/no/such can't be opened", Some("run as root")));
    }

    #[test]
    fn a_refusal_names_the_engine_that_is_lost() {
        let no = || Err(Refusal { why: "w".into(), restore: "r".into() });
        let items = engines(&no(), Ok(()), no());
        let states: Vec<_> = items.iter().map(|i| (i.name.as_str(), i.state)).collect();
        assert_eq!(
            states,
            [
                ("io_uring", State::Missing),
                ("libaio", State::Ok),
                ("posix_aio", State::Missing),
                ("sync", State::Ok),
                ("null", State::Ok)
            ]
        );
        assert_eq!(items[0].lost.as_deref(), Some("--engine io_uring, and comparisons with it"));
        assert_eq!((items[0].text.as_str(), items[0].restore.as_deref()), ("w", Some("r")));
    }
}
