//! A recorded program's I/O, submitted again without the program.
//!
//! | file | responsible for |
//! |---|---|
//! | `program` | the result of compiling: files, rings, and the steps of each thread |
//! | `compile` | events of a recording → a program; `observed` computes the recorded figures on the way |
//! | `batches` | whether the recorded program submits as many requests as it has reaped |
//! | `change` | the program with another depth, batch or interface |
//! | `fio_log` | fio's iolog as events |
//! | `files` | the files: checked, copied if they are written, opened |
//! | `engine` | io_uring, native aio, and an engine that does nothing |
//! | `thread`, `run` | the steps of one thread; all threads of one replay |
//!
//! **Dependencies.** A recording has no data, so it cannot show why a request was submitted when it was. The rule is *tail*: a
//! submission needs as many reaped ends of chains as the recording had at that point, and reaps exactly as many. A request
//! without a link is a chain of one.
//!
//! It uses `iotrail-base`, `iotrail-schema`, `iotrail-stats`, `iotrail-load`.

pub mod batches;
pub mod change;
pub mod compile;
pub mod engine;
pub mod files;
pub mod fio_log;
pub mod observed;
pub mod program;
pub mod run;
mod thread;
