//! Submits a recorded program's I/O again, without the program.
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
//! **Dependencies.** A recording contains no data, so it does not show why a request was submitted at a given time. The
//! replay uses the *tail* rule: a submission requires as many reaped chain ends as the recording had at that point, and
//! reaps exactly that many. A request without a link is a chain of one.
//!
//! Depends on `iotrail-base`, `iotrail-schema`, `iotrail-stats`, `iotrail-load`.

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
