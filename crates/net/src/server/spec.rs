//! The server's validated options. No later code parses options or chooses defaults.

use crate::options::{Receive, ServerEngine, ServerOptions};
use iotrail_base::error::{Error, Result};
use iotrail_load::cpus;
use iotrail_load::engine::io_uring::flags::{Flag, Refusal, Setup};

/// Submission entries of each io_uring ring.
pub const SQ_ENTRIES: u32 = 512;
/// Page size for zero-copy receive.
pub const PAGE: usize = 4096;
/// Valid receive buffer sizes.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 64..=1 << 20;
/// The kernel's maximum for a buffer ring, and iotrail's maximum for the buffers' memory, which is allocated at
/// startup.
const MOST_BUFFERS: u32 = 1 << 15;
const MOST_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, PartialEq)]
pub struct ServerSpec {
    pub options: ServerOptions,
    pub threads: usize,
    /// The threads' CPUs, assigned round-robin; empty if not pinned.
    pub cpus: Vec<u32>,
    /// The CPUs on which unpinned threads may run.
    pub online: Vec<u32>,
    pub setup: Setup,
    pub buffer_bytes: usize,
    pub register_files: bool,
    pub register_ring: bool,
    pub register_waits: bool,
}

impl ServerSpec {
    pub fn resolve(options: &ServerOptions, online: &[u32]) -> Result<Self> {
        let cpus = match &options.server_cpus {
            Some(list) => cpus::resolve(list, None, online)?,
            None => vec![],
        };
        let default = if cpus.is_empty() { online.len() } else { cpus.len() };
        let threads = options.server_threads.map_or(default, |n| n as usize);
        if threads == 0 || threads > 1024 {
            return Err(Error::input(format!("invalid --server-threads {threads}"), "use 1 to 1024"));
        }
        let size = options.buffer_size.0;
        if !BUFFER_BYTES.contains(&size) {
            return Err(Error::input(format!("invalid --buffer-size {size}"), "use 64 bytes to 1M"));
        }
        let setup: Setup = options.ring.parse().map_err(refused)?;
        let mut spec = ServerSpec {
            options: options.clone(),
            threads,
            cpus,
            online: online.to_vec(),
            setup,
            buffer_bytes: size as usize,
            register_files: false,
            register_ring: false,
            register_waits: false,
        };
        for word in options.register.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word {
                "files" => spec.register_files = true,
                "ring" => spec.register_ring = true,
                "wait" => spec.register_waits = true,
                other => return Err(Error::input(format!("cannot register '{other}'"), "use files, ring or wait")),
            }
        }
        if options.engine == ServerEngine::IoUring {
            spec.check_ring(online)?;
        }
        Ok(spec)
    }

    /// Checks the rules that are the same for all kernels.
    fn check_ring(&self, online: &[u32]) -> Result<()> {
        let options = &self.options;
        if let Some(flag) = [Flag::Iopoll, Flag::HybridIopoll].into_iter().find(|f| self.setup.has(*f)) {
            let what = format!("ring flag {} polls drives, not sockets", flag.name());
            return Err(Error::input(what, format!("omit {}", flag.name())));
        }
        if let Some(n) = self.setup.cq_entries.filter(|n| n.next_power_of_two() < SQ_ENTRIES) {
            let what = format!("cqsize={n} is less than the server's {SQ_ENTRIES} submission entries");
            return Err(Error::input(what, format!("use cqsize={SQ_ENTRIES} or more")));
        }
        self.setup.check(SQ_ENTRIES).map_err(refused)?;
        if !self.setup.has(Flag::Sqpoll) {
            for (option, given) in [("--sq-cpu", options.sq_cpu.is_some()), ("--sq-idle", options.sq_idle.is_some())] {
                if given {
                    return Err(Error::input(format!("{option} needs an SQPOLL thread"), "add --ring sqpoll"));
                }
            }
        }
        if let Some(cpu) = options.sq_cpu {
            cpus::online(cpu, online, "--sq-cpu")?;
        }
        let (count, size) = (options.buffers, options.buffer_size.0);
        if options.receive != Receive::Single {
            if !count.is_power_of_two() || count > MOST_BUFFERS {
                return Err(Error::input(
                    format!("invalid --buffers {count}"),
                    format!("use a power of two, at most {MOST_BUFFERS}"),
                ));
            }
            if u64::from(count) * size > MOST_BYTES {
                let what = format!("--buffers {count} of {size} bytes need more than 1 GiB per thread");
                return Err(Error::input(what, "use fewer, or a smaller --buffer-size"));
            }
        }
        if options.receive == Receive::Zcrx {
            if !self.setup.has(Flag::DeferTaskrun) {
                let remedy = "add --ring defer_taskrun,single_issuer";
                return Err(Error::input("--receive zcrx needs ring flag defer_taskrun", remedy));
            }
            if size != PAGE as u64 {
                return Err(Error::input("--receive zcrx places data in pages", "omit --buffer-size"));
            }
        }
        let min_wait_us = options.min_wait.map(|span| span.0.as_micros());
        match (options.wait_for, min_wait_us) {
            (0, _) => Err(Error::input("invalid --wait-for 0", "use 1 or more")),
            (_, Some(us @ (0 | 1_000_001..))) => {
                Err(Error::input(format!("--min-wait {us} µs is out of range"), "use 1us to 1s"))
            }
            (1, Some(_)) => Err(Error::input("--min-wait has no effect with --wait-for 1", "use a larger --wait-for")),
            (n @ 2.., None) if options.wait_timeout.is_none() => {
                let what = format!("--wait-for {n} without a timeout: requests could wait indefinitely");
                Err(Error::input(what, "add --wait-timeout 100us or --min-wait 100us"))
            }
            _ => Ok(()),
        }
    }
}

