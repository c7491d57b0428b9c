//! Configurations of iotrail's server: how it waits and receives, and its CPUs. The request load does not change.

use toml::{Table, Value};

use super::candidates::{DEFER, Move, Proposed, RINGS, joined, one, ring_move};
use iotrail_base::error::Kind;
use iotrail_base::words::bytes;
use iotrail_host::cpu::format_list;
use iotrail_load::cpus;
use iotrail_load::options::names_of;
use iotrail_net::options::{Accept, Between, NetOptions, Receive, ServerEngine, ServerOptions, Trigger};
use iotrail_net::server::spec::ServerSpec;
use iotrail_schema::search_record::{Effort, LeftOut};

/// A zero-copy send costs a second completion, which does not pay off below a page.
const PAGE: u64 = 4096;
/// Maximum completions per wait, and the maximum waiting time.
const AT_ONCE: u32 = 16;
const PATIENCE: &str = "50us";
/// A request of at most this size fits into one buffer.
const LARGE: u64 = 1 << 16;
/// Idle time before an SQPOLL thread sleeps, in milliseconds, for loads with pauses.
const IDLE_MS: u32 = 10;

/// Candidates for a load's server, the specified one first, and excluded candidates. `given`: the options as written.
pub fn of_net(base: &NetOptions, given: &Table, online: &[u32]) -> (Vec<Proposed>, Vec<LeftOut>) {
    let server = &base.server;
    let is_ring = server.engine == ServerEngine::IoUring;
    let rings = rings(base);
    let places = places(base, online);
    let mut all: Vec<Vec<&Move>> = vec![vec![]];
    all.extend(places.iter().map(|p| vec![p]));
    let defer = rings.iter().find(|m| m.name == DEFER);
    let own = own_moves(base, online);
    let engines = engines(base);
    let receives = if is_ring { vec![] } else { receives(None) };
    match is_ring {
        true => {
            all.extend(rings.iter().map(|m| vec![m]));
            all.extend(own.iter().map(|m| vec![m]));
            // Changes to code and settings, combined with the cheapest flags.
            all.extend(defer.into_iter().flat_map(|d| places.iter().chain(&own).map(move |m| vec![d, m])));
            all.extend(engines.iter().map(|m| vec![m]));
            all.extend(engines.iter().take(1).flat_map(|m| places.iter().map(move |p| vec![m, p])));
        }
        false => {
            all.extend(own.iter().map(|m| vec![m]));
            let engine = engines.iter().find(|m| m.name == "engine io_uring").into_iter();
            all.extend(engine.flat_map(|e| {
                let with_rings = std::iter::once(vec![e]).chain(rings.iter().map(move |r| vec![e, r]));
                let with_receives = defer.into_iter().flat_map(|d| receives.iter().map(move |r| vec![e, d, r]));
                let placed = defer.into_iter().flat_map(|d| places.iter().map(move |p| vec![e, d, p]));
                with_rings.chain(with_receives).chain(placed).collect::<Vec<_>>()
            }));
        }
    }
    let mut left_out = without_use(base);
    let proposed =
        all.iter().map(|moves| with_command(joined(moves), given)).filter_map(|p| match illegal(&p, given, online) {
            None => Some(p),
            Some(reason) => {
                left_out.push(LeftOut { name: p.candidate.name, reason });
                None
            }
        });
    (proposed.collect(), left_out)
}

/// Why the server's rules exclude a candidate. Limits of this machine are reported when the candidate is planned and
/// measured.
fn illegal(p: &Proposed, given: &Table, online: &[u32]) -> Option<String> {
    if p.options.is_empty() {
        return None;
    }
    let mut all = given.clone();
    all.extend(p.options.clone());
    let options = NetOptions::from_table(all).map_err(|e| e.message().to_owned());
    let resolved = options.map(|o| ServerSpec::resolve(&o.server, online).map(drop));
    match resolved {
        Err(why) => Some(why),
        Ok(Err(e)) if e.kind == Kind::Input => Some(e.to_string()),
        Ok(_) => None,
    }
}

