//! Nodes: specified by name or chosen by Slurm, with their states.

use std::collections::BTreeMap;

use super::command::{Failure, ask, ask_with};
use super::state::value;
use iotrail_base::error::{Error, Result};
use iotrail_base::plain::sanitise;
use iotrail_base::words::last_line;

/// The requested nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// In Slurm's notation: `n[1-3],m7`.
    Named(String),
    /// This many nodes, with these features.
    Count { count: u32, constraint: Option<String> },
}

/// States of sinfo(1) in which a node starts no job until an administrator intervenes. All others are busy or
/// temporary: a node that is powered down or booting is woken for a job, `maint` and `reserved` end with the
/// reservation, and `unknown` ends when the node responds.
const OUT: [&str; 9] = ["down", "drained", "draining", "drain", "fail", "failing", "error", "inval", "future"];

/// A node's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `idle`, `allocated*`, `down*`, as printed by sinfo.
    pub state: String,
    /// Why it is down or drained, if known.
    pub reason: Option<String>,
}

impl Node {
    /// The reason why the node starts no job until an administrator intervenes.
    pub fn unusable(&self) -> Option<String> {
        let state = self.state.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        OUT.contains(&state).then(|| match &self.reason {
            Some(reason) => format!("{state}: {reason}"),
            None => state.to_owned(),
        })
    }

    /// Whether the node has no work.
    pub fn is_idle(&self) -> bool {
        self.state == "idle"
    }
}

/// Names of the requested nodes, without duplicates.
pub fn resolve(wanted: &Wanted, more: &[String]) -> Result<Vec<String>> {
    match wanted {
        Wanted::Named(list) => {
            let cannot = || format!("cannot read --nodes '{list}'");
            let read = ask_with("scontrol", ["show", "hostnames", list], "").map_err(|f| f.error(&cannot()))?;
            let nodes = hostnames(&read.0, &read.1)
                .map_err(|why| Error::input(cannot(), "use Slurm's syntax: n[1-4],m7").because(why))?;
            if let Some((_, twice)) = nodes.iter().enumerate().find(|(i, node)| nodes[..*i].contains(node)) {
                return Err(Error::input(format!("--nodes lists {twice} twice"), "list each node once"));
            }
            Ok(nodes)
        }
        Wanted::Count { count, constraint } => chosen(*count, constraint.as_deref(), more),
    }
}

/// Expands a list with scontrol. If scontrol cannot parse the list, it prints a message but exits with status 0.
fn hostnames(printed: &str, said: &str) -> std::result::Result<Vec<String>, String> {
    if let Some(said) = last_line(said) {
        return Err(said);
    }
    let nodes: Vec<String> = printed.lines().map(|line| line.trim().to_owned()).filter(|n| !n.is_empty()).collect();
    if nodes.is_empty() { Err("it contains no node".into()) } else { Ok(nodes) }
}

/// The nodes that Slurm would allocate to a job of this size.
fn chosen(count: u32, constraint: Option<&str>, more: &[String]) -> Result<Vec<String>> {
    let mut args = vec!["--test-only".to_owned(), "--exclusive".into(), format!("--nodes={count}-{count}")];
    args.extend(constraint.map(|features| format!("--constraint={features}")));
    args.extend_from_slice(more);
    let (_, said) = ask_with("sbatch", args, "#!/bin/sh\n").map_err(|failure| match failure {
        Failure::Failed(said) if is_away(&said) => Failure::Failed(said).error("cannot choose nodes"),
        Failure::Failed(said) => {
            let of = constraint.map_or_else(String::new, |features| format!(" with the features {features}"));
            Error::machine(
                format!("Slurm cannot allocate {count} nodes{of}"),
                "request fewer or other nodes; `sinfo -N -l` lists them",
            )
            .because(said)
        }
        other => other.error("cannot choose nodes"),
    })?;
    let list = tested(&said).ok_or_else(|| {
        Error::machine("cannot determine which nodes Slurm would allocate", "specify them with --nodes")
            .because(said.trim().to_owned())
    })?;
    resolve(&Wanted::Named(list), more)
}

/// Whether the message concerns the controller instead of the nodes.
fn is_away(said: &str) -> bool {
    ["Unable to contact slurm controller", "Socket timed out", "Protocol authentication error"]
        .iter()
        .any(|words| said.contains(words))
}

