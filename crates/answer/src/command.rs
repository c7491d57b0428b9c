//! The command line that repeats a measurement, a cell or a run.

use serde_json::Value;

use crate::table::PROGRAM;
use iotrail_base::words::numbers;
use iotrail_schema::measurement::{LoadRecord, Measurement};
use iotrail_schema::net_record::NetRecord;
use iotrail_schema::program_record::ProgramRecord;
use iotrail_schema::run_record::{CellRecord, RunRecord};

/// A shell command line, built word by word.
struct Line(String);

impl Line {
    fn word(&mut self, word: &str) -> &mut Self {
        self.0.push(' ');
        self.0.push_str(&quoted(word));
        self
    }

    fn option(&mut self, name: &str, value: impl ToString) -> &mut Self {
        self.word(&format!("--{name}")).word(&value.to_string())
    }

    /// Omits the option if it has no value or the command's default.
    fn given(&mut self, name: &str, value: Option<impl ToString>, default: &str) -> &mut Self {
        match value.map(|v| v.to_string()).filter(|v| v != default) {
            Some(value) => self.option(name, value),
            None => self,
        }
    }

    fn flag(&mut self, name: &str, on: bool) -> &mut Self {
        if on { self.word(&format!("--{name}")) } else { self }
    }
}

/// Quotes one word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The load of a single measurement. No option sets the experiment's host conditions.
///
/// `None` for a network load against a server other than iotrail's.
pub fn of_measurement(m: &Measurement) -> Option<String> {
    let mut line = match (&m.program, &m.net) {
        (Some(program), _) => return Some(of_program(program)),
        (None, None) => storage(&m.load),
        (None, Some(net)) => network(&m.load, net)?,
    };
    line.given("follow", m.followed.as_ref().map(|f| f.one_in), "");
    line.flag("profile", m.cpu_samples.is_some() && m.net.is_none());
    Some(line.0)
}

/// The program itself, or `try` with the arm's settings.
fn of_program(program: &ProgramRecord) -> String {
    let begin = if program.settings.is_empty() { vec![] } else { vec!["iotrail".to_owned(), "try".into()] };
    let end = if program.settings.is_empty() { vec![] } else { vec!["--".to_owned()] };
    let words = begin.iter().chain(&program.settings).chain(&end).chain(&program.argv);
    words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn storage(l: &LoadRecord) -> Line {
    let mut line = Line("iotrail bench".into());
    line.option("engine", &l.engine)
        .given("ring", Some(l.ring.requested.join(",")), "")
        .given("sq-cpu", l.sq_cpu, "")
        .given("sq-idle", l.sq_idle_ms, "")
        .given("register", Some(l.register.join(",")), "")
        .flag("force-async", l.force_async)
        .option("rw", &l.rw)
        .given("commit", Some(&l.commit).filter(|c| c.is_durable()), "")
        .option("bs", l.bs)
        .option("depth", l.depth)
        .option("batch", l.batch)
        .option("jobs", l.jobs)
        .given("cpus", l.cpus_requested.as_deref(), "")
        .option("wait", &l.wait)
        .given("min-wait", l.min_wait_ns.map(|ns| format!("{}us", ns / 1000)), "")
        .flag("no-iowait", l.no_iowait)
        .given("reaper", Some(&l.reaper), "same")
        .given("think", Some(l.think_ns), "0")
        .given("scratch", Some(&l.scratch), "none")
        .given("neighbour", Some(&l.neighbour), "none")
        .given("file", l.file.as_deref(), "")
        .given("size", l.size, "")
        .flag("buffered", !l.direct)
        .flag("verify", l.verify)
        .given("seed", l.seed, "")
        .flag("allow-write", l.rw.writes());
    span(&mut line, l);
    line.given("rate", l.rate, "").given("trace", Some(&l.trace), "auto");
    line
}

fn span(line: &mut Line, l: &LoadRecord) {
    let ns = |ns: u64| format!("{ns}ns");
    line.given("runtime", l.runtime_ns.map(ns), "").given("count", l.count, "").option("warmup", ns(l.warmup_ns));
}

/// Name in the server's record, option of `net bench`, unit of the value.
const OF_SERVER: [(&str, &str, &str); 15] = [
    ("server-threads", "server-threads", ""),
    ("server-cpus", "server-cpus", ""),
    ("buffer-size", "buffer-size", ""),
    ("napi_ns", "napi", "ns"),
    ("trigger", "trigger", ""),
    ("ring", "ring", ""),
    ("sq-cpu", "sq-cpu", ""),
    ("sq-idle_ms", "sq-idle", ""),
    ("register", "register", ""),
    ("receive", "receive", ""),
    ("accept", "accept", ""),
    ("buffers", "buffers", ""),
    ("zero-copy", "zero-copy", ""),
    ("wait-for", "wait-for", ""),
    ("min-wait_ns", "min-wait", "ns"),
];

fn network(l: &LoadRecord, net: &NetRecord) -> Option<Line> {
    let server = net.server.as_ref()?;
    let mut line = Line("iotrail net bench".into());
    line.option("engine", &server.engine);
    for (of_record, option, unit) in OF_SERVER {
        let value = server.options.get(of_record).and_then(option_text).map(|v| v + unit);
        line.given(option, value, "");
    }
    // A server that waits for a single item needs no timeout.
    let timeout = server.options.get("wait-timeout_ns").and_then(Value::as_u64);
    line.given("wait-timeout", timeout.map(|ns| format!("{ns}ns")), "");
    line.flag("no-iowait", server.options.get("no-iowait").and_then(Value::as_bool) == Some(true));
    let a = &net.asked;
    line.option("connections", a.connections)
        .option("window", a.window)
        .option("request", a.request_bytes)
        .option("response", a.response_bytes)
        .option("sender-threads", a.threads)
        .given("sender-cpus", a.cpus.as_deref().map(numbers), "")
        .given("rate", a.rate, "")
        .given("burst", Some(a.burst), "1")
        .given("reconnect-after", a.reconnect_after, "")
        .flag("reconnect", a.reconnect)
        .given("idle-connections", Some(a.idle_connections), "0")
        .given("check", Some(&a.check), "full")
        .given("between", matches!(&*net.between, "namespaces" | "loopback" | "unix").then_some(&net.between), "");
    span(&mut line, l);
    Some(line)
}

/// `None` if the option was not requested.
fn option_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(s) => Some(s.clone()).filter(|s| !s.is_empty()),
        Value::Array(all) => {
            let each: Vec<String> = all.iter().filter_map(option_text).collect();
            (!each.is_empty()).then(|| each.join(","))
        }
        other => Some(other.to_string()),
    }
}

