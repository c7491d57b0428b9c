//! Files in the programs' records (files.h), converted to the types of `path::files`.

use super::skel::types;
use iotrail_schema::file::{Descriptor, FileSeen, Kind};
use iotrail_schema::opcode::has_no_file;

/// Last component of a file name, truncated to 79 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastName {
    pub device: u32,
    pub inode: u64,
    pub generation: u32,
    pub name: String,
}

pub(super) fn last_name(raw: &types::file_name) -> LastName {
    let types::file_key { inode, device, generation } = raw.key;
    LastName { device, inode, generation, name: crate::raw::text(&raw.name) }
}

/// `enum file_flag` in record.h.
const SEEN: u32 = 1 << 16;
const FIXED: u32 = 1 << 17;
const DELETED: u32 = 1 << 18;
const APPENDED: u32 = 1 << 20;
const ANONYMOUS: u32 = 1 << 19;

/// File of a request; `None` if the request has no file, or none yet.
pub(super) fn seen(raw: &types::trail) -> Option<FileSeen> {
    if raw.file & SEEN == 0 {
        return None;
    }
    let kind = match raw.file & ANONYMOUS != 0 {
        true => Kind::of_anonymous(&raw.inode.to_ne_bytes()),
        false => Kind::of_mode(raw.file & libc::S_IFMT),
    };
    let own = kind.is_named();
    Some(FileSeen {
        kind,
        device: if own { raw.device } else { 0 },
        inode: if own { raw.inode } else { 0 },
        generation: if own { raw.generation } else { 0 },
        deleted: raw.file & DELETED != 0,
        appended: raw.file & APPENDED != 0,
    })
}

/// Descriptor or fixed-file index that the program used.
pub(super) fn descriptor(raw: &types::trail, opcode: &str) -> Option<Descriptor> {
    if raw.file & SEEN == 0 && has_no_file(opcode) {
        return None;
    }
    Some(match raw.file & FIXED != 0 {
        true => Descriptor::Fixed(raw.fd as u32),
        false => Descriptor::Fd(raw.fd),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_identity_and_descriptor_of_a_request_are_decoded() {
        let of = |file, inode, fd| types::trail { file, inode, fd, device: 9, generation: 4, ..Default::default() };
        assert_eq!(seen(&of(0, 0, 3)), None);
        let file = FileSeen { kind: Kind::File, device: 9, inode: 7, generation: 4, deleted: true, appended: false };
        assert_eq!(seen(&of(SEEN | DELETED | libc::S_IFREG, 7, 3)), Some(file));
        let eventfd = u64::from_ne_bytes(*b"[eventfd");
        let kind = |raw| seen(&raw).map(|f| (f.kind, f.inode));
        assert_eq!(kind(of(SEEN | ANONYMOUS, eventfd, 3)), Some((Kind::Eventfd, 0)));
        assert_eq!(kind(of(SEEN | libc::S_IFSOCK, 77, 3)), Some((Kind::Socket, 0)));
        assert_eq!(descriptor(&of(FIXED, 0, 2), "read"), Some(Descriptor::Fixed(2)));
        assert_eq!(descriptor(&of(0, 0, 2), "timeout"), None);
        assert_eq!(descriptor(&of(SEEN | libc::S_IFREG, 7, 2), "nop"), Some(Descriptor::Fd(2)));
    }
}
