//! Measurements and runs → something to look at. Reports take what the store holds and never what made it.

pub mod check;
pub mod html;
pub mod terminal;
pub mod top;
