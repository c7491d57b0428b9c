//! Configurations of a storage load: rings, submission, waiting, engine, CPUs, and the disk queue.

use serde::Deserialize;
use toml::{Table, Value};

use super::candidates::{DEFER, Move, Placement, Proposed, RINGS, joined, one, placed, product, register, ring_move};
use crate::load::{Kind, Load};
use crate::plan::Refusal;
use iotrail_base::error;
use iotrail_base::words::plural;
use iotrail_load::cpus;
use iotrail_load::engine::capabilities::{Nop, TargetKind};
use iotrail_load::options::{EngineKind, LoadOptions, Rw, Wait};
use iotrail_schema::measurement::Target;
use iotrail_schema::search_record::{Effort, LeftOut};
use iotrail_settings::{Conditions, MOST_REQUESTS, Queue};

/// Maximum number of threads with one I/O in flight each.
const THREADS: u32 = 64;
/// The shortest SQPOLL idle time, in milliseconds.
const IDLE_MS: u32 = 1;

/// The environment of a load on this machine.
pub struct HostContext<'a> {
    pub placements: &'a [Placement],
    pub online: &'a [u32],
    pub target: Option<&'a Target>,
    /// The disk's queue, or why it cannot be configured; `None` if the host must not be changed.
    pub queue: Option<error::Result<Queue>>,
    pub refusal: Refusal<'a>,
}

/// Candidates for a load, the current configuration first, and excluded candidates. `given`: the options as written.
pub fn of_load(base: &LoadOptions, given: &Table, around: &HostContext<'_>) -> (Vec<Proposed>, Vec<LeftOut>) {
    let mut out = Vec::new();
    let has_ring = base.engine.engine().ring.is_some();
    let rings = rings(base);
    let defer = rings.iter().find(|m| m.name == DEFER);
    let is_open = base.cpus.is_none() || base.cpus.as_deref() == Some("non-irq");
    let places = if is_open { placed(around.placements) } else { Vec::new() };
    let hosts = hosts(base, around, &mut out);
    let engines = engines(base, &mut out);
    let mut all = product(if has_ring { &rings } else { &[] }, &places);
    let mut add = |moves: &[&Move]| all.push(joined(moves));
    if has_ring {
        polling(base, around, &mut out).iter().for_each(|m| add(&[m]));
        for (place, at) in places.iter().zip(around.placements).filter(|_| base.sq_cpu.is_none()) {
            // The SQPOLL thread on a CPU without a job.
            if let Some(cpu) = around.online.iter().rev().find(|cpu| !at.cpus.contains(cpu)) {
                add(&[&ring_move("sqpoll", &[("sq-cpu", *cpu)]), place]);
            }
        }
        let own = own_moves(base);
        own.iter().for_each(|m| add(&[m]));
        // Changes to code and host settings, combined with the cheapest flags.
        defer.iter().for_each(|d| own.iter().for_each(|m| add(&[d, m])));
        hosts.iter().for_each(|m| add(&[m]));
        defer.iter().for_each(|d| hosts.iter().for_each(|m| add(&[d, m])));
    } else {
        hosts.iter().for_each(|m| add(&[m]));
    }
    for engine in &engines {
        add(&[engine]);
        if engine.options.get("engine").and_then(Value::as_str) == Some("io_uring") {
            rings.iter().for_each(|ring| add(&[engine, ring]));
            defer.iter().for_each(|d| own_moves(base).iter().for_each(|m| add(&[engine, d, m])));
        }
    }
    all.retain(|p| match illegal(p, given, around) {
        None => true,
        Some(reason) => {
            out.push(LeftOut { name: p.candidate.name.clone(), reason });
            false
        }
    });
    (all, out)
}

/// Why the load's rules exclude a candidate. Limits of this machine are reported when the candidate is planned.
fn illegal(p: &Proposed, given: &Table, around: &HostContext<'_>) -> Option<String> {
    if p.options.is_empty() {
        return None;
    }
    let mut all = given.clone();
    all.extend(p.options.clone());
    all.retain(|name, _| !Conditions::NAMES.contains(&name));
    match Kind::Storage.load(all).map(|load: Load| load.check(around.target, around.online)) {
        Err(why) => Some(why),
        Ok(Err(e)) if e.kind == error::Kind::Input => Some(e.to_string()),
        Ok(_) => None,
    }
}

fn rings(base: &LoadOptions) -> Vec<Move> {
    RINGS.iter().filter(|ring| **ring != base.ring).map(|ring| ring_move(ring, &[])).collect()
}

