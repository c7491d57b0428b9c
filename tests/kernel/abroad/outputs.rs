//! Where results are written to: links, pipes, full disks, files that are there already.

use super::Test;

pub const TESTS: &[(&str, Test)] = &[];
