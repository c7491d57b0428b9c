//! The one result that nothing else may hide: data that came back wrong.

use serde::{Deserialize, Serialize};

/// Data that a verified load read back and that is not what was written there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corruption {
    /// The file.
    pub file: String,
    /// Offset of the first unit of 512 bytes that is wrong.
    pub offset: u64,
    /// What was written there.
    pub expected: String,
    /// What was read.
    pub found: String,
    /// Blocks read that are wrong.
    pub blocks: u64,
    /// Size of a block.
    pub block_bytes: u64,
    /// The cell that read them; left out outside of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u32>,
}

impl std::fmt::Display for Corruption {
    /// One line, for the first line of a result.
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