/// Candidates with a pinned SQPOLL thread, and with a shorter idle time.
fn polling(base: &LoadOptions, around: &HostContext<'_>, out: &mut Vec<LeftOut>) -> Vec<Move> {
    let mut all = Vec::new();
    let online = around.online;
    let own = base.cpus.as_deref().and_then(|list| cpus::resolve(list, around.target, online).ok()).unwrap_or_default();
    let free = online.iter().rev().find(|cpu| !own.contains(cpu)).filter(|_| online.len() > 1);
    if base.sq_cpu.is_none() {
        match free {
            Some(cpu) => all.push(ring_move("sqpoll", &[("sq-cpu", *cpu)])),
            None => out
                .push(left_out("sqpoll sq-cpu", "the load runs on all CPUs, so no CPU is free for the SQPOLL thread")),
        }
    }
    if base.sq_idle.is_none() {
        let per_thread = base.rate.map(|rate| rate / f64::from(base.jobs.max(1)));
        match per_thread {
            Some(rate) if rate < 1e3 / f64::from(IDLE_MS) => all.push(ring_move("sqpoll", &[("sq-idle", IDLE_MS)])),
            Some(_) => out.push(left_out(
                "sqpoll sq-idle",
                "the interval between requests is shorter than the minimum idle time of 1 ms",
            )),
            None => out.push(left_out(
                "sqpoll sq-idle",
                "without --rate the load submits continuously, so the SQPOLL thread does not sleep",
            )),
        }
    }
    all
}

fn left_out(name: &str, reason: &str) -> LeftOut {
    LeftOut { name: name.into(), reason: reason.into() }
}

/// Changes that take a few lines in a program.
fn own_moves(base: &LoadOptions) -> Vec<Move> {
    let mut all = Vec::new();
    if base.batch == 1 && base.depth >= 4 {
        let batch = (base.depth / 2).min(16);
        let how = format!("submit {batch} requests per io_uring_enter: call io_uring_submit once per batch");
        all.push(one(&format!("batch {batch}"), Effort::Lines, &how, "batch", i64::from(batch)));
    }
    if base.wait == Wait::Peek {
        let how = "wait with io_uring_submit_and_wait, not with io_uring_peek_cqe in a loop";
        all.push(one("wait block", Effort::Lines, how, "wait", "block"));
    }
    if base.register.is_empty() && base.rw != Rw::Nop {
        all.push(register());
    }
    all
}

/// Other engines for the same I/O on the same file with the same number in flight.
fn engines(base: &LoadOptions, out: &mut Vec<LeftOut>) -> Vec<Move> {
    let now = base.engine.engine();
    if now.target != TargetKind::File {
        out.push(left_out("engine", &format!("no other engine supports the operations of {}", now.name)));
        return Vec::new();
    }
    let other = |engine: &EngineKind| engine.engine().target == TargetKind::File && *engine != base.engine;
    if base.rw == Rw::Nop && now.nop != Nop::Refused {
        out.push(left_out("engine", "no other engine supports no-ops"));
        return Vec::new();
    }
    let in_flight = base.depth.saturating_mul(base.jobs);
    let mut all = Vec::new();
    for engine in EngineKind::ALL.iter().filter(|engine| other(engine)) {
        let name = engine.engine().name;
        let how = match *engine {
            EngineKind::Libaio => "submit with io_submit and reap with io_getevents (libaio)",
            EngineKind::PosixAio => "aio_read and aio_write, aio_suspend: threads of the C library do the I/O",
            EngineKind::Sync => "pread and pwrite with one thread per I/O in flight",
            _ => "submit and reap through io_uring",
        };
        let mut m = one(&format!("engine {name}"), Effort::Redesign, how, "engine", name);
        if engine.engine().ring.is_none() {
            let no_ring = [("ring", base.ring.is_empty()), ("register", base.register.is_empty())];
            let given = no_ring.iter().filter(|(_, is_empty)| !is_empty);
            m.options.extend(given.map(|(option, _)| ((*option).to_owned(), Value::from(""))));
            if base.force_async {
                m.options.insert("force-async".into(), false.into());
            }
        }
        if engine.engine().one_in_flight.is_some() && base.depth > 1 {
            if in_flight > THREADS {
                let threads = plural(in_flight as usize, "thread");
                out.push(left_out(
                    &m.name,
                    &format!("one I/O per thread would need {threads}, but at most {THREADS} are tried"),
                ));
                continue;
            }
            m.name = format!("{} · jobs {in_flight}", m.name);
            let alike = [("jobs", in_flight), ("depth", 1), ("batch", 1)];
            m.options.extend(alike.map(|(option, n)| (option.to_owned(), Value::from(i64::from(n)))));
        }
        all.push(m);
    }
    all
}