/// Possible candidates that bring no benefit here.
fn without_use(base: &NetOptions) -> Vec<LeftOut> {
    let out = |name: &str, reason: String| LeftOut { name: name.into(), reason };
    let mut all = Vec::new();
    if base.server.napi.is_none() {
        let why = "loopback and UNIX sockets have no device queue to poll, nor has veth with its defaults; test it between two machines";
        all.push(out("napi", why.into()));
    }
    if base.server.engine == ServerEngine::IoUring && base.server.zero_copy.is_none() {
        let size = base.sender.response.0;
        match base.between {
            Between::Unix => all.push(out("zero-copy", "a UNIX socket has no zero-copy sends".into())),
            _ if size < PAGE => {
                let why = format!(
                    "a response of {} is less than a page, and each send costs a second completion",
                    bytes(size)
                );
                all.push(out("zero-copy", why));
            }
            _ => {}
        }
    }
    all
}

fn rings(base: &NetOptions) -> Vec<Move> {
    let mut all: Vec<Move> =
        RINGS.iter().filter(|ring| **ring != base.server.ring).map(|ring| ring_move(ring, &[])).collect();
    // With a sender at full speed, the SQPOLL thread never sleeps.
    if base.sender.rate.is_some() && base.server.sq_idle.is_none() {
        all.push(ring_move("sqpoll", &[("sq-idle", IDLE_MS)]));
    }
    all
}

/// Number of threads, and their CPUs.
fn places(base: &NetOptions, online: &[u32]) -> Vec<Move> {
    let server = &base.server;
    let mut all = Vec::new();
    if online.len() < 2 || server.server_cpus.is_some() {
        return all;
    }
    if server.server_threads.is_none() {
        let how = "serve from one thread";
        all.push(one("server-threads 1", Effort::Setting, how, "server-threads", 1));
    }
    let taken = listed(base.sender.sender_cpus.as_deref(), online);
    let free: Vec<u32> = online.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
    let cpus = format_list(if free.is_empty() { online } else { &free });
    let how = format!("pin the serving threads to these CPUs in turn: pthread_setaffinity_np, CPUs {cpus}");
    all.push(one(&format!("server-cpus {cpus}"), Effort::Setting, &how, "server-cpus", cpus.as_str()));
    all
}

/// Other ways to wait for connections.
fn engines(base: &NetOptions) -> Vec<Move> {
    let epoll = |name: &str, how: &str| one(name, Effort::Redesign, how, "engine", "epoll");
    let how_edge = "add EPOLLET in epoll_ctl, and receive until EAGAIN";
    match (base.server.engine, base.server.trigger) {
        (ServerEngine::IoUring, _) => {
            let mut edge = epoll("engine epoll · edge", "serve with epoll: epoll_wait, recv, send");
            edge.how.push(how_edge.into());
            edge.options.insert("trigger".into(), "edge".into());
            let level = epoll("engine epoll", "serve with epoll: epoll_wait, recv, send");
            vec![level, edge].into_iter().map(|m| without_rings(m, base)).collect()
        }
        (ServerEngine::Epoll, _) => {
            let how = "serve with io_uring: one multishot accept, one multishot receive per connection";
            vec![one("engine io_uring", Effort::Redesign, how, "engine", "io_uring")]
        }
    }
}

/// Requests level triggering explicitly if the options contain edge triggering, which io_uring ignores.
fn without_rings(mut m: Move, base: &NetOptions) -> Move {
    if base.server.trigger == Trigger::Edge && !m.options.contains_key("trigger") {
        m.options.insert("trigger".into(), "level".into());
    }
    m
}

