//! Reads text files that the user names.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::words;

/// Fails if there are more than `most` bytes, so that an endless device or a huge file does not exhaust memory.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut read)?;
    if read.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {}", words::bytes(most))));
    }
    Ok(read)
}

/// The same for UTF-8 text.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_larger_than_the_limit_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "12345678").unwrap();
        assert_eq!(text(&file, 8).unwrap(), "12345678");
        assert_eq!(text(&file, 7).unwrap_err().to_string(), "it is larger than 7 B");
        assert_eq!(text(Path::new("/dev/zero"), 1 << 20).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        // The limit is within a multi-byte character.
        std::fs::write(&file, "äöü").unwrap();
        assert_eq!(text(&file, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&file, b"\xff").unwrap();
        assert_eq!(text(&file, 4).unwrap_err().to_string(), "it is not UTF-8 text");
    }
}
