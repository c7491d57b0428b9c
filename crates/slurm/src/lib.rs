//! Uses Slurm through its commands: submits jobs, queries their state, and collects the nodes' results.
//!
//! Parses only machine-readable output that is the same in all Slurm releases (`squeue -o`, `sinfo -o`, `scontrol -o`,
//! `sacct -P`); Slurm's JSON is not.
//!
//! | file | responsible for |
//! |---|---|
//! | `command` | runs a command; why it failed |
//! | `words` | options in one text, split like a shell |
//! | `refused` | options for sbatch that conflict with iotrail's own |
//! | `nodes` | nodes: named, chosen by Slurm, and their state |
//! | `submit` | an exclusive job per node, or for two nodes |
//! | `queue` | partition and account of a later fetch |
//! | `pair` | two nodes of one job: steps on the second |
//! | `script` | the script of a node |
//! | `state` | jobs as squeue, sacct and scontrol report them |
//! | `control` | jobs: cancel, stop, start at once |
//! | `outbox` | files of a node: progress, store, end |
//! | `stream` | the same over srun's streams |
//!
//! Depends on `iotrail-base`.

pub mod command;
pub mod control;
pub mod nodes;
pub mod outbox;
pub mod pair;
pub mod queue;
pub mod refused;
pub mod script;
pub mod state;
pub mod stream;
pub mod submit;
pub mod words;
