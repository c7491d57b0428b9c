//! The I/O interfaces: io_uring's rings, flags, opcodes and registrations, and each engine.

use iotrail_host::io_uring;
use iotrail_host::refusal::{Circumstances, Refusal};
use iotrail_load::options::EngineKind;
use iotrail_report::check::{Item, Section, State};

pub(super) fn items(circumstances: &Circumstances) -> Vec<Item> {
    let ring = io_uring::ring(circumstances);
    let mut items = match &ring {
        Ok(()) => rings(circumstances),
        Err(refusal) => without_rings(refusal),
    };
    let engines = EngineKind::ALL.iter().map(|kind| kind.engine());
    items.extend(engines.map(|e| engine(e.name, (e.here)(circumstances))));
    items
}

const FLAGS: &str = "setup flags";
const OPCODES: &str = "opcodes";
const REGISTERED: &str = "registered";

fn flag(name: &str, text: &str) -> Item {
    Item::ok(Section::IoUring, &format!("io_uring.flag.{name}"), name, text).in_group(FLAGS)
}

/// Without rings nothing else can be queried, so only the ring is reported as missing.
fn without_rings(refusal: &Refusal) -> Vec<Item> {
    let ring = Item::ok(Section::IoUring, "io_uring.ring", "ring", "");
    let mut items = vec![refused(ring, refusal, "--engine io_uring")];
    items.extend(io_uring::flag_names().map(|name| Item {
        state: State::Unknown,
        restore: Some("see ring".into()),
        ..flag(name, "cannot be queried without a ring")
    }));
    let unasked = |id: &str, name: &str| {
        Item::unknown(Section::IoUring, id, name, "cannot be queried without a ring", "see ring")
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
        Some(0) => "available; kernel.io_uring_disabled is 0: allowed for all processes",
        Some(1) => "available; kernel.io_uring_disabled is 1: allowed for this process, not for unprivileged ones",
        _ => "available",
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
    items.extend(kinds(circumstances));
    match io_uring::opcodes(circumstances) {
        Ok(opcodes) => {
            for op in opcodes.known {
                let item = Item::ok(Section::IoUring, &format!("io_uring.opcode.{}", op.name), op.name, "supported")
                    .in_group(OPCODES);
                items.push(answered(item, &op.answer, "support for programs that use them"));
            }
            if opcodes.unnamed > 0 {
                items.push(Item::fact(
                    Section::IoUring,
                    "io_uring.opcodes_unnamed",
                    "",
                    format!("and {} newer ones, unknown to this version of iotrail", opcodes.unnamed),
                ));
            }
        }
        Err(refusal) => {
            items.push(Item::unknown(Section::IoUring, "io_uring.opcodes", "opcodes", refusal.why, refusal.restore))
        }
    }
    items
}

/// Names reported by the kernel, if it supports IORING_REGISTER_QUERY.
fn kinds(circumstances: &Circumstances) -> Vec<Item> {
    let kinds = match io_uring::kinds(circumstances) {
        Ok(kinds) => kinds,
        Err(refusal) => {
            let text = format!("register operations and enter flags are unknown: {}", refusal.why);
            return vec![Item::fact(Section::IoUring, "io_uring.query", "query", text)];
        }
    };
    let mut items = vec![];
    for kind in kinds {
        let id = kind.name.replace(' ', "_");
        for (n, answer) in kind.known.into_iter().filter(|_| kind.name != io_uring::SETUP_FLAGS) {
            let item = Item::ok(Section::IoUring, &format!("io_uring.{id}.{}", n.name), n.name, "supported");
            items.push(answered(item.in_group(kind.name), &answer, "support for programs that use them"));
        }
        if !kind.unnamed.is_empty() {
            let each = kind.unnamed.iter().map(|n| if kind.is_flags { format!("bit {n}") } else { n.to_string() });
            let text = format!("unknown to this version of iotrail: {}", each.collect::<Vec<_>>().join(", "));
            items.push(Item::fact(Section::IoUring, &format!("io_uring.{id}_unnamed"), kind.name, text));
        }
    }
    items
}

/// An engine's availability.
fn engine(name: &str, answer: Result<String, Refusal>) -> Item {
    let item = Item::ok(Section::Engines, &format!("engine.{name}"), name, "");
    match answer {
        Ok(text) => Item { text, ..item },
        Err(refusal) => refused(item, &refusal, &format!("--engine {name}, and comparisons that use it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ring_is_reported_as_missing_without_io_uring() {
        let items = without_rings(&Refusal { why: "w".into(), restore: "r".into() });
        let missing: Vec<_> = items.iter().filter(|i| i.state == State::Missing).map(|i| i.id.as_str()).collect();
        assert_eq!(missing, ["io_uring.ring"]);
        assert!(items.iter().any(|i| i.id == "io_uring.flag.defer_taskrun" && i.state == State::Unknown));
        assert_eq!(items.len(), 3 + io_uring::flag_names().count());
    }

    #[test]
    fn an_unavailable_interface_lists_the_lost_engine() {
        let item = engine("io_uring", Err(Refusal { why: "w".into(), restore: "r".into() }));
        assert_eq!((item.name.as_str(), item.state), ("io_uring", State::Missing));
        assert_eq!(item.lost.as_deref(), Some("--engine io_uring, and comparisons that use it"));
        assert_eq!((item.text.as_str(), item.restore.as_deref()), ("w", Some("r")));
        let item = engine("libaio", Ok("a context can be made".into()));
        assert_eq!((item.state, item.text.as_str(), item.lost), (State::Ok, "a context can be made", None));
    }
}
