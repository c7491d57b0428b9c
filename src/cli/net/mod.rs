//! `iotrail net`: network loads, with a server, a sender, or both.

mod bench;
mod load;
mod serve;

use clap::{Args, Subcommand};

use iotrail_base::error::Result;

#[derive(Debug, Args)]
pub struct NetArgs {
    #[command(subcommand)]
    command: NetCommand,
}

#[derive(Debug, Subcommand)]
enum NetCommand {
    /// Serve requests with epoll or io_uring, and print statistics every second
    Serve(Box<serve::ServeArgs>),
    /// Send requests to a server, verify every response, and measure both sides
    Load(Box<load::LoadArgs>),
    /// Measure a server and a sender, here or on two cluster nodes: once, or as an experiment if options have several values
    Bench(Box<bench::BenchArgs>),
}

pub fn run(args: &NetArgs) -> Result<u8> {
    match &args.command {
        NetCommand::Serve(args) => serve::run(args),
        NetCommand::Load(args) => load::run(args),
        NetCommand::Bench(args) => bench::run(args),
    }
}
