//! Turns measurements and runs into reports for people and files for programs. Reports depend on stored records, never
//! on the code that produced them.
//!
//! Depends on `iotrail-base`, `iotrail-schema`, `iotrail-stats`, `iotrail-path`, `iotrail-store`, `iotrail-answer`.

pub mod check;
pub mod export;
pub mod html;
pub mod terminal;
pub mod top;
