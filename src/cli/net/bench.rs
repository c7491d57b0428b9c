//! `iotrail net bench`: a server and a sender, both on this machine.
//!
//! With one value for each option it is one measurement, as `net load` makes it; with several for some it is an experiment, run and
//! compared as `run` does.

use std::path::PathBuf;

use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::cli::on_the_command_line;
use crate::cli::run::measured::{self, Shown};
use crate::cli::run::outline;
use crate::experiment::cell::Measured;
use crate::experiment::given::{Given, SENDER_LISTS, SERVER_LISTS, net_experiment};
use crate::experiment::load::Load;
use crate::experiment::net::ends::Ends;
use crate::experiment::plan::{Facts, Plan, Target, plan};
use crate::experiment::schedule::fresh_seed;
use iotrail_base::error::{Error, Result};
use iotrail_base::interrupt;
use iotrail_net::options::NetOptions;
use iotrail_report::terminal;
use iotrail_schema::measurement::Measurement;
use iotrail_store::Store;

/// Blocks of an experiment, where nothing is said.
const REPEATS: u32 = 5;
const QUICK_REPEATS: u32 = 4;
/// What `--quick` takes for what is not given.
const QUICK: [(&str, &str); 2] = [("runtime", "500ms"), ("warmup", "100ms")];

#[derive(Debug)]
pub struct BenchArgs {
    /// What was given of the load, and nothing else of it.
    given: Vec<Given>,
    run: RunArgs,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Measure each combination N times (default: 1 for one, 5 for several)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,

    /// Measure shorter and less often: 500 ms, 4 repeats
    #[arg(long)]
    quick: bool,

    /// Print the combinations, their order and the estimated time; run nothing
    #[arg(long)]
    plan: bool,

    /// Seed what is sent, and the order of several combinations (default: random; printed and stored)
    #[arg(long, value_name = "N")]
    seed: Option<u32>,

    /// Trace 1 in N of the server's io_uring requests end to end: delivery delays, order of completions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    follow: Option<u32>,

    /// Print JSON on standard output
    #[arg(long)]
    json: bool,

    /// Print everything, not the answer alone
    #[arg(long, conflicts_with = "json")]
    full: bool,

    /// Store the measurement here (several combinations are always stored; default: $XDG_STATE_HOME/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
}

