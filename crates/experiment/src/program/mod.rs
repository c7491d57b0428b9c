//! An unmodified user program as a load, with rewritten ring flags and with selected CPUs and environment.

mod client;
mod direction;
pub mod expected;
mod figure;
pub mod guard;
pub mod input;
mod limited;
pub mod measured;
mod number;
pub mod options;
mod proof;
pub mod ready;
mod replayed;
pub mod run;
