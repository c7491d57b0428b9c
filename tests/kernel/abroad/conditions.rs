//! Several disks and devices in one run: conditions, placement and checks are each cell's own.

use super::Test;

pub const TESTS: &[(&str, Test)] = &[];
