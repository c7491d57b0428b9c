//! The server on the second node of a job that `net bench --slurm` made: a step starts it, and it ends with its input.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

use iotrail_base::error::{Error, Kind, Result};
use iotrail_slurm::pair;

/// What the process of the batch script tells the one that measures.
#[derive(Debug, Serialize, Deserialize)]
pub struct Second {
    /// Of the server's node: a name or a number.
    pub address: String,
    /// Of this name there, or in PATH.
    pub program: PathBuf,
}

/// An environment variable, since it is no part of the plan.
pub const VARIABLE: &str = "IOTRAIL_SECOND_NODE";

/// The server's node, or its step, is gone: the process that started this one may begin again where the run was.
pub fn lost(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Kind::Lost, "the server's node or its job step is lost", "").because(why)
}

/// It can be reached at this address.
pub struct Server {
    at: IpAddr,
    program: PathBuf,
}

impl Server {
    /// Where `--slurm` says that it is to be.
    pub fn named() -> Result<Self> {
        let said = std::env::var(VARIABLE).ok().and_then(|text| serde_json::from_str::<Second>(&text).ok());
        let Second { address, program } = said.ok_or_else(|| {
            Error::input(
                "between hosts the server is on another node, and --slurm starts it there",
                "add --slurm, or run `iotrail net serve` there and `iotrail net load` here",
            )
        })?;
        let mut found = (address.as_str(), 0).to_socket_addrs().map_err(|e| {
            Error::machine(format!("cannot find the server's node as {address}"), "name its address: --server-address")
                .because(e)
        })?;
        let at = found.next().map(|at| at.ip());
        let at = at.ok_or_else(|| Error::machine(format!("{address} has no address"), "add --server-address"))?;
        Ok(Self { at, program })
    }

    /// With a port that the kernel there chooses.
    pub fn listen_at(&self) -> String {
        SocketAddr::new(self.at, 0).to_string()
    }

    pub fn command(&self, words: &[String]) -> Command {
        pair::step(&pair::while_input(&self.program, words))
    }
}