/// `sbatch: Job 1 to start at 2026-11-25T02:50:29 using 6 processors on nodes n[1-3] in partition all`.
fn tested(said: &str) -> Option<String> {
    let (_, rest) = said.split_once(" on nodes ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// A node's address for other nodes, as used by Slurm.
pub fn address(node: &str) -> std::result::Result<String, Failure> {
    ask("scontrol", ["--oneliner", "show", "node", node]).map(|text| reached_at(&text).unwrap_or(node).to_owned())
}

/// `NodeName=n1 … NodeAddr=10.0.0.1 NodeHostName=n1 …`.
fn reached_at(text: &str) -> Option<&str> {
    value(text, "NodeAddr").or_else(|| value(text, "NodeHostName"))
}

/// All nodes by name.
pub fn all() -> std::result::Result<BTreeMap<String, Node>, Failure> {
    // Includes nodes of hidden partitions.
    ask("sinfo", ["--noheader", "--Node", "--all", "--format=%N|%T|%E"]).map(|text| read(&text))
}

/// A node in several partitions has several lines.
fn read(text: &str) -> BTreeMap<String, Node> {
    let node = |line: &str| {
        let mut fields = line.splitn(3, '|').map(str::trim);
        let (name, state) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let reason = fields.next().filter(|reason| !["", "none"].contains(reason)).map(sanitise);
        Some((name, Node { state, reason }))
    };
    text.lines().filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slurm 22.05.8; `n3` was killed.
    const SINFO: &str =
        "n1|allocated|none\nn2|idle|none\nn3|down*|Not responding\nn4|drained|the disk | is changed\nn2|idle|none\n";

    #[test]
    fn nodes_are_parsed_with_their_problems() {
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

    /// All states documented for Slurm 22.05 to 25.05, with their suffixes.
    #[test]
    fn all_documented_node_states_are_classified() {
        let is_out = |state: &str| Node { state: state.into(), reason: None }.unusable().is_some();
        for state in ["down", "down*", "down$", "drained", "drained*", "draining@", "drain", "fail", "failing", "error"]
        {
            assert!(is_out(state), "{state}");
        }
        assert!(is_out("inval") && is_out("inval*") && is_out("future"));
        for state in [
            "allocated",
            "allocated+",
            "allocated*",
            "blocked",
            "completing",
            "idle",
            "idle*",
            "idle~",
            "idle#",
            "maint",
            "mixed-",
            "perfctrs",
            "npc",
            "planned",
            "power_down",
            "power_up",
            "powered_down",
            "powering_down%",
            "powering_up",
            "reboot",
            "reboot^",
            "reboot_issued",
            "reboot_requested",
            "reserved",
            "unknown",
            "unknown*",
        ] {
            assert!(!is_out(state), "{state}");
        }
    }

    #[test]
    fn an_invalid_node_list_is_rejected() {
        assert_eq!(hostnames("n1\nn2\n", ""), Ok(vec!["n1".to_owned(), "n2".into()]));
        assert_eq!(hostnames("", "Invalid hostlist: rack-[a,b]\n"), Err("Invalid hostlist: rack-[a,b]".into()));
        assert_eq!(hostnames("n1\n", "Invalid hostlist: n1]\n"), Err("Invalid hostlist: n1]".into()));
        for blank in ["", " \n"] {
            assert_eq!(hostnames(blank, ""), Err("it contains no node".into()));
        }
        assert!(is_away("allocation failure: Unable to contact slurm controller (connect failure)"));
        assert!(!is_away("allocation failure: Requested node configuration is not available"));
    }

    #[test]
    fn a_node_reason_cannot_control_the_terminal() {
        let nodes = read("n1|drained|\u{1b}[31mred\n");
        assert_eq!(nodes["n1"].unusable().as_deref(), Some("drained: \\u{1b}[31mred"));
    }

    #[test]
    fn the_address_of_a_node_is_its_node_addr() {
        let text = "NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=vm Version=22.05.8";
        assert_eq!(
            (reached_at(text), reached_at("NodeName=n1 NodeHostName=vm"), reached_at("")),
            (Some("10.0.0.1"), Some("vm"), None)
        );
    }

    #[test]
    fn the_nodes_of_a_test_submission_are_parsed() {
        let said =
            "sbatch: Job 1 to start at 2026-11-25T02:50:29 using 6 processors on nodes n[1-3] in partition all\n";
        assert_eq!(tested(said).as_deref(), Some("n[1-3]"));
        assert_eq!(tested("allocation failure: Requested node configuration is not available"), None);
    }
}
