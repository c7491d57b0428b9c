//! Runs a command and prints the delivery path of each of its io_uring completions: `paths COMMAND [ARGUMENT…]`.

use std::process::Command;

use uring_trace::{Completion, Tracer};

fn print(c: Completion) {
    let latency = c.latency.map_or_else(|| "-".into(), |latency| format!("{latency:.1?}"));
    let ring = c.ring.map_or_else(|| "-".into(), |ring| ring.to_string());
    let (cpu, detail) = (c.posted.cpu, c.path_detail.unwrap_or_default());
    println!("thread {} ring {ring} {} = {} in {latency}, CPU {cpu}: {} {detail}", c.tid, c.opcode, c.result, c.path);
}

fn main() {
    if let Err(e) = run() {
        eprintln!("paths: {e}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1);
    let mut command = Command::new(words.next().ok_or("usage: paths COMMAND [ARGUMENT…]")?);
    command.args(words);
    let (status, totals) = Tracer::new().command(command, print)?;
    println!("{status}: {} requests, {} completions", totals.requests, totals.completions);
    for (path, completions) in &totals.paths {
        println!("{completions:>10}  {path}");
    }
    if totals.losses.any() {
        println!("incomplete: {:?}", totals.losses);
    }
    Ok(())
}
