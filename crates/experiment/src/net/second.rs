//! A server on the second node of a `net bench --slurm` job, run by a job step; it exits when its input is closed.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

use iotrail_base::error::{Error, Kind, OrFail, Result};
use iotrail_slurm::pair;

/// Data that the batch script's process passes to the measuring process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Second {
    /// Name or address of the server's node.
    pub address: String,
    /// Path of iotrail on that node, or a name in PATH.
    pub program: PathBuf,
}

/// An environment variable, because the node is not part of the plan.
pub const VARIABLE: &str = "IOTRAIL_SECOND_NODE";

/// The server's node or job step was lost, so the parent process can resume the run.
pub fn lost(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Kind::Lost, "the server's node or its job step is lost", "").because(why)
}

/// The address at which the server is reachable.
pub struct Server {
    at: IpAddr,
    program: PathBuf,
}

impl Server {
    /// The node that `--slurm` assigned.
    pub fn named() -> Result<Self> {
        let said = std::env::var(VARIABLE).ok().and_then(|text| serde_json::from_str::<Second>(&text).ok());
        let Second { address, program } = said.or_input(
            "with `between = hosts`, the server runs on another node, where --slurm starts it",
            "add --slurm, or run `iotrail net serve` there and `iotrail net load` here",
        )?;
        let mut found = (address.as_str(), 0).to_socket_addrs().or_machine(
            format_args!("cannot find the server's node as {address}"),
            "name its address: --server-address",
        )?;
        let at = found.next().map(|at| at.ip());
        let at = at.or_machine(format_args!("{address} has no address"), "add --server-address")?;
        Ok(Self { at, program })
    }

    /// The kernel chooses the port.
    pub fn listen_at(&self) -> String {
        SocketAddr::new(self.at, 0).to_string()
    }

    pub fn command(&self, words: &[String]) -> Command {
        pair::step(&pair::while_input(&self.program, words))
    }
}
