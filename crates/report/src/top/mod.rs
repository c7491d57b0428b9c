//! What `top` shows: a screen that is drawn again and again, or lines.
//!
//! | module | responsible for |
//! |---|---|
//! | [`columns`] | rows, what stands in each column, which columns fit |
//! | [`bar`] | vehicles' shares as a bar of letters |
//! | [`screen`] | what is looked at: sorted by what, frozen, one ring; what keys change |
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
