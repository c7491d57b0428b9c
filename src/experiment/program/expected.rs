//! What every run of a program is held against.

use super::guard::Patience;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    pub exit_status: i32,
    pub patience: Patience,
}
