//! `iotrail net bench`: a server and a sender, both on this machine, or with --slurm on two cluster nodes.
//!
//! With a single value per option, it makes one measurement like `net load`. With several values for some options, it
//! is an experiment, run and compared like `run`.

use std::path::PathBuf;

use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::json;

use crate::cli::on_the_command_line;
use crate::cli::slurm;
use crate::runner::outline;
use crate::runner::{self, Shown};
use iotrail_base::error::{Error, Result};
use iotrail_base::{interrupt, output};
use iotrail_cluster::{Served, Work};
use iotrail_experiment::cell::Measured;
use iotrail_experiment::file::Experiment;
use iotrail_experiment::given::{OptionValues, SENDER_LISTS, SERVER_LISTS, net_experiment};
use iotrail_experiment::load::Load;
use iotrail_experiment::net::ends::Ends;
use iotrail_experiment::plan::{Facts, Plan, Target, plan};
use iotrail_experiment::schedule::fresh_seed;
use iotrail_net::options::NetOptions;
use iotrail_report::terminal;
use iotrail_schema::measurement::Measurement;
use iotrail_store::Store;

/// Default number of blocks in an experiment.
const REPEATS: u32 = 5;
const QUICK_REPEATS: u32 = 4;
/// Defaults of `--quick`.
const QUICK: [(&str, &str); 2] = [("runtime", "500ms"), ("warmup", "100ms")];

#[derive(Debug)]
pub struct BenchArgs {
    /// The load's specified options, without defaults.
    given: Vec<OptionValues>,
    run: RunArgs,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Measure each combination N times (default: 1 for a single combination, 5 for several)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,

    /// Make fewer and shorter measurements: 500 ms, 4 repeats
    #[arg(long)]
    quick: bool,

    /// Print the combinations, their order and the estimated time; run nothing
    #[arg(long, conflicts_with_all = ["slurm", "attach"])]
    plan: bool,

    /// Seed the sent data, and the order of several combinations (default: random; printed and stored)
    #[arg(long, value_name = "N")]
    seed: Option<u32>,

    /// Trace 1 in N of the server's io_uring requests end to end: delivery delays, completion order
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    follow: Option<u32>,

    /// Print JSON on standard output
    #[arg(long)]
    json: bool,

    /// Print all sections, not only the answer
    #[arg(long, conflicts_with = "json")]
    full: bool,

    /// Store the measurement here (several combinations are always stored; default: $XDG_STATE_HOME/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,

    /// Resume the last unfinished run, as --slurm does after losing a node
    #[arg(long, hide = true, conflicts_with_all = ["plan", "seed"])]
    resume: bool,

    #[command(flatten)]
    fleet: iotrail_cluster::Fleet,

    /// Choose two nodes with these features (sbatch --constraint)
    #[arg(long, value_name = "FEATURES", requires = "slurm", conflicts_with = "nodes", help_heading = "With --slurm")]
    constraint: Option<String>,

    /// Reach the server at this address of its node (default: the address used by Slurm)
    #[arg(long, value_name = "ADDRESS", requires = "slurm", help_heading = "With --slurm")]
    server_address: Option<String>,
}

/// Help texts for Slurm's options with two ends.
const OF_TWO: [(&str, &str); 2] = [
    ("slurm", "Run the server on one node of a Slurm cluster and the sender on another, as one exclusive job"),
    ("nodes", "Run on these two nodes, the server's first: n1,n2 (default: two that Slurm chooses)"),
];

