//! `iotrail net`: the network load: a server, a sender, both.

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
    /// A server that answers requests, through epoll or io_uring: what it does each second, and what a sender measures with it
    Serve(Box<serve::ServeArgs>),
    /// Send requests to a server, check every answer: requests a second, latency, and the server's side beside it
    Load(Box<load::LoadArgs>),
    /// Both ends on this machine: one measurement, or an experiment where options have several values
    Bench(Box<bench::BenchArgs>),
}

pub fn run(args: &NetArgs) -> Result<u8> {
    match &args.command {
        NetCommand::Serve(args) => serve::run(args),
        NetCommand::Load(args) => load::run(args),
        NetCommand::Bench(args) => bench::run(args),
    }
}
