//! The initramfs, an archive in cpio's `newc` format (Documentation/driver-api/early-userspace/buffer-format.rst).

/// Files, directories and nodes in unpacking order: a directory precedes its entries.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;
const CHARACTER: u32 = 0o020_600;

impl Archive {
    pub fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, (0, 0), &[]);
    }

    /// Adds the missing parent directories of a path, outermost first.
    pub fn folders_above(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            self.folder(&path[..at]);
        }
    }

    pub fn file(&mut self, path: &str, permissions: u32, content: &[u8]) {
        self.entry(path, FILE | permissions, (0, 0), content);
    }

    pub fn link(&mut self, path: &str, target: &str) {
        self.entry(path, LINK, (0, 0), target.as_bytes());
    }

    pub fn character_device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, CHARACTER, (major, minor), &[]);
    }

    /// Completes the archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.entries += 1;
        let fields = [
            self.entries,
            mode,
            0, // user
            0, // group
            1, // links
            0, // time
            content.len() as u32,
            0,
            0, // device of the file system
            major,
            minor,
            path.len() as u32 + 1,
            0, // no checksum in this format
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_entry_has_a_padded_header_name_and_content() {
        let mut archive = Archive::default();
        archive.file("init", 0o755, b"hello");
        let bytes = archive.finish();
        let header = "070701\
            00000001000081ed00000000000000000000000100000000\
            0000000500000000000000000000000000000000\
            0000000500000000";
        assert_eq!(&bytes[..110], header.as_bytes());
        // The 110-byte header and "init\0" are padded to 116, the content to 124.
        assert_eq!(&bytes[110..124], b"init\0\0hello\0\0\0");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes.len().is_multiple_of(4) && bytes.windows(11).any(|w| w == b"TRAILER!!!\0"));
    }

    #[test]
    fn entries_are_preceded_by_their_directories() {
        let mut archive = Archive::default();
        archive.folders_above("a/b/f");
        archive.file("a/b/f", 0o640, b"content");
        archive.link("a/l", "b/f");
        let text = String::from_utf8(archive.finish()).unwrap();
        let names: Vec<&str> = text.split("070701").skip(1).map(|e| e[104..].split('\0').next().unwrap()).collect();
        assert_eq!(names, ["a", "a/b", "a/b/f", "a/l", "TRAILER!!!"]);
    }
}
