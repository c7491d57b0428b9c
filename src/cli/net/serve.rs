//! `iotrail net serve`: runs the server.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;

use crate::cli::duration;
use iotrail_base::error::{Error, Result};
use iotrail_base::{interrupt, ourselves};
use iotrail_experiment::net::ends::Announced;
use iotrail_experiment::net::served::{self, Options, ServeNews};
use iotrail_load::options::Trace;
use iotrail_net::address::Address;
use iotrail_net::control::Place;
use iotrail_net::control::host::Host;
use iotrail_net::descriptors;
use iotrail_net::options::ServerOptions;
use iotrail_net::server::Server;
use iotrail_net::server::spec::ServerSpec;
use iotrail_report::terminal::{self, Seconds};

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on: 127.0.0.1:7000, [::1]:7000, unix:PATH; with port 0, the kernel chooses a port
    #[arg(value_name = "ADDRESS")]
    address: Address,

    #[command(flatten)]
    server: ServerOptions,

    /// Control address, where senders agree on the measurement, or none (default: the next port, or PATH.control)
    #[arg(long, value_name = "ADDRESS")]
    control: Option<Place>,

    /// Trace the measured intervals with the probes: if they can be loaded, always, or never
    #[arg(long, value_enum, default_value_t = Trace::Auto)]
    trace: Trace,

    /// Trace 1 in N io_uring requests end to end, chosen at random (1: all): delivery delays, completion order
    #[arg(long, value_name = "N")]
    follow: Option<NonZeroU32>,

    /// Serve for this time (seconds, or 500ms, 2m; default: until Ctrl-C)
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = duration)]
    duration: Option<Duration>,

    /// Print only the address, as JSON, for the process that started the server
    #[arg(long, hide = true)]
    announce: bool,

    /// Print a summary as JSON at exit; the per-second lines go to standard error
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ServeArgs) -> Result<u8> {
    let spec = ServerSpec::resolve(&args.server, &iotrail_host::cpu::online()?)?;
    descriptors::raise()?;
    // Must precede the creation of anything that a signal would leave behind.
    let stop = interrupt::raise_flag()?;
    let server = Server::start(spec, &args.address)?;
    let control =
        args.control.clone().unwrap_or_default().of(server.address())?.map(|at| Host::listen(&at)).transpose()?;
    let beside = control.as_ref().map_or(String::new(), |host| format!(", control at {}", host.address()));
    match (args.announce, &control) {
        (true, Some(host)) => {
            let (address, control) = (server.address().to_string(), host.address().to_string());
            terminal::print(&format!("{}\n", serde_json::json!(Announced { address, control })))?;
        }
        _ => terminal::say(&format!("iotrail: serving at {}{beside}; Ctrl-C ends it", server.address())),
    }
    let mut seconds = Seconds::new(server.spec().threads, args.json);
    let mut tell = |told: ServeNews<'_>| match told {
        ServeNews::Second(..) if args.announce => {}
        ServeNews::Second(counts, connections) => seconds.tell(counts, connections),
        ServeNews::Message(what) if args.announce => ourselves::report(None, Some(Error::machine(what, ""))),
        ServeNews::Message(what) => terminal::say(&format!("iotrail: {what}")),
    };
    let how = Options { trace: args.trace, follow: args.follow.map(NonZeroU32::get), duration: args.duration };
    let record = served::serve(&server, control, how, &mut tell, stop)?;
    match args.json {
        _ if args.announce => {}
        true => terminal::print_json(&record)?,
        false => terminal::show(&terminal::served(&record))?,
    }
    Ok(0)
}