impl Args for BenchArgs {
    fn augment_args(command: Command) -> Command {
        let several = |command: Command, name: &&str| {
            command.mut_arg(*name, |arg| {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                // Ring flags are already a list.
                let (arg, how) = match *name {
                    "ring" => (arg, "repeat the option for another set"),
                    _ => (arg.value_delimiter(','), "for several, use a list or repeat the option"),
                };
                arg.action(ArgAction::Append).help(format!("{help} ({how})"))
            })
        };
        let load = SERVER_LISTS.iter().chain(&SENDER_LISTS).fold(NetOptions::augment_args(command), several);
        let told = |command: Command, (name, help): &(&'static str, &'static str)| {
            command.mut_arg(*name, |arg| arg.help(*help))
        };
        OF_TWO.iter().fold(RunArgs::augment_args(load), told)
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
    let fleet = &args.run.fleet;
    let shown = Shown { store: args.run.store.as_deref(), json: args.run.json, full: args.run.full };
    match fleet.attach {
        Some(job) => return slurm::attach(fleet, job, shown),
        None if fleet.slurm => return slurm::run(fleet, &on_nodes(args)?, shown),
        None => {}
    }
    let mut plan = planned(args)?;
    if args.run.plan {
        outline::show(&plan, args.run.seed.unwrap_or_else(fresh_seed), args.run.json)?;
        return Ok(0);
    }
    output::stdout_accepts()?;
    match (plan.cells.len(), plan.repeats) {
        (1, 1) => one(args, &plan),
        _ => several(args, &mut plan),
    }
}

/// The command for the sender's node, which starts the server on the other node.
fn on_nodes(args: &BenchArgs) -> Result<Work<'static>> {
    if args.given.iter().any(|given| given.name == "between") {
        return Err(Error::input("--between applies to one machine, but --slurm uses two nodes", "omit it"));
    }
    let hosts = OptionValues { name: "between".into(), values: vec!["hosts".into()] };
    let given: Vec<OptionValues> = args.given.iter().cloned().chain([hosts]).collect();
    // Report errors here instead of on a node.
    experiment(args, &given)?;
    let seed = args.run.seed.unwrap_or_else(fresh_seed);
    let mut words = vec!["net".to_owned(), "bench".into(), format!("--seed={seed}")];
    let all = NetOptions::augment_args(Command::new("load"));
    for OptionValues { name, values } in &given {
        let is_a_flag = all.get_arguments().any(|a| a.get_long() == Some(name) && !a.get_action().takes_values());
        match is_a_flag {
            true => words.push(format!("--{name}")),
            false => words.extend(values.iter().map(|value| format!("--{name}={value}"))),
        }
    }
    words.extend(args.run.quick.then(|| "--quick".to_owned()));
    words.extend(args.run.repeats.map(|n| format!("--repeats={n}")));
    words.extend(args.run.follow.map(|n| format!("--follow={n}")));
    Ok(Work {
        command: "net bench",
        experiment: "net-bench",
        text: None,
        plan: json!({"seed": seed, "command": words.join(" ")}),
        options: words,
        again: iotrail_cluster::again(seed),
        within: None,
        wanted: args.run.fleet.two(args.run.constraint.clone()),
        served: Some(Served { address: args.run.server_address.clone() }),
    })
}

fn planned(args: &BenchArgs) -> Result<Plan> {
    let experiment = experiment(args, &args.given)?;
    let facts = Facts {
        online_cpus: iotrail_host::cpu::online()?,
        may_watch: iotrail_host::privileges::may_watch(),
        below: &|_| None,
    };
    plan(&experiment, false, &Target::default(), &facts, &|host, _| host.refusal(None))
}

fn experiment(args: &BenchArgs, given: &[OptionValues]) -> Result<Experiment> {
    let mut given = given.to_vec();
    let named: Vec<String> = given.iter().map(|g| g.name.clone()).collect();
    let has = |name: &str| named.iter().any(|n| n == name);
    for (name, value) in QUICK.iter().filter(|(name, _)| args.run.quick && !has(name)) {
        if *name != "runtime" || !has("count") {
            given.push(OptionValues { name: (*name).into(), values: vec![(*value).into()] });
        }
    }
    let several = given.iter().any(|g| g.values.len() > 1);
    let repeats = args.run.repeats.unwrap_or(match (several, args.run.quick) {
        (false, _) => 1,
        (true, false) => REPEATS,
        (true, true) => QUICK_REPEATS,
    });
    net_experiment(&given, repeats, args.run.follow)
}

fn one(args: &BenchArgs, plan: &Plan) -> Result<u8> {
    // Report an unwritable store before running the load.
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
    Ok(u8::from(measurement.interrupted()))
}

fn measure_one(plan: &Plan, seed: Option<u32>, store: Option<&mut Store>) -> Result<Measurement> {
    let [cell] = &plan.cells[..] else { return Err(Error::input("no combination to measure", "specify options")) };
    if let Some(why) = &cell.untestable {
        return Err(Error::machine(why, "choose other options"));
    }
    let Load::Net(net) = &cell.load else {
        return Err(Error::input("this is not a network load", "use `iotrail bench`"));
    };
    let mut net = net.clone();
    net.sender.seed = seed;
    let stop = interrupt::raise_flag()?;
    let measured = Ends::default().run(&net, &cell.options, plan.follow, &mut |_| {}, stop)?;
    let Measured { measurement, histogram, interrupted, .. } = measured;
    if measurement.ios == Some(0) {
        return Err(match interrupted {
            true => Error::machine("stopped before a request was measured", "let it run longer"),
            false => Error::machine("no request was measured", "use a longer --runtime"),
        });
    }
    if let Some(store) = store {
        store.save_single(&measurement, &histogram)?;
    }
    Ok(measurement)
}

fn several(args: &BenchArgs, plan: &mut Plan) -> Result<u8> {
    let seed = (!args.run.resume).then(|| args.run.seed.unwrap_or_else(fresh_seed));
    let shown = Shown { store: args.run.store.as_deref(), json: args.run.json, full: args.run.full };
    Ok(u8::from(runner::whole_or_rest(plan, seed, shown)?.is_none()))
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
    fn one_value_per_option_plans_a_single_measurement() {
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
    fn lists_and_repeated_options_are_compared() {
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