/// Available settings of the disk queue.
fn hosts(base: &LoadOptions, around: &HostContext<'_>, out: &mut Vec<LeftOut>) -> Vec<Move> {
    const NAME: &str = "scheduler, nr-requests";
    let queue = match &around.queue {
        asked if !base.uses_target() => {
            out.extend(asked.is_some().then(|| left_out(NAME, "the load has no target")));
            return Vec::new();
        }
        None => {
            out.push(left_out(NAME, "they affect all users of the disk: --host-settings adds them"));
            return Vec::new();
        }
        Some(Err(e)) => {
            out.push(left_out(NAME, &e.to_string()));
            return Vec::new();
        }
        Some(Ok(queue)) => queue,
    };
    let others = queue.schedulers.iter().filter(|name| **name != queue.scheduler);
    let mut all: Vec<Move> =
        others.map(|name| host(queue, "scheduler", ("scheduler", name), Value::from(name.as_str()))).collect();
    let (in_flight, now) = (base.depth.saturating_mul(base.jobs), queue.nr_requests);
    let number = if in_flight > now {
        in_flight.checked_next_power_of_two().unwrap_or(MOST_REQUESTS).min(MOST_REQUESTS)
    } else {
        now / 4
    };
    if number > now || in_flight > number {
        let value = Value::from(i64::from(number));
        all.push(host(queue, "nr-requests", ("nr_requests", &number.to_string()), value));
    } else {
        let why = format!(
            "{} in flight: the queue holds {now}, so a different limit has no effect",
            plural(in_flight as usize, "I/O")
        );
        out.push(left_out("nr-requests", &why));
    }
    all.retain(|m| {
        let conditions = Conditions::deserialize(Value::Table(m.options.clone()));
        let refused = match conditions {
            Ok(conditions) => (around.refusal)(&conditions, around.target).map(|e| e.to_string()),
            Err(e) => Some(e.message().to_owned()),
        };
        out.extend(refused.iter().map(|why| left_out(&m.name, why)));
        refused.is_none()
    });
    all
}

