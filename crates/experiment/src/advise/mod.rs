//! The search for a better configuration: the candidates, and the experiments that search them and confirm the
//! result. `iotrail_answer::search` has the algorithm.

pub mod candidates;
pub mod net;
pub mod objective;
pub mod storage;
pub mod subject;
