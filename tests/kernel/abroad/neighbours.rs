//! Other programs at work beside the watched one: nothing of theirs is counted as its own.

use super::Test;

pub const TESTS: &[(&str, Test)] = &[];