/// One setting of the disk queue in sysfs, with the commands that set it now and at each boot.
fn host(queue: &Queue, option: &str, (file, text): (&str, &str), value: Value) -> Move {
    let mut m = one(&format!("{option} {text}"), Effort::HostSetting, "", option, value);
    m.how = queue.folders.iter().map(|folder| format!("echo {text} > {}/{file}", folder.display())).collect();
    let disks = queue.folders.iter().filter_map(|folder| folder.parent()?.file_name()?.to_str());
    let disks: Vec<&str> = disks.collect();
    m.how.push(format!(
        "permanently, as a udev rule: ACTION==\"add|change\", KERNEL==\"{}\", ATTR{{queue/{file}}}=\"{text}\"",
        disks.join("|")
    ));
    m
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_base::error::Error;

    fn of(text: &str, queue: Option<error::Result<Queue>>, refused: Option<&str>) -> (Vec<Proposed>, Vec<LeftOut>) {
        let given: Table = toml::from_str(text).unwrap();
        let base = LoadOptions::deserialize(Value::Table(given.clone())).unwrap();
        let placements = [Placement { name: "irq", cpus: vec![1] }, Placement { name: "non-irq", cpus: vec![0] }];
        let refusal = |c: &Conditions, _: Option<&Target>| {
            refused.filter(|name| c.scheduler.as_deref() == Some(*name)).map(|_| Error::machine("no", "as root"))
        };
        let target = None;
        of_load(
            &base,
            &given,
            &HostContext { placements: &placements, online: &[0, 1], target, queue, refusal: &refusal },
        )
    }

    fn names(all: &[Proposed]) -> Vec<&str> {
        all.iter().map(|p| p.candidate.name.as_str()).collect()
    }

    fn queue() -> Queue {
        Queue {
            folders: vec!["/sys/block/vda/queue".into()],
            scheduler: "none".into(),
            schedulers: ["none", "mq-deadline", "bfq"].map(str::to_owned).to_vec(),
            nr_requests: 256,
        }
    }

    #[test]
    fn only_unspecified_options_of_a_load_are_varied() {
        let (all, out) = of("file = \"/data/f\"\ndepth = 16\nwait = \"peek\"", None, None);
        let names = names(&all);
        assert_eq!(names[..4], ["as-is", "cpus irq", "cpus non-irq", "coop_taskrun,taskrun_flag"]);
        assert_eq!(
            names[15..],
            [
                "sqpoll sq-cpu 1",
                "sqpoll sq-cpu 0 · cpus irq",
                "sqpoll sq-cpu 1 · cpus non-irq",
                "batch 8",
                "wait block",
                "register files,buffers",
                "defer_taskrun,single_issuer · batch 8",
                "defer_taskrun,single_issuer · wait block",
                "defer_taskrun,single_issuer · register files,buffers",
                "engine libaio",
                "engine posix_aio",
                "engine sync · jobs 16",
            ]
        );
        let sync = &all[26];
        assert_eq!((sync.candidate.effort, &sync.options["depth"]), (Effort::Redesign, &Value::from(1)));
        let reasons: Vec<String> = out.iter().map(|o| format!("{}: {}", o.name, o.reason)).collect();
        assert_eq!(
            reasons,
            [
                "scheduler, nr-requests: they affect all users of the disk: --host-settings adds them",
                "sqpoll sq-idle: without --rate the load submits continuously, so the SQPOLL thread does not sleep",
            ]
        );
        // A requested placement is kept; the SQPOLL thread gets the other CPU.
        let (all, _) = of("file = \"/data/f\"\ncpus = \"1\"", None, None);
        assert!(!all.iter().any(|p| p.candidate.name.contains("cpus")));
        assert!(self::names(&all).contains(&"sqpoll sq-cpu 0"));
    }

    #[test]
    fn disk_queue_settings_are_varied_only_where_they_are_writable() {
        let (all, out) = of("file = \"/data/f\"\ndepth = 300", Some(Ok(queue())), Some("bfq"));
        let of_name = |name: &str| all.iter().find(|p| p.candidate.name == name).unwrap();
        let mq = of_name("scheduler mq-deadline");
        assert_eq!(mq.candidate.effort, Effort::HostSetting);
        assert_eq!(
            mq.candidate.how,
            [
                "echo mq-deadline > /sys/block/vda/queue/scheduler",
                "permanently, as a udev rule: ACTION==\"add|change\", KERNEL==\"vda\", ATTR{queue/scheduler}=\"mq-deadline\"",
            ]
        );
        assert_eq!(of_name("defer_taskrun,single_issuer · nr-requests 512").options["nr-requests"], Value::from(512));
        let reason = |name: &str| out.iter().find(|o| o.name == name).map(|o| o.reason.as_str());
        assert_eq!(reason("scheduler bfq"), Some("no; as root"));
        assert!(!names(&all).iter().any(|name| name.contains("bfq")));
        assert_eq!(reason("engine sync"), Some("one I/O per thread would need 300 threads, but at most 64 are tried"));
        // With few requests in flight, a different queue size has no effect, unless it is smaller than that number.
        let (_, out) = of("file = \"/data/f\"", Some(Ok(queue())), None);
        assert!(
            out.iter()
                .any(|o| o.name == "nr-requests" && o.reason.starts_with("16 I/Os in flight: the queue holds 256"))
        );
        let (all, _) = of("file = \"/data/f\"\ndepth = 100", Some(Ok(queue())), None);
        assert!(names(&all).contains(&"nr-requests 64"));
        let none = Err(Error::machine("no disk", "name one"));
        let (_, out) = of("file = \"/data/f\"", Some(none), None);
        assert!(out.iter().any(|o| o.reason == "no disk; name one"));
    }

    #[test]
    fn ring_options_are_dropped_for_engines_without_a_ring() {
        let (all, _) = of("file = \"/data/f\"\nring = \"sqpoll\"\nregister = \"files\"", None, None);
        let libaio = all.iter().find(|p| p.candidate.name == "engine libaio").unwrap();
        assert_eq!((&libaio.options["ring"], &libaio.options["register"]), (&Value::from(""), &Value::from("")));
        let (all, out) = of("file = \"/data/f\"\nring = \"sqpoll\"\nsq-idle = 5", None, None);
        assert!(!names(&all).contains(&"engine libaio"));
        let why = &out.iter().find(|o| o.name == "engine libaio").unwrap().reason;
        assert!(why.starts_with("--sq-idle needs io_uring; --engine libaio has no ring"), "{why}");
        let (all, _) = of("file = \"/data/f\"\nengine = \"libaio\"", None, None);
        let names = names(&all);
        assert!(!names.contains(&"sqpoll") && names.contains(&"engine io_uring · sqpoll"), "{names:?}");
        assert!(names.contains(&"engine io_uring · defer_taskrun,single_issuer · batch 8"), "{names:?}");
        let (all, out) = of("rw = \"nop\"\nrate = 500.0", None, None);
        assert!(all.iter().any(|p| p.candidate.name == "sqpoll sq-idle 1"));
        let nop = left_out("engine", "no other engine supports no-ops");
        assert_eq!(out, std::slice::from_ref(&nop));
        let (_, out) = of("rw = \"nop\"\nrate = 500.0", Some(Ok(queue())), None);
        assert_eq!(out, [left_out("scheduler, nr-requests", "the load has no target"), nop]);
    }
}
