//! `iotrail net`: the network load: a server, a sender.

mod load;
mod serve;

use clap::{Args, Subcommand};

use crate::error::Result;

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
}

pub fn run(args: &NetArgs) -> Result<u8> {
    match &args.command {
        NetCommand::Serve(args) => serve::run(args),
        NetCommand::Load(args) => load::run(args),
    }
}
