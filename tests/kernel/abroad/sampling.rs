//! Which requests are followed, and what is concluded from them.

use super::Test;

pub const TESTS: &[(&str, Test)] = &[];