impl Args for BenchArgs {
    fn augment_args(command: Command) -> Command {
        let several = |command: Command, name: &&str| {
            command.mut_arg(*name, |arg| {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                // The ring's flags are a list themselves.
                let (arg, how) = match *name {
                    "ring" => (arg, "given again: another set"),
                    _ => (arg.value_delimiter(','), "several: a list, or given again"),
                };
                arg.action(ArgAction::Append).help(format!("{help} ({how})"))
            })
        };
        let load = SERVER_LISTS.iter().chain(&SENDER_LISTS).fold(NetOptions::augment_args(command), several);
        RunArgs::augment_args(load)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for BenchArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = on_the_command_line(NetOptions::augment_args(Command::new("load")), matches);
        Ok(Self { given, run: RunArgs::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub fn run(args: &BenchArgs) -> Result<u8> {
    let mut plan = planned(args)?;
    if args.run.plan {
        outline::show(&plan, args.run.seed.unwrap_or_else(fresh_seed), args.run.json)?;
        return Ok(0);
    }
    match (plan.cells.len(), plan.repeats) {
        (1, 1) => one(args, &plan),
        _ => several(args, &mut plan),
    }
}

fn planned(args: &BenchArgs) -> Result<Plan> {
    let mut given = args.given.clone();
    let has = |name: &str| args.given.iter().any(|g| g.name == name);
    for (name, value) in QUICK.iter().filter(|(name, _)| args.run.quick && !has(name)) {
        if *name != "runtime" || !has("count") {
            given.push(Given { name: (*name).into(), values: vec![(*value).into()] });
        }
    }
    let several = given.iter().any(|g| g.values.len() > 1);
    let repeats = args.run.repeats.unwrap_or(match (several, args.run.quick) {
        (false, _) => 1,
        (true, false) => REPEATS,
        (true, true) => QUICK_REPEATS,
    });
    let experiment = net_experiment(&given, repeats, args.run.follow)?;
    let facts = Facts { online_cpus: iotrail_host::cpu::online()?, below: &|_| None };
    plan(&experiment, false, &Target::default(), &facts, &|host, _| host.refusal(None))
}

fn one(args: &BenchArgs, plan: &Plan) -> Result<u8> {
    // A store that can't be written is found out before the load, not after it.
    let mut store = args.run.store.as_deref().map(Store::create_or_open).transpose()?;
    let measured = measure_one(plan, args.run.seed, store.as_mut());
    if let (Err(_), Some(store)) = (&measured, store) {
        store.abandon();
    }
    let measurement = measured?;
    match args.run.json {
        true => terminal::print_measurement(&measurement)?,
        false => terminal::show(&terminal::net(&measurement, args.run.full))?,
    }
    Ok(0)
}

fn measure_one(plan: &Plan, seed: Option<u32>, store: Option<&mut Store>) -> Result<Measurement> {
    let [cell] = &plan.cells[..] else { return Err(Error::input("nothing is to be measured", "give options")) };
    if let Some(why) = &cell.untestable {
        return Err(Error::machine(why, "choose other options"));
    }
    let Load::Net(net) = &cell.load else { return Err(Error::input("this is no network load", "use `iotrail bench`")) };
    let mut net = net.clone();
    net.sender.seed = seed;
    let stop = interrupt::raise_flag()?;
    let measured = Ends::default().run(&net, &cell.options, plan.follow, &mut |_| {}, stop)?;
    let Measured { measurement, histogram, interrupted, .. } = measured;
    if measurement.ios == 0 {
        return Err(match interrupted {
            true => Error::machine("stopped before a request was measured", "let it run longer"),
            false => Error::machine("not one request was measured", "give it more time with --runtime"),
        });
    }
    if let Some(store) = store {
        store.save_single(&measurement, &histogram)?;
    }
    Ok(measurement)
}

fn several(args: &BenchArgs, plan: &mut Plan) -> Result<u8> {
    let seed = args.run.seed.unwrap_or_else(fresh_seed);
    let shown = Shown { store: args.run.store.as_deref(), json: args.run.json, full: args.run.full };
    Ok(u8::from(measured::whole(plan, seed, shown)?.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Only {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn plan_of(line: &str) -> Plan {
        let args = <Only as clap::Parser>::try_parse_from(std::iter::once("bench").chain(line.split_whitespace()));
        planned(&args.unwrap().bench).unwrap()
    }

    fn labels(line: &str) -> Vec<String> {
        plan_of(line).cells.into_iter().map(|c| c.label).collect()
    }

    #[test]
    fn one_value_each_is_one_measurement_with_what_was_given() {
        let p = plan_of("--engine epoll --connections 64 --rate 1000 --server-cpus 0 --follow 8");
        assert_eq!((p.cells.len(), p.repeats, p.follow), (1, 1, Some(8)));
        let Load::Net(net) = &p.cells[0].load else { panic!("{:?}", p.cells[0]) };
        assert_eq!(
            (net.sender.connections, net.sender.rate, net.server.server_cpus.as_deref()),
            (64, Some(1000.0), Some("0"))
        );
        assert_eq!(p.cells[0].options.len(), 4, "{:?}", p.cells[0].options);
        let p = plan_of("--quick --count 100");
        assert_eq!((p.cells[0].options.len(), p.estimate().counted_ios), (2, 100), "the warm-up, and the count");
        assert_eq!(plan_of("--repeats 3").repeats, 3);
    }

    #[test]
    fn lists_and_options_given_again_are_measured_against_each_other() {
        assert_eq!(
            labels("--engine epoll,io_uring --connections 4 --connections 64 --window 2"),
            [
                "connections 4 · arm epoll",
                "connections 4 · arm io_uring",
                "connections 4 · arm control",
                "connections 64 · arm epoll",
                "connections 64 · arm io_uring",
                "connections 64 · arm control"
            ]
        );
        assert_eq!(
            labels("--ring coop_taskrun,taskrun_flag --ring defer_taskrun,single_issuer"),
            ["arm coop_taskrun,taskrun_flag", "arm defer_taskrun,single_issuer", "arm control"]
        );
        assert_eq!((plan_of("--engine epoll,io_uring --quick").repeats, plan_of("--window 1,2").repeats), (4, 5));
    }
}
