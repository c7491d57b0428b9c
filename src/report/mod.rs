//! (stub)

pub mod check;
