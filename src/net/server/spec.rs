//! The server's options, checked: nothing after this parses or guesses a default.

use crate::engine::io_uring::flags::Setup;
use crate::error::{Error, Result};
use crate::load::cpus;
use crate::net::options::ServerOptions;

/// Receive buffers may be so small and so large.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 64..=1 << 20;

#[derive(Debug, Clone, PartialEq)]
pub struct ServerSpec {
    pub options: ServerOptions,
    pub threads: usize,
    /// Of the threads, round-robin; empty: not bound.
    pub cpus: Vec<u32>,
    pub setup: Setup,
    pub buffer_bytes: usize,
    pub register_files: bool,
    pub register_ring: bool,
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
            return Err(Error::input(format!("--server-threads {threads}"), "use 1 to 1024"));
        }
        let size = options.buffer_size.0;
        if !BUFFER_BYTES.contains(&size) {
            return Err(Error::input(format!("--buffer-size {size}"), "use 64 bytes to 1M"));
        }
        let setup: Setup = options
            .ring
            .parse()
            .map_err(|r: crate::engine::io_uring::flags::Refusal| Error::input(r.what, r.remedy))?;
        let mut spec = ServerSpec {
            options: options.clone(),
            threads,
            cpus,
            setup,
            buffer_bytes: size as usize,
            register_files: false,
            register_ring: false,
        };
        for word in options.register.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word {
                "files" => spec.register_files = true,
                "ring" => spec.register_ring = true,
                other => return Err(Error::input(format!("--register {other}"), "use files or ring")),
            }
        }
        Ok(spec)
    }
}
