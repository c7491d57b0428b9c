//! Corrupt data, which no other result may hide.

use serde::{Deserialize, Serialize};

/// Data that a verifying load read differs from the data written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corruption {
    /// The file.
    pub file: String,
    /// Offset of the first wrong 512-byte unit.
    pub offset: u64,
    /// The data written.
    pub expected: String,
    /// The data read.
    pub found: String,
    /// Number of wrong blocks read.
    pub blocks: u64,
    /// Size of a block.
    pub block_bytes: u64,
    /// Cell that read them; left out outside a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u32>,
}

impl std::fmt::Display for Corruption {
    /// In one line, for the first line of a result.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, offset, expected, found, blocks, .. } = self;
        let blocks = crate::words::plural(*blocks as usize, "block");
        write!(
            f,
            "DATA CORRUPTION in {file}: {blocks} wrong; first at offset {offset}: expected {expected}, found {found}"
        )
    }
}

impl std::error::Error for Corruption {}
