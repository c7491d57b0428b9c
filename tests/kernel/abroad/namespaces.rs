//! PID namespaces, nested ones, containers.

use super::Test;

pub const TESTS: &[(&str, Test)] = &[];
