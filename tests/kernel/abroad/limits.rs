//! Few descriptors, little memory, few privileges.

use super::Test;

pub const TESTS: &[(&str, Test)] = &[];
