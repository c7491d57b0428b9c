//! A network load, measured: the server's side, the sender's side, and the measurement that the two make together.
//!
//! | file | responsible for |
//! |---|---|
//! | `served` | a server's life: seconds told, senders measured one after the other |
//! | `span` | one measured span of a server: its counts and the probes around it |
//! | `ends` | both ends on this machine: a server started, in a network of its own, and a sender |
//! | `second` | the server on another node of a job of Slurm's |
//! | `loaded` | a sender's run against a server, with the server's half where it can be had |

pub mod ends;
pub mod loaded;
pub mod second;
pub mod served;
mod span;
