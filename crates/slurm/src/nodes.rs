//! Nodes: those that are named, those that Slurm chooses, and how they are.

use std::collections::BTreeMap;

use super::command::{Failure, ask, ask_with};
use super::state::value;
use iotrail_base::error::{Error, Result};

/// Which nodes run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Slurm's own notation: `n[1-3],m7`.
    Named(String),
    /// So many, of those with these features.
    Count { count: u32, constraint: Option<String> },
}

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `idle`, `allocated*`, `down*`, as sinfo has it.
    pub state: String,
    /// Why it is down or drained, if that is said.
    pub reason: Option<String>,
}

impl Node {
    /// Nothing starts on it before somebody has seen to it; why.
    pub fn unusable(&self) -> Option<String> {
        let state = self.state.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        let is_out = ["down", "drained", "draining", "drain", "fail", "failing", "error", "unknown"].contains(&state);
        is_out.then(|| match &self.reason {
            Some(reason) => format!("{state}: {reason}"),
            None => state.to_owned(),
        })
    }

    /// It waits for work.
    pub fn is_idle(&self) -> bool {
        self.state == "idle"
    }
}

/// The nodes that are wanted, by name, each once.
pub fn resolve(wanted: &Wanted, more: &[String]) -> Result<Vec<String>> {
    match wanted {
        Wanted::Named(list) => {
            let text = ask("scontrol", ["show", "hostnames", list]).map_err(|f| f.error("cannot read --nodes"))?;
            let nodes: Vec<String> = text.lines().map(str::to_owned).collect();
            if let Some((_, twice)) = nodes.iter().enumerate().find(|(i, node)| nodes[..*i].contains(node)) {
                return Err(Error::input(format!("--nodes has {twice} twice"), "name each node once"));
            }
            Ok(nodes)
        }
        Wanted::Count { count, constraint } => chosen(*count, constraint.as_deref(), more),
    }
}

/// Those that Slurm would give to one job of so many nodes.
fn chosen(count: u32, constraint: Option<&str>, more: &[String]) -> Result<Vec<String>> {
    let mut args = vec!["--test-only".to_owned(), "--exclusive".into(), format!("--nodes={count}-{count}")];
    args.extend(constraint.map(|features| format!("--constraint={features}")));
    args.extend_from_slice(more);
    let (_, said) = ask_with("sbatch", args, "#!/bin/sh\n").map_err(|failure| match failure {
        Failure::Failed(said) => {
            let of = constraint.map_or_else(String::new, |features| format!(" with the features {features}"));
            Error::machine(
                format!("Slurm cannot give {count} nodes{of}"),
                "ask for fewer, or others: `sinfo -N -l` lists them",
            )
            .because(said)
        }
        other => other.error("cannot choose nodes"),
    })?;
    let list = tested(&said).ok_or_else(|| {
        Error::machine("cannot tell which nodes Slurm would give", "name them with --nodes")
            .because(said.trim().to_owned())
    })?;
    resolve(&Wanted::Named(list), more)
}

/// `sbatch: Job 1 to start at 2026-11-25T02:50:29 using 6 processors on nodes n[1-3] in partition all`.
fn tested(said: &str) -> Option<String> {
    let (_, rest) = said.split_once(" on nodes ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// Where others reach a node, as Slurm does.
pub fn address(node: &str) -> std::result::Result<String, Failure> {
    ask("scontrol", ["--oneliner", "show", "node", node]).map(|text| reached_at(&text).unwrap_or(node).to_owned())
}

/// `NodeName=n1 … NodeAddr=10.0.0.1 NodeHostName=n1 …`.
fn reached_at(text: &str) -> Option<&str> {
    value(text, "NodeAddr").or_else(|| value(text, "NodeHostName"))
}

/// Every node by its name.
pub fn all() -> std::result::Result<BTreeMap<String, Node>, Failure> {
    // Also those of partitions that are hidden.
    ask("sinfo", ["--noheader", "--Node", "--all", "--format=%N|%T|%E"]).map(|text| read(&text))
}

/// A node in several partitions has several lines.
fn read(text: &str) -> BTreeMap<String, Node> {
    let node = |line: &str| {
        let mut fields = line.splitn(3, '|').map(str::trim);
        let (name, state) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let reason = fields.next().filter(|reason| !["", "none"].contains(reason)).map(str::to_owned);
        Some((name, Node { state, reason }))
    };
    text.lines().filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slurm 22.05.8, `n3` killed.
    const SINFO: &str =
        "n1|allocated|none\nn2|idle|none\nn3|down*|Not responding\nn4|drained|the disk | is changed\nn2|idle|none\n";

    #[test]
    fn nodes_are_read_with_what_is_wrong_with_them() {
        let nodes = read(SINFO);
        assert_eq!(nodes.keys().collect::<Vec<_>>(), ["n1", "n2", "n3", "n4"]);
        let unusable: Vec<Option<String>> = nodes.values().map(Node::unusable).collect();
        assert_eq!(
            unusable,
            [None, None, Some("down: Not responding".into()), Some("drained: the disk | is changed".into())]
        );
        assert_eq!(nodes.values().filter(|n| n.is_idle()).count(), 1);
        assert_eq!(Node { state: "allocated*".into(), reason: None }.unusable(), None, "it may answer again");
    }

    #[test]
    fn a_node_is_reached_at_its_address() {
        let text = "NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=vm Version=22.05.8";
        assert_eq!(
            (reached_at(text), reached_at("NodeName=n1 NodeHostName=vm"), reached_at("")),
            (Some("10.0.0.1"), Some("vm"), None)
        );
    }

    #[test]
    fn a_tried_submission_names_its_nodes() {
        let said =
            "sbatch: Job 1 to start at 2026-11-25T02:50:29 using 6 processors on nodes n[1-3] in partition all\n";
        assert_eq!(tested(said).as_deref(), Some("n[1-3]"));
        assert_eq!(tested("allocation failure: Requested node configuration is not available"), None);
    }
}
