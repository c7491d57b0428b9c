//! Submission: one exclusive job per node, or per pair of nodes.
//!
//! Many nodes do not use an array job: once one of an array's tasks cannot start, Slurm's schedulers skip the others,
//! so every node would wait for the busiest.

use super::command::{Failure, ask, ask_with};
use iotrail_base::error::{Error, OrFail, Result};

/// Submits a single-node job and returns its number. `more`: sbatch options.
pub fn alone(node: &str, script: &str, more: &[String]) -> Result<u64> {
    hand_in([of_all(), on(node, more)].concat(), script)
}

/// Submits a job with two nodes, of which the first runs the script.
pub fn pair(first: &str, second: &str, script: &str, more: &[String]) -> Result<u64> {
    hand_in([of_all(), on(first, more), vec![":".into()], on(second, more)].concat(), script)
}

fn of_all() -> Vec<String> {
    ["--parsable", "--open-mode=append", "--job-name=iotrail", "--output=/dev/null"].map(str::to_owned).to_vec()
}

/// Options for the component on this node.
fn on(node: &str, more: &[String]) -> Vec<String> {
    let ours = ["--exclusive", "--mem=0", "--nodes=1-1", "--ntasks=1", "--requeue"].map(str::to_owned);
    ours.into_iter().chain([format!("--nodelist={node}")]).chain(more.iter().cloned()).collect()
}

fn hand_in(args: Vec<String>, script: &str) -> Result<u64> {
    let (told, _) = ask_with("sbatch", args, script).map_err(|f: Failure| f.error("cannot submit to Slurm"))?;
    if let Some((job, cluster)) = elsewhere(&told, std::env::var("SLURM_CLUSTERS").ok().as_deref()) {
        // Later queries would not find this job.
        let cancelled = ask("scancel", ["--quiet", &format!("--clusters={cluster}"), job]).is_ok();
        let what = match cancelled {
            true => {
                format!(
                    "sbatch submitted the job to the cluster {cluster}, which iotrail does not query; the job was cancelled"
                )
            }
            false => format!("sbatch submitted job {job} to the cluster {cluster}, which iotrail does not query"),
        };
        let remedy = format!("set SLURM_CLUSTERS={cluster} in place of --clusters or SBATCH_CLUSTERS");
        return Err(Error::input(what, remedy));
    }
    number(&told).or_machine(
        format_args!("cannot read the job ID from sbatch's output: '{}'", told.trim()),
        "remove options that change sbatch's output from --sbatch; `squeue --me` lists the submitted jobs",
    )
}

/// The job and its cluster, if it is not the cluster that the Slurm commands query.
fn elsewhere<'t>(told: &'t str, asked: Option<&str>) -> Option<(&'t str, &'t str)> {
    told.trim().split_once(';').filter(|(_, cluster)| asked.map(str::trim) != Some(*cluster))
}

/// `17`, or `17;cluster`.
fn number(told: &str) -> Option<u64> {
    told.trim().split(';').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_id_is_parsed_with_and_without_a_cluster() {
        assert_eq!([number("4\n"), number("4;big\n"), number("Submitted batch job 4\n")], [Some(4), Some(4), None]);
    }

    #[test]
    fn a_job_on_another_cluster_is_detected() {
        assert_eq!(elsewhere("4\n", None), None);
        assert_eq!(elsewhere("4;big\n", Some("big")), None);
        assert_eq!(elsewhere("4;big\n", None), Some(("4", "big")));
        assert_eq!(elsewhere("4;big\n", Some("small,big")), Some(("4", "big")), "scontrol asks one cluster");
    }
}
