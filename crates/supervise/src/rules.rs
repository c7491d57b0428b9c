//! Combinations of setup flags that the kernel always rejects, whatever the device: io_uring_setup(2), and
//! `io_uring_sanitise_params` in io_uring/io_uring.c.

use iotrail_schema::setup_flag::{bit, bits};

/// The rule that these flags violate, if any.
pub fn broken(flags: u32) -> Option<&'static str> {
    let has = |name: &str| flags & bit(name) != 0;
    let by_the_task = bits(&["coop_taskrun", "taskrun_flag", "defer_taskrun"]);
    match () {
        () if has("sqpoll") && flags & by_the_task != 0 => {
            Some("sqpoll excludes coop_taskrun, taskrun_flag and defer_taskrun: the SQPOLL thread runs the task work")
        }
        () if has("defer_taskrun") && !has("single_issuer") => Some("defer_taskrun needs single_issuer"),
        () if has("taskrun_flag") && !has("coop_taskrun") && !has("defer_taskrun") => {
            Some("taskrun_flag needs coop_taskrun or defer_taskrun")
        }
        () if has("hybrid_iopoll") && !has("iopoll") => Some("hybrid_iopoll needs iopoll"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Params;
    use crate::trial;

    /// Checks every combination of the flags in the rules against this kernel.
    #[test]
    fn flag_rules_match_the_running_kernel() {
        let names =
            ["sqpoll", "coop_taskrun", "taskrun_flag", "defer_taskrun", "single_issuer", "iopoll", "hybrid_iopoll"];
        let mut seen = (0, 0);
        for chosen in 0..1u32 << names.len() {
            let set: Vec<&str> = (0..names.len()).filter(|i| chosen & 1 << i != 0).map(|i| names[i]).collect();
            let flags = bits(&set);
            let kernel = trial::granted(4, &Params { flags, sq_thread_idle: 1, ..Params::default() });
            // A kernel that does not know a flag rejects all combinations with it; hybrid_iopoll is the newest (6.13).
            let knows = |name: &str| name != "hybrid_iopoll" || trial::granted(4, &of(&["iopoll", name])).is_ok();
            if !set.iter().all(|name| knows(name)) {
                continue;
            }
            assert_eq!(kernel.is_err(), broken(flags).is_some(), "{set:?}: {kernel:?}, {:?}", broken(flags));
            if kernel.is_ok() { seen.0 += 1 } else { seen.1 += 1 }
        }
        assert!(seen.0 > 10 && seen.1 > 20, "{seen:?}");
    }

    fn of(names: &[&str]) -> Params {
        Params { flags: bits(names), ..Params::default() }
    }
}