/// Repeats the complete run, with its cells in the same order. `is_built_in`: the experiment's name suffices; otherwise
/// it needs a file, whose path is not recorded.
pub fn of_run(run: &RunRecord, is_built_in: bool) -> Option<String> {
    if let Some(m) = run.as_single() {
        return of_measurement(m);
    }
    // Records of `iotrail try` lack its metrics and checks; `--save` stores them.
    if run.table == PROGRAM && run.experiment == "try" {
        return None;
    }
    let first = run.first();
    // Cells with different files name their own; which of them the run itself used is unknown.
    let is_of_file = |c: &&CellRecord| c.measurements.first().is_some_and(|m| m.net.is_none());
    let mut loads = run.cells.iter().filter(is_of_file).flat_map(|c| c.measurements.set_up());
    let one_file = loads.all(|(_, load)| first.is_some_and(|f| f.load.file == load.file));
    let mut line = Line("iotrail run".into());
    line.word(&if is_built_in { run.experiment.clone() } else { format!("{}.toml", run.experiment) })
        .flag("quick", run.quick)
        .option("seed", run.seed);
    if run.stop.is_none() {
        line.option("repeats", run.repeats);
    }
    let target = first.filter(|m| one_file && m.net.is_none()).and_then(|m| m.load.file.as_deref());
    line.given("file", target, "").given("size", first.filter(|_| target.is_some()).and_then(|m| m.load.size), "");
    Some(line.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::sample;

    #[test]
    fn a_load_is_printed_as_command_line_options() {
        let mut m = sample::measurement();
        m.load.file = Some("/data/it's here".into());
        assert_eq!(
            of_measurement(&m).unwrap(),
            "iotrail bench --engine io_uring --ring coop_taskrun --rw randread --bs 4096 --depth 1 --batch 1 --jobs 1 --cpus non-irq \
             --wait peek --file '/data/it'\\''s here' --size 1073741824 --runtime 2000000000ns --warmup 300000000ns --profile"
        );
        sample::echo(&mut m, 1000, 100, 0.5);
        assert!(
            of_measurement(&m).unwrap().starts_with("iotrail net bench --engine io_uring --connections 4 --window 2 ")
        );
        m.net.as_mut().unwrap().server = None;
        assert_eq!(of_measurement(&m), None);
    }

    #[test]
    fn a_runs_command_includes_its_experiment_and_seed() {
        let run = sample::run();
        assert_eq!(of_run(&run, true).unwrap(), "iotrail run x --seed 7 --repeats 1");
        assert_eq!(
            of_run(&RunRecord { quick: true, ..run }, false).unwrap(),
            "iotrail run x.toml --quick --seed 7 --repeats 1"
        );
    }

    #[test]
    fn a_programs_command_runs_under_try_if_the_arm_has_settings() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let of = |settings: Vec<String>| {
            let argv = vec!["fio".to_owned(), "a job".into()];
            let program = Some(ProgramRecord { argv, settings, ..ProgramRecord::default() }.into());
            of_measurement(&Measurement { program, ..Measurement::default() }).unwrap()
        };
        assert_eq!(of(vec![]), "fio 'a job'");
        assert_eq!(of(words("--ring sqpoll --sq-idle 20")), "iotrail try --ring sqpoll --sq-idle 20 -- fio 'a job'");
    }
}
