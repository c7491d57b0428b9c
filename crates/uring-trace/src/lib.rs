#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod completion;
mod error;
mod gate;
mod totals;
mod tracer;

pub use completion::Completion;
pub use error::Error;
#[doc(inline)]
pub use iotrail_schema::delivery_path::DeliveryPath;
#[doc(inline)]
pub use iotrail_schema::trail::{Stages, Stamp};
pub use totals::{Losses, Totals};
pub use tracer::Tracer;
