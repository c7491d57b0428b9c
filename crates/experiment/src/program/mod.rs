//! A program of the user's as a load, unchanged: its rings set up with other flags than it asks for, its CPUs and environment chosen.

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
pub mod run;
