//! Folded stacks: `thread;outermost;…;innermost count`, one line per stack. Brendan Gregg's format, which flame graph
//! tools, speedscope and others read.

use std::collections::BTreeMap;

use crate::export::rows::{Order, Run};
use iotrail_base::error::Result;
use iotrail_path::place;
use iotrail_path::sample::{Sample, Stack};
use iotrail_schema::run_record::value_text;

/// Selects the stacks and the frame at which they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// All samples.
    All,
    /// Samples in task work, starting at the frame that runs it.
    TaskWork,
}

/// Lines in alphabetical order, one per distinct stack; the counts add up to the number of selected samples. User mode
/// is a single frame, `[user]`; idle CPUs appear as a thread named `idle`.
pub fn lines(samples: &[Sample], under: Under) -> Vec<String> {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for sample in samples.iter().filter(|s| s.count > 0) {
        let mut line = frame(if sample.is_idle() { "idle" } else { &sample.comm });
        let within = match (&sample.stack, under) {
            (Stack::User, Under::TaskWork) => continue,
            (Stack::User, Under::All) => {
                line.push_str(";[user]");
                &[]
            }
            (Stack::Kernel(frames), Under::All) if frames.is_empty() => {
                line.push_str(";[no stack]");
                &[]
            }
            (Stack::Kernel(frames), Under::All) => &frames[..],
            (Stack::Kernel(frames), Under::TaskWork) => match place::task_work(frames) {
                Some(outermost) => &frames[..=outermost],
                None => continue,
            },
        };
        for function in within.iter().rev() {
            line.push(';');
            line.push_str(&frame(function));
        }
        *stacks.entry(line).or_default() += sample.count;
    }
    stacks.into_iter().map(|(stack, count)| format!("{stack} {count}")).collect()
}

/// A run's samples by location, because runs do not store stacks: `cell=1;arm=x;place count`, one line per cell and
/// location, with repeats merged.
pub fn places(run: &Run<'_>) -> Result<Vec<String>> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    run.rows(Order::Cell, &mut |row| {
        for share in row.measurement.cpu_shares.iter().flatten().filter(|s| s.samples > 0) {
            let params = row.params.iter().map(|(name, v)| frame(&format!("{name}={}", value_text(v))));
            let frames: Vec<String> =
                [format!("cell={}", row.cell)].into_iter().chain(params).chain([share.place.name().into()]).collect();
            *lines.entry(frames.join(";")).or_default() += share.samples;
        }
        Ok(())
    })?;
    Ok(lines.into_iter().map(|(stack, count)| format!("{stack} {count}")).collect())
}

/// Replaces frame separators and line ends in a frame.
pub(super) fn frame(name: &str) -> String {
    name.replace(|c: char| c == ';' || c.is_control(), "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Sample> {
        let kernel = |frames: &[&str]| Stack::Kernel(frames.iter().map(|f| f.to_string()).collect());
        let of = |tgid, comm: &str, cpu, stack, count| Sample { tgid, comm: comm.into(), cpu, stack, count };
        vec![
            of(7, "load-0", 0, Stack::User, 5),
            of(7, "load-0", 1, Stack::User, 2),
            of(
                7,
                "load-0",
                0,
                kernel(&["io_req_task_complete", "tctx_task_work", "task_work_run", "do_syscall_64"]),
                3,
            ),
            of(7, "a;b\n c", 0, kernel(&["vfs_read"]), 1),
            of(0, "", 0, kernel(&["default_idle", "do_idle"]), 4),
            of(7, "load-0", 0, kernel(&[]), 1),
        ]
    }

    #[test]
    fn folded_stacks_start_with_the_outermost_frame_and_are_summed() {
        let expected = [
            "a_b_ c;vfs_read 1",
            "idle;do_idle;default_idle 4",
            "load-0;[no stack] 1",
            "load-0;[user] 7",
            "load-0;do_syscall_64;task_work_run;tctx_task_work;io_req_task_complete 3",
        ];
        assert_eq!(lines(&samples(), Under::All), expected);
    }

    #[test]
    fn places_of_a_run_are_summed_over_its_repeats() {
        assert_eq!(
            places(&crate::export::sample::run()).unwrap(),
            [
                "cell=1;arm=a,\"b\"__c_d=e %;depth=16;interrupt 20",
                "cell=1;arm=a,\"b\"__c_d=e %;depth=16;user 3968",
                "cell=2;arm='already;depth=32;interrupt 20",
                "cell=2;arm='already;depth=32;user 3968",
            ]
        );
    }

    #[test]
    fn selected_task_work_starts_at_its_frame() {
        let expected = ["load-0;task_work_run;tctx_task_work;io_req_task_complete 3"];
        assert_eq!(lines(&samples(), Under::TaskWork), expected);
    }
}
