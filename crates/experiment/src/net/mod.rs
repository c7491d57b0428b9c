//! Measures a network load: the server's side, the sender's side, and the combined measurement.
//!
//! | file | responsible for |
//! |---|---|
//! | `served` | the server's main loop: prints seconds, measures one sender at a time |
//! | `span` | one measured span of a server: its counts and the probes around it |
//! | `ends` | both ends on this machine: a server started in its own network namespace, and a sender |
//! | `second` | the server on another node of a Slurm job |
//! | `loaded` | a sender's run against a server, with the server's part if available |

pub mod ends;
pub mod loaded;
pub mod second;
pub mod served;
mod span;
