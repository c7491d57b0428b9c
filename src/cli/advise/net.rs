//! `iotrail advise net`: the best valid configuration of iotrail's server for a described load.

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::{SearchArgs, as_given, searched_for, takes};
use crate::cli::on_the_command_line;
use iotrail_answer::compare::Metric;
use iotrail_base::error::{Error, Result};
use iotrail_experiment::advise::net::of_net;
use iotrail_experiment::advise::subject::Subject;
use iotrail_experiment::given::OptionValues;
use iotrail_experiment::load::{Kind, Load};
use iotrail_net::options::NetOptions;
use iotrail_schema::search_record::SearchRecord;

/// A load's default options.
const RUNTIME: &str = "400ms";
const WARMUP: &str = "100ms";

#[derive(Debug)]
pub(super) struct NetArgs {
    /// The load's options.
    given: Vec<OptionValues>,
    pub(super) search: SearchArgs,
}

impl NetArgs {
    pub(super) fn of(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = on_the_command_line(NetOptions::augment_args(Command::new("load")), matches);
        Ok(Self { given, search: SearchArgs::from_arg_matches(matches)? })
    }
}

pub(super) fn command() -> Command {
    let objective = "Optimise this metric: iops (requests per second), p50, p99, p99.9, mean, or cpu (the server's CPU time per request). Two, separated by a comma: find the configurations that no other beats in both (default: iops)";
    let own = SearchArgs::augment_args(Command::new("net")).mut_arg("objective", |arg| arg.help(objective));
    let load = NetOptions::augment_args(own.next_help_heading("Server and load")).next_help_heading(None::<&str>);
    // advise itself decides which runs are traced.
    let load = load.mut_arg("trace", |arg| arg.hide(true));
    load.about("Find the best legal configuration of `net serve` for a network load, and confirm it").after_help(
        "The server's options are the current configuration. The sender's options do not change. Examples:
  iotrail advise net --connections 64 --objective cpu
  iotrail advise net --engine epoll --window 4 --constraint 'p99<2ms'
  iotrail advise net --server-cpus 0 --sender-cpus 1 --plan",
    )
}

pub(super) fn subject(args: &NetArgs) -> Result<Subject> {
    let mut load = as_given(Kind::Net, &args.given)?;
    let base = NetOptions::from_table(load.clone())
        .map_err(|e| Error::input(e.message().to_owned(), "see `iotrail advise net --help`"))?;
    let online = iotrail_host::cpu::online()?;
    // The current configuration must be runnable, because all candidates are compared with it.
    Load::Net(base.clone()).check(None, &online)?;
    let (proposed, left_out) = of_net(&base, &load, &online);
    takes(&mut load, RUNTIME, WARMUP);
    let always = [Metric::Iops, Metric::LatencyP99, Metric::CpuPerIo];
    let (search, metrics) = searched_for(&args.search, "iops", &[], &always, Metric::CpuPerIo)?;
    Ok(Subject::new(Kind::Net, load, proposed, SearchRecord { left_out, ..search }, metrics))
}
