//! The sender's validated options. No later code parses options or chooses defaults.

use std::time::Duration;

use crate::options::{Check, SenderOptions};
use crate::wire;
use iotrail_base::error::{Error, Result};
use iotrail_base::units::Bytes;
use iotrail_load::cpus;
use iotrail_load::spec::End;
use iotrail_schema::net_record::SenderPlan;
use iotrail_stats::random::fresh_seed;

/// Each in-flight request has a timestamp of 8 bytes.
const WINDOW_MAX: u32 = 65_536;
const IN_FLIGHT_MAX: u64 = 1 << 24;
const THREADS_MAX: u32 = 1024;

#[derive(Debug, Clone, PartialEq)]
pub struct SenderSpec {
    pub connections: u32,
    pub window: u32,
    pub request_bytes: u32,
    pub response_bytes: u32,
    /// At most as many as connections.
    pub threads: u32,
    /// The threads' CPUs, assigned round-robin; empty if not pinned.
    pub cpus: Vec<u32>,
    /// Requests per second over all connections; `None` for a closed loop.
    pub rate: Option<f64>,
    /// At most the window.
    pub burst: u32,
    pub reconnect_after: Option<u64>,
    pub reconnect: bool,
    pub idle_connections: u32,
    pub check: Check,
    pub give_up: Duration,
    pub end: End,
    pub warmup: Duration,
    /// The same seed produces the same bytes.
    pub seed: u32,
}

impl SenderSpec {
    pub fn resolve(o: &SenderOptions, online: &[u32]) -> Result<Self> {
        let cpus = match &o.sender_cpus {
            Some(list) => cpus::resolve(list, None, online)?,
            None => vec![],
        };
        if o.connections == 0 {
            return Err(Error::input("--connections 0 sends nothing", "use 1 or more"));
        }
        if !(1..=WINDOW_MAX).contains(&o.window) {
            return Err(Error::input(format!("invalid --window {}", o.window), format!("use 1 to {WINDOW_MAX}")));
        }
        if u64::from(o.connections) * u64::from(o.window) > IN_FLIGHT_MAX {
            return Err(Error::input(
                format!("--connections {} with --window {}: too many requests in flight", o.connections, o.window),
                format!("use at most {IN_FLIGHT_MAX} across all connections"),
            ));
        }
        if o.burst == 0 || o.burst > o.window {
            return Err(Error::input(
                format!("invalid --burst {} with --window {}", o.burst, o.window),
                "use 1 or more, but at most the window: a burst is in flight all at once",
            ));
        }
        if !(1..=THREADS_MAX).contains(&o.sender_threads) || o.sender_threads > o.connections {
            return Err(Error::input(
                format!("invalid --sender-threads {} with --connections {}", o.sender_threads, o.connections),
                format!("use 1 to {THREADS_MAX}, and at most one per connection"),
            ));
        }
        if let Some(rate) = o.rate
            && !(rate > 0.0 && rate <= 1e9)
        {
            return Err(Error::input(
                format!("invalid --rate {rate}"),
                "use requests per second, above 0 and at most one billion",
            ));
        }
        if o.reconnect_after == Some(0) {
            return Err(Error::input("--reconnect-after 0 sends nothing", "use 1 or more responses"));
        }
        if o.give_up.0.is_zero() {
            return Err(Error::input("--give-up 0 leaves no time for a response", "use a longer time"));
        }
        Ok(Self {
            connections: o.connections,
            window: o.window,
            request_bytes: size(o.request, "--request")?,
            response_bytes: size(o.response, "--response")?,
            threads: o.sender_threads,
            cpus,
            rate: o.rate,
            burst: o.burst,
            reconnect_after: o.reconnect_after,
            reconnect: o.reconnect,
            idle_connections: o.idle_connections,
            check: o.check,
            give_up: o.give_up.0,
            end: End::of(o.count, o.runtime)?,
            warmup: o.warmup.0,
            seed: o.seed.unwrap_or_else(fresh_seed),
        })
    }

    /// The CPU to which a thread is pinned.
    pub fn cpu_of(&self, thread: u32) -> Option<u32> {
        self.cpus.get(thread as usize % self.cpus.len().max(1)).copied()
    }