/// Changes that take a few lines in the server.
fn own_moves(base: &NetOptions, online: &[u32]) -> Vec<Move> {
    let server = &base.server;
    let mut all = Vec::new();
    if base.sender.request.0 + 8 > server.buffer_size.0 && server.buffer_size.0 < LARGE {
        let how = "receive into buffers of 64 KiB";
        all.push(one("buffer-size 64k", Effort::Lines, how, "buffer-size", "64k"));
    }
    if server.engine == ServerEngine::Epoll {
        let (name, how, value) = match server.trigger {
            Trigger::Level => ("trigger edge", "add EPOLLET in epoll_ctl, and receive until EAGAIN", "edge"),
            Trigger::Edge => ("trigger level", "remove EPOLLET from epoll_ctl", "level"),
        };
        all.push(one(name, Effort::Lines, how, "trigger", value));
        return all;
    }
    all.extend(receives(Some(server.receive)));
    if base.sender.reconnect_after.is_some() {
        let (name, how, value) = match server.accept {
            Accept::Single => {
                ("accept multishot", "io_uring_prep_multishot_accept once; Linux 5.19 or later", "multishot")
            }
            Accept::Multishot => ("accept single", "io_uring_prep_accept once per connection", "single"),
        };
        all.push(one(name, Effort::Lines, how, "accept", value));
    }
    if server.register.is_empty() {
        let how = "io_uring_register_files_sparse, accept into direct descriptors, then IOSQE_FIXED_FILE; io_uring_register_ring_fd in \
                   each thread; Linux 5.19 or later";
        all.push(one("register files,ring", Effort::Lines, how, "register", "files,ring"));
    }
    let each = in_flight(base, online);
    if server.wait_for == 1 && each >= 4 {
        let n = (each / 2).min(AT_ONCE);
        let how = format!("wait for {n} completions, at most {PATIENCE}: io_uring_submit_and_wait_timeout");
        let mut wait = one(&format!("wait-for {n}"), Effort::Lines, &how, "wait-for", i64::from(n));
        wait.options.insert("wait-timeout".into(), PATIENCE.into());
        all.push(wait);
    }
    if base.sender.response.0 >= PAGE && server.zero_copy.is_none() && base.between != Between::Unix {
        let how = "io_uring_prep_send_zc; a buffer is free after its second completion (IORING_CQE_F_NOTIF); Linux 6.0 or later";
        all.push(one("zero-copy 4k", Effort::Lines, how, "zero-copy", "4k"));
    }
    all
}

fn listed(list: Option<&str>, online: &[u32]) -> Vec<u32> {
    list.and_then(|list| cpus::resolve(list, None, online).ok()).unwrap_or_default()
}

/// Maximum number of requests in flight per server thread.
fn in_flight(base: &NetOptions, online: &[u32]) -> u32 {
    let bound = listed(base.server.server_cpus.as_deref(), online).len();
    let each_cpu = if bound == 0 { online.len() } else { bound } as u32;
    let threads = base.server.server_threads.unwrap_or(each_cpu).max(1);
    base.sender.connections.saturating_mul(base.sender.window) / threads
}

fn receives(now: Option<Receive>) -> Vec<Move> {
    let all = [
        (Receive::Single, "one io_uring_prep_recv per receive, into the connection's own buffer", "opcode::Recv"),
        (
            Receive::Provided,
            "io_uring_setup_buf_ring, then io_uring_prep_recv with IOSQE_BUFFER_SELECT; Linux 5.19 or later",
            "opcode::Recv with .buf_group(GROUP) and Flags::BUFFER_SELECT",
        ),
        (
            Receive::Multishot,
            "io_uring_setup_buf_ring, then io_uring_prep_recv_multishot once per connection; Linux 6.0 or later",
            "opcode::RecvMulti",
        ),
        (
            Receive::Bundle,
            "io_uring_prep_recv_multishot with IORING_RECVSEND_BUNDLE in ioprio: one completion, several buffers; Linux 6.10 or later",
            "opcode::RecvMultiBundle",
        ),
    ];
    // Candidates that change the engine already use multishot.
    let now = now.unwrap_or(Receive::Multishot);
    let of = |(receive, c, rust): (Receive, &str, &str)| {
        let text = receive.to_string();
        let mut m =
            one(&format!("receive {text}"), Effort::Lines, &format!("C, liburing: {c}"), "receive", text.as_str());
        m.how.push(format!("Rust, io-uring: {rust}"));
        m
    };
    all.into_iter().filter(|(receive, ..)| *receive != now).map(of).collect()
}

