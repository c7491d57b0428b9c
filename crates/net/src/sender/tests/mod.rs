//! Tests the sender against iotrail's server, whose counts are known, and against faulty servers.

mod faults;
mod options;
mod paces;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;
use crate::options::{SenderOptions, ServerEngine, ServerOptions};
use crate::server::Server;
use crate::server::spec::ServerSpec;
use iotrail_base::units::Span;
use iotrail_schema::net_record::Counts;

static NOT_STOPPED: AtomicBool = AtomicBool::new(false);

/// 1,000 requests and a short warm-up, on four connections.
fn options() -> SenderOptions {
    SenderOptions {
        count: Some(1000),
        warmup: Span(Duration::from_millis(10)),
        // Long enough for a busy machine.
        give_up: Span(Duration::from_secs(60)),
        ..SenderOptions::default()
    }
}

fn spec(options: &SenderOptions) -> SenderSpec {
    SenderSpec::resolve(options, &[0]).unwrap()
}

fn server(at: &str) -> Server {
    let options = ServerOptions { engine: ServerEngine::Epoll, server_threads: Some(2), ..ServerOptions::default() };
    Server::start(ServerSpec::resolve(&options, &[0]).unwrap(), &at.parse().unwrap()).unwrap()
}

fn send(options: &SenderOptions, address: &Address) -> Result<Sent> {
    run(&spec(options), address, &mut |_| Ok(()), &mut |_| {}, &NOT_STOPPED)
}

/// The sender's record, and the server's counts between the two quiet points.
fn both(options: &SenderOptions, server: &Server) -> (Sent, Counts) {
    let mut looks = vec![];
    let sent = run(
        &spec(options),
        server.address(),
        &mut |at| {
            if at != Boundary::Ready {
                looks.push(server.look());
            }
            Ok(())
        },
        &mut |_| {},
        &NOT_STOPPED,
    )
    .unwrap_or_else(|e| panic!("{options:?}: {e}"));
    let [begin, end] = &looks[..] else { panic!("two quiet points") };
    (sent, end.since(begin).1.counts)
}
