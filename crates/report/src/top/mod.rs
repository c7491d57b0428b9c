//! The output of `top`: a redrawn screen, or lines.
//!
//! | module | responsible for |
//! |---|---|
//! | [`columns`] | rows, the content of each column, the columns that fit |
//! | [`bar`] | shares of the delivery paths as a bar of letters |
//! | [`screen`] | the state of the view: sorting, freezing, one ring; the keys that change it |
//! | [`draw`] | the screen on a terminal of any size |
//! | [`lines`] | the same without a terminal |

pub mod bar;
pub mod columns;
mod draw;
mod lines;
pub mod screen;

pub use self::lines::block;
pub use self::screen::Screen;

#[cfg(test)]
pub mod sample;
#[cfg(test)]
mod tests;
