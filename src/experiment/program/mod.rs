//! A program of the user's as a load, unchanged: its rings set up with other flags than it asks for, its CPUs and environment chosen.

pub mod client;
pub mod figure;
pub mod measured;
pub mod options;
pub mod precheck;
pub mod run;
