//! The server's options by name, in the form that a measurement records.

use serde_json::{Map, Value, json};

use super::spec::ServerSpec;
use crate::options::ServerEngine;

impl ServerSpec {
    /// The options that apply to the engine, as resolved, by command-line name; null if not specified.
    pub fn record(&self) -> Map<String, Value> {
        let o = &self.options;
        let cpus = (!self.cpus.is_empty()).then_some(&self.cpus);
        let ns = |span: Option<iotrail_base::units::Span>| span.map(|s| s.0.as_nanos() as u64);
        let mut all = vec![
            ("server-threads", json!(self.threads)),
            ("server-cpus", json!(cpus)),
            ("buffer-size", json!(self.buffer_bytes)),
            ("napi_ns", json!(ns(o.napi))),
        ];
        match o.engine {
            ServerEngine::Epoll => all.push(("trigger", json!(o.trigger.to_string()))),
            ServerEngine::IoUring => all.extend([
                ("ring", json!(self.setup.names())),
                ("sq-cpu", json!(o.sq_cpu)),
                ("sq-idle_ms", json!(o.sq_idle)),
                ("register", json!(self.registered())),
                ("receive", json!(o.receive.to_string())),
                ("accept", json!(o.accept.to_string())),
                ("buffers", json!(o.buffers)),
                ("zero-copy", json!(o.zero_copy.map(|b| b.0))),
                ("wait-for", json!(o.wait_for)),
                ("wait-timeout_ns", json!(ns(o.wait_timeout))),
                ("min-wait_ns", json!(ns(o.min_wait))),
                ("no-iowait", json!(o.no_iowait)),
            ]),
        }
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Objects registered with the ring.
    pub fn registered(&self) -> Vec<String> {
        let each = [("files", self.register_files), ("ring", self.register_ring), ("wait", self.register_waits)];
        each.iter().filter(|(_, on)| *on).map(|(name, _)| name.to_string()).collect()
    }
}
