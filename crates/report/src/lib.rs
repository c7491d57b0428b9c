//! Measurements and runs → something to look at. Reports take what the store holds and never what made it.
//!
//! It uses `iotrail-base`, `iotrail-schema`, `iotrail-stats`, `iotrail-path`, `iotrail-store`, `iotrail-answer`.

pub mod check;
pub mod export;
pub mod html;
pub mod terminal;
pub mod top;