/// Adds the command that starts this server.
fn with_command(mut p: Proposed, given: &Table) -> Proposed {
    let mut all = given.clone();
    all.extend(p.options.clone());
    let names = names_of::<ServerOptions>();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let options = all.iter().filter(|(name, _)| names.contains(name)).map(|(name, v)| format!(" --{name} {}", text(v)));
    if !p.options.is_empty() {
        p.candidate.how.push(format!("here: iotrail net serve ADDRESS{}", options.collect::<String>()));
    }
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Vec<Proposed>, Vec<LeftOut>) {
        let given: Table = toml::from_str(text).unwrap();
        of_net(&NetOptions::from_table(given.clone()).unwrap(), &given, &[0, 1])
    }

    fn names(all: &[Proposed]) -> Vec<&str> {
        all.iter().map(|p| p.candidate.name.as_str()).collect()
    }

    #[test]
    fn io_uring_server_candidates_vary_flags_options_cpus_and_engine() {
        let (all, out) = of("connections = 16");
        assert_eq!(
            names(&all),
            [
                "as-is",
                "server-threads 1",
                "server-cpus 0-1",
                "coop_taskrun,taskrun_flag",
                "single_issuer",
                "defer_taskrun,single_issuer",
                "sqpoll",
                "receive single",
                "receive provided",
                "receive bundle",
                "register files,ring",
                "wait-for 4",
                "defer_taskrun,single_issuer · server-threads 1",
                "defer_taskrun,single_issuer · server-cpus 0-1",
                "defer_taskrun,single_issuer · receive single",
                "defer_taskrun,single_issuer · receive provided",
                "defer_taskrun,single_issuer · receive bundle",
                "defer_taskrun,single_issuer · register files,ring",
                "defer_taskrun,single_issuer · wait-for 4",
                "engine epoll",
                "engine epoll · edge",
                "engine epoll · server-threads 1",
                "engine epoll · server-cpus 0-1",
            ]
        );
        let bundle = &all[9].candidate;
        assert_eq!(bundle.effort, Effort::Lines);
        assert_eq!(bundle.how.last().unwrap(), "here: iotrail net serve ADDRESS --receive bundle");
        assert_eq!(all[19].candidate.effort, Effort::Redesign);
        assert_eq!(out.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["napi", "zero-copy"]);
        assert_eq!(out[1].reason, "a response of 64 B is less than a page, and each send costs a second completion");
    }

    #[test]
    fn epoll_server_candidates_vary_the_trigger_and_include_io_uring() {
        let (all, out) = of("engine = \"epoll\"\nserver-cpus = \"0\"");
        let names = names(&all);
        assert_eq!(names[..3], ["as-is", "trigger edge", "engine io_uring"]);
        assert!(names.contains(&"engine io_uring · defer_taskrun,single_issuer · receive bundle"), "{names:?}");
        assert!(!names.iter().any(|n| n.contains("server-cpus") || n.contains("threads")), "{names:?}");
        assert_eq!(all[2].candidate.how[1], "here: iotrail net serve ADDRESS --engine io_uring --server-cpus 0");
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn rejected_server_options_are_reported_and_are_not_candidates() {
        let (all, out) =
            of("ring = \"sqpoll\"\nsq-idle = 5\nresponse = \"16k\"\nbetween = \"unix\"\nrequest = \"16k\"");
        let names = names(&all);
        assert!(!names.contains(&"single_issuer") && names.contains(&"buffer-size 64k"), "{names:?}");
        assert!(!names.iter().any(|n| n.starts_with("zero-copy")), "{names:?}");
        let reason = |name: &str| out.iter().find(|o| o.name == name).unwrap().reason.clone();
        assert_eq!(reason("single_issuer"), "--sq-idle needs an SQPOLL thread; add --ring sqpoll");
        assert_eq!(reason("zero-copy"), "a UNIX socket has no zero-copy sends");
    }
}
