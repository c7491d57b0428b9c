//! fio's engines, and the kernel features that they use.

use toml::Value;

use iotrail_base::words::list;
use iotrail_load::engine::capabilities::{Engine, TargetKind};
use iotrail_load::options::EngineKind;

use super::Fault;
use super::job::{Setting, no_value};
use super::map::Mapping;

/// fio's names of supported engines, those without a target last.
fn names() -> String {
    let of = |kind: &EngineKind| {
        let engine = kind.engine();
        engine.fio.iter().map(|name| (engine.target == TargetKind::Nothing, (*name).to_owned())).collect::<Vec<_>>()
    };
    let mut names: Vec<(bool, String)> = EngineKind::ALL.iter().flat_map(of).collect();
    names.sort_unstable();
    list(&names.into_iter().map(|(_, name)| name).collect::<Vec<_>>())
}

impl Mapping {
    pub(super) fn engine(&mut self) -> Result<&'static Engine, Fault> {
        let engine = match self.take("ioengine") {
            None => {
                self.note("without ioengine, fio uses psync: plain reads and writes");
                EngineKind::Sync
            }
            Some(s) => {
                let name = s.value.clone().unwrap_or_default();
                EngineKind::of_fio(&name).ok_or_else(|| {
                    Fault::line(
                        s.line,
                        format!("ioengine={name} has no counterpart: the supported engines are {}", names()),
                    )
                })?
            }
        };
        let engine = engine.engine();
        self.set("engine", engine.name);
        Ok(engine)
    }

    pub(super) fn depth(&mut self, engine: &Engine) -> Result<(), Fault> {
        let depth = self.take("iodepth");
        let batch = self.take("iodepth_batch");
        if engine.one_in_flight.is_some() {
            for (name, s) in [("iodepth", &depth), ("iodepth_batch", &batch)] {
                if let Some(s) = s.as_ref().filter(|s| s.value.as_deref() != Some("1")) {
                    self.unmapped(name, s, "a synchronous engine has one I/O in flight, in fio too");
                }
            }
            self.set("depth", 1);
            return Ok(());
        }
        let read = |name: &str, s: Option<Setting>, kb_base| match s {
            None => Ok((None, 1)),
            Some(s) => match s.number(kb_base) {
                Some(n) => Ok((Some(s.line), n)),
                None => Err(no_value(name, &s, "a number")),
            },
        };
        let (line, depth) = read("iodepth", depth, self.kb_base)?;
        let (batch_line, batch) = read("iodepth_batch", batch, self.kb_base)?;
        self.set_number("depth", line, depth)?;
        // As in fio, 0 means all.
        let batch = if batch == 0 || batch > depth { depth } else { batch };
        self.set_number("batch", batch_line, batch)
    }

    /// Features that fio's io_uring engine uses (engines/io_uring.c), by option or by default.
    pub(super) fn ring(&mut self, engine: &Engine) -> Result<(), Fault> {
        if engine.ring.is_none() {
            return Ok(()); // `rest` reports the remaining options
        }
        let sqpoll = self.flag("sqthread_poll")?.unwrap_or(false);
        let cpu = self.number("sqthread_poll_cpu")?;
        let mut ring: Vec<String> = Vec::new();
        if self.flag("hipri")?.unwrap_or(false) {
            ring.push("iopoll".into());
        }
        let mut register = vec!["ring"];
        let files = self.flag("registerfiles")?.unwrap_or(false);
        if sqpoll {
            ring.push("sqpoll".into());
            if let Some((line, cpu)) = cpu {
                self.set_number("sq-cpu", Some(line), cpu)?;
            }
            // With SQPOLL, fio polls the ring for completions.
            self.set("wait", "peek");
            self.note(
                "with sqthread_poll, fio registers the file and polls the CQ ring instead of waiting in the kernel. It drops COOP_TASKRUN, SINGLE_ISSUER and DEFER_TASKRUN, which the kernel rejects with SQPOLL",
            );
        } else {
            ring.extend(["coop_taskrun", "single_issuer", "defer_taskrun"].map(String::from));
            self.note(
                "fio always requests COOP_TASKRUN, SINGLE_ISSUER and DEFER_TASKRUN, and silently drops those that the kernel rejects. This load requests the same flags, and fails if one is rejected",
            );
        }
        if let Some(depth) = self.out.options.get("depth").and_then(Value::as_integer) {
            ring.push(format!("cqsize={depth}"));
        }
        if files || sqpoll {
            register.push("files");
        }
        if self.flag("fixedbufs")?.unwrap_or(false) {
            register.push("buffers");
        }
        self.note(
            "by default, fio registers the ring's descriptor and sizes the completion queue to iodepth; this load does the same",
        );
        self.set("ring", ring.join(","));
        self.set("register", register.join(","));
        match self.take("force_async") {
            Some(s) if s.number(1024) == Some(1) => self.set("force-async", true),
            Some(s) if s.number(1024) == Some(0) => {}
            Some(s) => self.unmapped("force_async", &s, "either all requests go to io-wq or none, not every Nth"),
            None => {}
        }
        if let Some(s) = self.take("nonvectored")
            && s.flag() != Some(true)
        {
            self.unmapped(
                "nonvectored",
                &s,
                "reads and writes are not vectored, as in fio if the kernel supports them",
            );
        }
        Ok(())
    }
}
