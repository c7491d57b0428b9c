//! Many rings, many processes, many threads, one after another and at once.

use super::Test;

pub const TESTS: &[(&str, Test)] = &[];
