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
    /// Serve requests through epoll or io_uring; print what it does each second
    Serve(Box<serve::ServeArgs>),
    /// Send requests to a server, check every answer; measure both sides
    Load(Box<load::LoadArgs>),
    /// Measure a server and a sender, here or on two nodes of a cluster: once, or as an experiment where options have several values
    Bench(Box<bench::BenchArgs>),
}

pub fn run(args: &NetArgs) -> Result<u8> {
    match &args.command {
        NetCommand::Serve(args) => serve::run(args),
        NetCommand::Load(args) => load::run(args),
        NetCommand::Bench(args) => bench::run(args),
    }
}
