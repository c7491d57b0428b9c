//! The search for a better configuration: which candidates there are, and the experiments that search among them and confirm what
//! was found. How a search goes on is `iotrail_answer::search`.

pub mod candidates;
pub mod net;
pub mod objective;
pub mod storage;
pub mod subject;
