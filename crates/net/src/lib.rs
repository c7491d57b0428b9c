//! Network loads: a server that answers requests, and a sender that checks every response.
//!
//! | file | responsible for |
//! |---|---|
//! | `address` | the address of a server: TCP or a UNIX socket |
//! | `wire` | the data: requests, and the responses derived from them |
//! | `options` | the options, on the command line and in an experiment |
//! | `namespace`, `netlink` | two network namespaces with a veth pair between them |
//! | `descriptors` | the limit of open files |
//! | `sender` | requests in flight on many connections, every response checked |
//! | `server` | the server: threads, engines, counts |
//! | `control` | the negotiation of sender and server, and the server's half of a measurement |
//!
//! Depends on `iotrail-base`, `iotrail-schema`, `iotrail-host`, `iotrail-stats`, `iotrail-load`.

pub mod address;
pub mod control;
pub mod descriptors;
pub mod namespace;
mod netlink;
pub mod options;
pub mod sender;
pub mod server;
pub mod wire;
