//! A network load in words: the server, its requests, and whether the sender is saturated.

use crate::compare::Metric;
use iotrail_base::words::{bytes, numbers, plural};
use iotrail_schema::net_record::NetRecord;
use iotrail_schema::run_record::RunRecord;
use serde_json::Value;

/// `io_uring, receive multishot, 2 threads; 16 connections, window 1, 64 B request and response, over loopback`.
pub fn words(net: &NetRecord) -> String {
    let mut server = Vec::new();
    if let Some(s) = &net.server {
        let text = |name: &str| s.options.get(name).and_then(Value::as_str).map(|value| format!("{name} {value}"));
        let names = |name: &str| {
            let all: Vec<&str> = s.options.get(name)?.as_array()?.iter().filter_map(Value::as_str).collect();
            (!all.is_empty()).then(|| format!("{name} {}", all.join(",")))
        };
        let cpus: Option<Vec<u32>> = s.options.get("server-cpus").and_then(|v| serde_json::from_value(v.clone()).ok());
        server.push(s.engine.to_string());
        server.extend(text("trigger").into_iter().chain(text("receive")).chain(names("ring")).chain(names("register")));
        let threads = s.options.get("server-threads").and_then(Value::as_u64);
        server.extend(threads.map(|n| plural(n as usize, "thread")));
        server.extend(cpus.map(|cpus| format!("CPU{} {}", if cpus.len() > 1 { "s" } else { "" }, numbers(&cpus))));
    }
    let a = &net.asked;
    let sizes = match a.request_bytes == a.response_bytes {
        true => format!("{} request and response", bytes(a.request_bytes.into())),
        false => format!("{} request, {} response", bytes(a.request_bytes.into()), bytes(a.response_bytes.into())),
    };
    let mut asked = vec![plural(a.connections as usize, "connection"), format!("window {}", a.window), sizes];
    asked.extend(a.rate.map(|rate| format!("{rate} requests per second")));
    let between = match net.between.as_str() {
        "namespaces" => "between network namespaces",
        "loopback" => "over loopback",
        "unix" => "over a UNIX socket",
        _ => "between two machines",
    };
    format!("{}; {}, {between}", server.join(", "), asked.join(", "))
}

/// A saturated sender measures its own rate, whatever the search's objective, unless that is the server's CPU time.
pub fn sender_bound(run: &RunRecord, objective: &str) -> Option<String> {
    let bound = run.measurements().filter(|m| m.warnings.iter().any(|w| w.code == "sender_bound")).count();
    (bound > 0 && objective != Metric::CpuPerIo.name()).then(|| {
        format!(
            "in {bound} of {} the sender was at its limit, so the server may be faster; --objective cpu compares the server's CPU time per request",
            plural(run.done(), "measurement")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::made;
    use iotrail_schema::measurement::Warning;
    use iotrail_schema::net_record::{SenderPlan, ServerRecord};
    use serde_json::json;

    #[test]
    fn a_server_is_described_with_its_options_and_connections() {
        let options = json!({"server-threads": 2, "server-cpus": [0, 1], "receive": "multishot", "ring": ["sqpoll"], "register": []});
        let server = ServerRecord {
            engine: "io_uring".into(),
            options: options.as_object().unwrap().clone(),
            ..ServerRecord::default()
        };
        let asked =
            SenderPlan { connections: 16, window: 1, request_bytes: 64, response_bytes: 4096, ..SenderPlan::default() };
        let net = NetRecord { between: "loopback".into(), server: Some(server), asked, ..NetRecord::default() };
        assert_eq!(
            words(&net),
            "io_uring, receive multishot, ring sqpoll, 2 threads, CPUs 0,1; 16 connections, window 1, 64 B request, 4 KiB response, \
             over loopback"
        );
    }

    #[test]
    fn a_saturated_sender_is_reported_if_it_affects_the_objective() {
        let mut run = made::search(&[1.0, 1.3], 2);
        assert_eq!(sender_bound(&run, "iops"), None);
        run.cells[0].measurements.open()[0].warnings.push(Warning::new("sender_bound", "", ""));
        let said = sender_bound(&run, "iops").unwrap();
        assert!(said.starts_with("in 1 of 4 measurements the sender was at its limit, so "), "{said}");
        assert_eq!(sender_bound(&run, "cpu_per_io"), None);
    }
}
