//! The network load: a server that answers requests, and a sender that asks and checks every answer.
//!
//! | file | responsible for |
//! |---|---|
//! | `address` | where a server is: TCP or a UNIX socket |
//! | `wire` | what crosses it: requests, and the responses that are made of them |
//! | `options` | what can be asked for, on the command line and in an experiment |
//! | `namespace`, `netlink` | two network namespaces with a veth pair between them |
//! | `descriptors` | how many files may be open |
//! | `sender` | requests in flight on many connections, every response checked |
//! | `server` | the server: threads, engines, what they counted |
//! | `control` | what sender and server agree on beside the requests, and how the server's half of a measurement comes back |
//!
//! It uses `iotrail-base`, `iotrail-schema`, `iotrail-host`, `iotrail-stats`, `iotrail-load`.

pub mod address;
pub mod control;
pub mod descriptors;
pub mod namespace;
mod netlink;
pub mod options;
pub mod sender;
pub mod server;
pub mod wire;