    /// One thread's share of `of` items that belong to connections or are divided among them; all threads' shares add
    /// up to `of`.
    pub fn share(&self, of: u64, thread: u32) -> u64 {
        let up_to = |connections: u32| (u128::from(of) * u128::from(connections) / u128::from(self.connections)) as u64;
        up_to(self.first_connection(thread + 1)) - up_to(self.first_connection(thread))
    }

    /// Index of this thread's first connection; connections are distributed as evenly as possible.
    fn first_connection(&self, thread: u32) -> u32 {
        (u64::from(self.connections) * u64::from(thread) / u64::from(self.threads)) as u32
    }

    /// The options in the form that a measurement records.
    pub fn asked(&self) -> SenderPlan {
        let cpus = (0..self.threads).filter_map(|thread| self.cpu_of(thread));
        SenderPlan {
            connections: self.connections,
            window: self.window,
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            threads: self.threads,
            cpus: (!self.cpus.is_empty()).then(|| cpus.collect()),
            rate: self.rate,
            burst: self.burst,
            reconnect_after: self.reconnect_after,
            reconnect: self.reconnect,
            idle_connections: self.idle_connections,
            check: self.check.to_string(),
            seed: Some(self.seed),
        }
    }
}

fn size(bytes: Bytes, option: &str) -> Result<u32> {
    match u32::try_from(bytes.0) {
        Ok(n) if (1..=wire::MOST).contains(&n) => Ok(n),
        _ => Err(Error::input(
            format!("invalid {option} {}", bytes.0),
            format!("use 1 byte to {} MiB", wire::MOST >> 20),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_sender_options_are_rejected_with_a_reason() {
        let o = SenderOptions::default;
        for (options, said) in [
            (SenderOptions { connections: 0, ..o() }, "--connections 0"),
            (SenderOptions { window: 0, ..o() }, "--window 0"),
            (SenderOptions { window: 65_536, connections: 257, ..o() }, "too many requests in flight"),
            (SenderOptions { burst: 2, ..o() }, "at most the window"),
            (SenderOptions { sender_threads: 5, ..o() }, "at most one per connection"),
            (SenderOptions { sender_threads: 0, ..o() }, "--sender-threads 0"),
            (SenderOptions { rate: Some(0.0), ..o() }, "invalid --rate 0"),
            (SenderOptions { reconnect_after: Some(0), ..o() }, "--reconnect-after 0"),
            (SenderOptions { count: Some(0), ..o() }, "--count 0"),
            (SenderOptions { request: Bytes(0), ..o() }, "--request 0"),
            (SenderOptions { response: Bytes(65 << 20), ..o() }, "1 byte to 64 MiB"),
            (SenderOptions { sender_cpus: Some("7".into()), ..o() }, "CPU 7 does not exist"),
        ] {
            let e = SenderSpec::resolve(&options, &[0, 1]).unwrap_err();
            assert!(e.to_string().contains(said), "{e}");
            assert_eq!(e.exit_status(), 2);
        }
    }

    #[test]
    fn connections_are_divided_evenly_among_threads() {
        let options = SenderOptions { connections: 5, sender_threads: 3, ..SenderOptions::default() };
        let spec = SenderSpec::resolve(&options, &[0]).unwrap();
        let shares = |of| (0..3).map(|t| spec.share(of, t)).collect::<Vec<_>>();
        assert_eq!(shares(5), [1, 2, 2]);
        assert_eq!(shares(1001).iter().sum::<u64>(), 1001);
        assert_eq!(shares(0), [0, 0, 0]);
    }

    #[test]
    fn sender_threads_are_assigned_to_cpus_round_robin() {
        let options = SenderOptions { sender_threads: 3, sender_cpus: Some("1,0".into()), ..SenderOptions::default() };
        let spec = SenderSpec::resolve(&options, &[0, 1]).unwrap();
        assert_eq!(spec.asked().cpus, Some(vec![1, 0, 1]));
        assert_eq!(SenderSpec::resolve(&SenderOptions::default(), &[0]).unwrap().asked().cpus, None);
    }
}
