//! The server's node, in a job with two nodes.

use serde::{Deserialize, Serialize};

use super::Served;
use iotrail_base::error::{Error, Result};
use iotrail_base::words::plural;
use iotrail_slurm::nodes::{self, Wanted};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// The node's name in Slurm.
    pub node: String,
    /// The address at which the other node reaches it.
    pub address: String,
}

impl Second {
    /// Both nodes, in the notation of --nodes.
    pub fn called(&self, sender: &str) -> String {
        format!("{},{sender}", self.node)
    }

    pub fn roles(&self, sender: &str) -> String {
        format!("2 nodes (server {}, sender {sender})", self.node)
    }
}

/// The sender's node, and the server's, which is specified first.
pub fn of_two(wanted: &Wanted, served: &Served, more: &[String]) -> Result<(String, Second)> {
    let names = nodes::resolve(wanted, more)?;
    let [node, sender] = &names[..] else {
        return Err(Error::input(
            format!("a server and a sender need two nodes, but this is {}", plural(names.len(), "node")),
            "specify the server's node, then the sender's (--nodes n1,n2), or omit --nodes",
        ));
    };
    let all = nodes::all().map_err(|f| f.error("cannot read the nodes"))?;
    for name in &names {
        match all.get(name).map(nodes::Node::unusable) {
            None => {
                return Err(Error::input(format!("Slurm has no node {name}"), "`sinfo -N` lists the nodes"));
            }
            Some(Some(why)) => {
                let what = format!("{name} cannot be used now: Slurm reports it as {why}");
                return Err(Error::machine(what, "specify another node, or see `sinfo -N -l`"));
            }
            Some(None) => {}
        }
    }
    let known = || nodes::address(node).map_err(|f| f.error(&format!("cannot read the address of {node}")));
    let address = served.address.clone().map_or_else(known, Ok)?;
    Ok((sender.clone(), Second { node: node.clone(), address }))
}
