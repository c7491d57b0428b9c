//! Slurm by its own commands: what it is given to run, what it tells of it, and what comes back from the nodes.
//!
//! Only output that is made for programs is read (`squeue -o`, `sinfo -o`, `scontrol -o`, `sacct -P`): it is the same in all of Slurm's
//! releases, which its JSON is not.
//!
//! | file | responsible for |
//! |---|---|
//! | `command` | a command, run; why it failed |
//! | `words` | options in one text, split as a shell does |
//! | `refused` | options for sbatch that take over what is decided here |
//! | `nodes` | nodes: named, chosen by Slurm, and how they are |
//! | `submit` | an exclusive job for each node, or for two |
//! | `queue` | the partition and the account of what is fetched later |
//! | `pair` | two nodes of one job: steps on the second |
//! | `script` | what a node runs |
//! | `state` | jobs as squeue, sacct and scontrol tell |
//! | `control` | jobs cancelled, asked to stop, started at once |
//! | `outbox` | what a node leaves: progress, store, how it ended |
//! | `stream` | the same over srun's streams |
//!
//! It uses `iotrail-base`.

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