fn refused(r: Refusal) -> Error {
    Error::input(r.what, r.remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: fn(&mut ServerOptions)) -> String {
        let mut options = ServerOptions::default();
        change(&mut options);
        ServerSpec::resolve(&options, &[0, 1]).unwrap_err().to_string()
    }

    #[test]
    fn contradictory_server_options_are_rejected_with_a_remedy() {
        assert_eq!(refused(|o| o.buffers = 1000), "invalid --buffers 1000; use a power of two, at most 32768");
        assert_eq!(
            refused(|o| o.wait_for = 8),
            "--wait-for 8 without a timeout: requests could wait indefinitely; add --wait-timeout 100us or --min-wait 100us"
        );
        fn min_wait(text: &str) -> Option<iotrail_base::units::Span> {
            Some(text.parse().unwrap())
        }
        assert_eq!(
            refused(|o| o.min_wait = min_wait("1ms")),
            "--min-wait has no effect with --wait-for 1; use a larger --wait-for"
        );
        assert_eq!(
            refused(|o| (o.wait_for, o.min_wait) = (8, min_wait("2s"))),
            "--min-wait 2000000 µs is out of range; use 1us to 1s"
        );
        let zcrx = |o: &mut ServerOptions| o.receive = Receive::Zcrx;
        assert_eq!(
            refused(zcrx),
            "--receive zcrx needs ring flag defer_taskrun; add --ring defer_taskrun,single_issuer"
        );
        assert_eq!(refused(|o| o.ring = "iopoll".into()), "ring flag iopoll polls drives, not sockets; omit iopoll");
        assert!(refused(|o| o.ring = "cqsize=64".into()).ends_with("; use cqsize=512 or more"));
        assert!(refused(|o| o.ring = "defer_taskrun".into()).ends_with("; add single_issuer"));
        assert_eq!(refused(|o| o.sq_idle = Some(5)), "--sq-idle needs an SQPOLL thread; add --ring sqpoll");
        assert!(refused(|o| (o.buffers, o.buffer_size) = (32768, "64k".parse().unwrap())).contains("more than 1 GiB"));
    }

    #[test]
    fn the_epoll_engine_ignores_ring_options() {
        let options =
            ServerOptions { engine: ServerEngine::Epoll, buffers: 1000, wait_for: 8, ..ServerOptions::default() };
        assert_eq!(ServerSpec::resolve(&options, &[0, 1]).unwrap().threads, 2);
    }
}
