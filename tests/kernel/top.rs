//! `top` beside a load that says itself how much it did.

use std::process::{Child, Command, Stdio};

use iotrail::measurement::Measurement;
use iotrail::top_record::{SCHEMA, TopRecord};
use libtest_mimic::{Failed, Trial};

use crate::bench::{file, until};

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("top::completions_a_second_agree_with_the_load", completions),
        Trial::test("top::a_reader_that_goes_away_ends_it", reader_goes),
    ]
}

/// The tool, ended with SIGINT if the test does not wait for it.
struct Beside(Option<Child>);

impl Beside {
    fn bench(options: &[&str]) -> Result<Self, Failed> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotrail"));
        command.args(["bench", "--json", "--trace", "off", "--warmup", "0"]).args(options).arg("--file").arg(file());
        Ok(Beside(Some(command.stdout(Stdio::piped()).spawn()?)))
    }

    fn id(&self) -> u32 {
        self.0.as_ref().expect("it was not waited for").id()
    }

    fn stop(mut self) -> Result<Measurement, Failed> {
        let child = self.0.take().expect("it was not waited for");
        // SAFETY: a signal to our own child, whose end nobody has waited for; the call touches no memory.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
        let ended = child.wait_with_output()?;
        assert!(ended.status.success(), "the load: {}", ended.status);
        Ok(serde_json::from_slice(&ended.stdout)?)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().and_then(|()| child.wait()).expect("our own child");
        }
    }
}

fn completions() -> Result<(), Failed> {
    let attempt = || -> Result<(Measurement, Vec<TopRecord>), Failed> {
        // An even load: what it does in one second is what it does in another.
        let load = Beside::bench(&["--runtime", "600s", "--depth", "4", "--rate", "4000"])?;
        let tgid = load.id();
        let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
            .args(["top", "-n", "2", "--json", "--one-in", "1", "-p", &tgid.to_string()])
            .output()?;
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let lines: Vec<TopRecord> =
            String::from_utf8(out.stdout)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        assert_eq!(lines.iter().map(|t| t.interval).collect::<Vec<_>>(), [1, 2]);
        for t in &lines {
            assert_eq!((t.schema.as_str(), t.total.lost, t.rings.len(), t.processes.len()), (SCHEMA, 0, 1, 1));
            assert_eq!((t.rings[0].tgid, t.rings[0].opcodes.len()), (tgid, 1));
        }
        Ok((load.stop()?, lines))
    };
    let (m, lines) = until(
        || attempt().expect("both can be run"),
        |(m, lines)| {
            let near = |what: &str, ours: f64, theirs: f64| {
                let so = (ours - theirs).abs() <= 0.1 * theirs;
                so.then_some(()).ok_or(format!("{what}: {ours} against {theirs}"))
            };
            for t in lines {
                near("all", t.total.rates.completions_per_s, m.iops)?;
                near("the ring's", t.rings[0].rates.completions_per_s, m.iops)?;
                near("the process's", t.processes[0].rates.completions_per_s, m.iops)?;
                near("bytes", t.rings[0].rates.bytes_per_s, m.iops * m.load.bs as f64)?;
                let carried: u64 = t.rings[0].rates.vehicles.iter().map(|v| v.completions).sum();
                near("carried", carried as f64 * 1e9 / t.elapsed_ns as f64, m.iops)?;
                near("followed", t.rings[0].rates.latency_ns.count as f64 * 1e9 / t.elapsed_ns as f64, m.iops)?;
            }
            Ok(())
        },
    );
    assert!(m.ios > 0 && lines[1].rings[0].rates.latency_ns.p99.is_some());
    Ok(())
}

fn reader_goes() -> Result<(), Failed> {
    // The shell's own status is the tool's: head ends after the first line.
    let tool = env!("CARGO_BIN_EXE_iotrail");
    let script = format!("{{ {tool} top -i 0.2 --json; echo status $? >&2; }} | head -1");
    let out = Command::new("sh").args(["-c", &script]).output()?;
    assert_eq!(String::from_utf8_lossy(&out.stderr), "status 0\n");
    assert_eq!(String::from_utf8(out.stdout)?.lines().count(), 1);
    Ok(())
}
