//! The host names that a request may contain.
//!
//! A web page can make a browser send requests here under the page's host name (DNS rebinding) and read the responses.
//! So the name must belong to this machine or be specified by the user. IP addresses are safe, as are requests without
//! a name, which no browser sends.

use std::net::IpAddr;

pub struct Hosts(Vec<String>);

impl Hosts {
    /// `named`: the name specified by --metrics.
    pub fn new(named: Option<String>) -> Self {
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Hosts(named.into_iter().chain([own]).collect())
    }

    /// `host`: `NAME`, `NAME:PORT`, `[::1]:PORT`.
    pub fn allow(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((inner, _)) => inner,
            None => host.split(':').next().unwrap_or_default(),
        };
        // The scope (`fe80::1%eth0`) is not part of the address.
        let is_address = name.split('%').next().is_some_and(|address| address.parse::<IpAddr>().is_ok());
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        is_address
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.0.iter().any(|own| own.eq_ignore_ascii_case(&name))
    }
}

/// Splits a request's target into its authority, if absolute (`http://host/path`), and its path.
pub fn split(target: &str) -> (Option<&str>, &str) {
    const SCHEME: &str = "http://";
    match target.split_at_checked(SCHEME.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        _ => (None, target),
    }
}
