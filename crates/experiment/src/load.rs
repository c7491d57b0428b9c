//! The load of a cell: storage, network, or a program. An experiment has a single kind.

use std::ffi::OsString;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;
use toml::{Table, Value};

use super::program::options::{NAMES, ProgramOptions, from_table};
use super::program::ready::Ready;
use super::program::run::cpus_named;
use iotrail_base::error::{Error, Result};
use iotrail_base::units::Span;
use iotrail_load::cpus;
use iotrail_load::options::{LoadOptions, names_of};
use iotrail_load::spec::LoadSpec;
use iotrail_net::options::{Between, NetOptions, ServerOptions};
use iotrail_net::sender::spec::SenderSpec;
use iotrail_net::server::spec::ServerSpec;
use iotrail_schema::measurement::Target;
use iotrail_watch::command;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Storage,
    Net,
    /// A user's program.
    Program,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    Storage(LoadOptions),
    Net(NetOptions),
    Program(Box<ProgramOptions>),
}

/// How a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    After(Duration),
    /// After a number of I/Os or requests.
    AtCount(u64),
    /// The load ends by itself.
    ByItself,
}

impl Kind {
    /// Names of the load's options.
    pub fn option_names(self) -> &'static [String] {
        static STORAGE: LazyLock<Vec<String>> = LazyLock::new(names_of::<LoadOptions>);
        static NET: LazyLock<Vec<String>> = LazyLock::new(names_of::<NetOptions>);
        static PROGRAM: LazyLock<Vec<String>> = LazyLock::new(|| NAMES.map(str::to_owned).to_vec());
        match self {
            Kind::Storage => &STORAGE,
            Kind::Net => &NET,
            Kind::Program => &PROGRAM,
        }
    }

    /// The remedy for errors in an experiment's text.
    pub fn remedy(self) -> &'static str {
        match self {
            Kind::Storage => "docs/formats.md describes the experiment file, `iotrail bench --help` the load's options",
            Kind::Net => "docs/formats.md describes the experiment file, `iotrail net bench --help` the load's options",
            Kind::Program => {
                "docs/formats.md describes the experiment file, `iotrail try --help` the program's options"
            }
        }
    }

    /// Turns options into a load, with defaults. Fails if options are incompatible.
    pub fn load(self, options: Table) -> std::result::Result<Load, String> {
        if options.contains_key("runtime") && options.contains_key("count") {
            return Err("'runtime' and 'count' cannot be combined: a load ends by time or by number of I/Os".into());
        }
        let set = |name: &str| options.get(name) == Some(&Value::Boolean(true));
        if set("direct") && set("buffered") {
            return Err("'direct' and 'buffered' cannot be combined".into());
        }
        let load = match self {
            Kind::Program => return from_table(options).map(|o| Load::Program(Box::new(o))),
            Kind::Storage => LoadOptions::deserialize(Value::Table(options)).map(Load::Storage),
            Kind::Net => NetOptions::from_table(options).map(Load::Net),
        };
        load.map_err(|e| e.message().to_owned())
    }
}

impl Load {
    /// The options of a storage load.
    pub fn storage(&self) -> Option<&LoadOptions> {
        match self {
            Load::Storage(load) => Some(load),
            Load::Net(_) | Load::Program(_) => None,
        }
    }

    /// Checks by the load's rules whether it can run on this machine.
    pub fn check(&self, target: Option<&Target>, online_cpus: &[u32]) -> Result<()> {
        match self {
            Load::Storage(load) => LoadSpec::resolve(load, target, online_cpus).map(drop),
            Load::Net(net) => {
                // The CPUs of another machine are checked there.
                let is_here = net.between != Between::Hosts;
                let server_cpus = net.server.server_cpus.clone().filter(|_| is_here);
                ServerSpec::resolve(&ServerOptions { server_cpus, ..net.server.clone() }, online_cpus)?;
                SenderSpec::resolve(&net.sender, online_cpus).map(drop)
            }
            Load::Program(program) => {
                program.replayed.check()?;
                for argv in [&program.argv[..], program.subject()] {
                    command::find(&argv.iter().map(OsString::from).collect::<Vec<_>>())?;
                }
                if program.server.as_ref().is_some_and(|server| server.ready == Ready::Port(0)) {
                    return Err(Error::input(
                        "the condition for a ready server is missing",
                        "add ready: port:N, file:PATH or log:REGEX",
                    ));
                }
                program.change.sq_cpu.map_or(Ok(()), |cpu| cpus::online(cpu, online_cpus, "sq-cpu"))?;
                program.cpus.as_deref().map(cpus_named).transpose().map(drop)
            }
        }
    }

    pub fn warmup(&self) -> Duration {
        match self {
            Load::Storage(load) => load.warmup.0,
            Load::Net(net) => net.sender.warmup.0,
            Load::Program(_) => Duration::ZERO,
        }
    }

    pub fn ends(&self) -> Ends {
        let (count, runtime) = match self {
            Load::Storage(load) => (load.count, load.runtime),
            Load::Net(net) => (net.sender.count, net.sender.runtime),
            Load::Program(_) => return Ends::ByItself,
        };
        // The default duration of a load is 5 s.
        count.map_or(Ends::After(runtime.map_or(Duration::from_secs(5), |Span(time)| time)), Ends::AtCount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_net::options::ServerEngine;

    #[test]
    fn a_net_load_accepts_the_options_of_both_sides_and_of_the_link() {
        let text = "engine = \"epoll\"\nserver-cpus = \"0\"\nconnections = 64\nbetween = \"unix\"\ncount = 9";
        let load = Kind::Net.load(toml::from_str(text).unwrap()).unwrap();
        let Load::Net(net) = &load else { panic!("{load:?}") };
        assert_eq!((net.server.engine, net.sender.connections), (ServerEngine::Epoll, 64));
        assert_eq!(
            (net.between, load.ends(), load.warmup()),
            (Between::Unix, Ends::AtCount(9), Duration::from_millis(500))
        );
        let refused = |text: &str| Kind::Net.load(toml::from_str(text).unwrap()).unwrap_err();
        assert!(refused("depth = 4").contains("depth"));
        assert!(refused("runtime = \"1s\"\ncount = 3").contains("cannot be combined"));
        let names = Kind::Net.option_names();
        assert!(["engine", "window", "between", "trace"].iter().all(|n| names.contains(&(*n).to_owned())), "{names:?}");
    }
}
