//! The command for the guest, as a file in the shared directory that preserves every byte.

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use iotrail_base::error::{OrFail, Result};

/// Path of the shared directory in the guest.
pub use iotrail_base::folders::OF_A_GUEST as FOLDER;

/// Files in the shared directory: the order, this program, the command's store, and other results.
const ORDER: &str = "order.json";
pub const PROGRAM: &str = "bin/iotrail";
pub const STATE: &str = "state";
pub const LEFT: &str = "left";

/// Environment variable that contains the path of [`LEFT`] in the guest.
pub const LEFT_VARIABLE: &str = "IOTRAIL_LAB_OUT";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Program and arguments.
    pub command: Vec<OsString>,
    pub working_folder: OsString,
    /// The complete environment: the guest adds nothing.
    pub environment: Vec<(OsString, OsString)>,
}

impl Order {
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::write(folder.join(ORDER), serde_json::to_vec(self)?)
    }

    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(ORDER);
        let read = std::fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        read.or_input(
            format_args!("cannot read the order {}", path.display()),
            "this command is for the lab's guest: use `iotrail lab run`",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn arguments_and_environment_with_any_byte_reach_the_guest() {
        let bytes: Vec<u8> = (1..=255).collect();
        let odd = OsString::from_vec(bytes);
        let order = Order {
            command: vec!["printf".into(), odd.clone(), "".into(), "two\nlines 'and \"quotes".into()],
            working_folder: odd.clone(),
            environment: vec![("A".into(), odd)],
        };
        let folder = tempfile::tempdir().unwrap();
        order.write(folder.path()).unwrap();
        assert_eq!(Order::read(folder.path()).unwrap(), order);
        assert_eq!(Order::read(Path::new("/no/such")).unwrap_err().exit_status(), 2);
    }
}
