//! The machine: kernel, clocks, the target's disk and interrupts, CPUs.

mod clock;
mod cpus;
mod kernel;
mod target;

pub(super) use clock::clock;
pub(super) use cpus::cpus;
pub(super) use kernel::kernel;
pub(super) use target::{taking, target};

#[cfg(test)]
mod tests;
