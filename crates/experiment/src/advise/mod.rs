//! Searches for a better configuration: the candidates, the search experiment, and the experiment that confirms its
//! result. `iotrail_answer::search` contains the algorithm.

pub mod candidates;
pub mod net;
pub mod objective;
pub mod storage;
pub mod subject;
