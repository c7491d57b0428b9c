//! Runs Slurm's commands and captures their messages.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use iotrail_base::error::Error;

/// Why a Slurm command returned no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The program is not installed on this machine.
    Absent(String),
    /// Slurm does not know the job, or no longer.
    NoSuchJob,
    /// The command's last message. The controller may be temporarily unavailable, so callers that can wait should
    /// retry.
    Failed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(program) => write!(f, "{program} is not installed here"),
            Self::NoSuchJob => f.write_str("Slurm does not know this job"),
            Self::Failed(said) => f.write_str(said),
        }
    }
}

impl Failure {
    /// Turns it into an error message; `what` could not be done.
    pub fn error(self, what: &str) -> Error {
        match self {
            Self::Absent(program) => Error::machine(
                format!("{what}: Slurm is not installed here ({program} is not in PATH)"),
                "install Slurm's commands (Debian: slurm-client and munge), or load their module, on a host that may submit",
            ),
            Self::NoSuchJob => {
                Error::input(format!("{what}: Slurm does not know this job"), "`squeue --me` lists your jobs")
            }
            Self::Failed(said) => Error::machine(what, "check Slurm with `sinfo` and `scontrol ping`").because(said),
        }
    }
}

/// Runs the command to completion and returns its output. Ctrl-C on the terminal does not reach it, because iotrail
/// handles it.
pub fn ask<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Result<String, Failure> {
    ask_with(program, args, "").map(|(stdout, _)| stdout)
}

/// The same with this standard input; also returns standard error.
pub fn ask_with<S: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = S>,
    input: &str,
) -> Result<(String, String), Failure> {
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => Failure::Absent(program.to_owned()),
        _ => Failure::Failed(format!("{program}: {e}")),
    };
    let mut command = prepared(program, args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input reports the reason on standard error.
        _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok((String::from_utf8_lossy(&output.stdout).into_owned(), stderr));
    }
    Err(failure(&stderr).unwrap_or_else(|| Failure::Failed(format!("{program} ended with {}", output.status))))
}

/// The command with a suitable environment.
fn prepared<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    let variables = std::env::vars_os().map(|(name, _)| name);
    variables.filter(|name| is_options(program, name)).for_each(|name| _ = command.env_remove(name));
    // sbatch passes its own environment on to the measured program.
    if program != "sbatch" {
        command.env("LC_ALL", "C");
    }
    command
}

/// Whether this variable sets options of a Slurm command, like SQUEUE_STATES. Queries use only iotrail's options.
/// Submissions use the user's options (SBATCH_PARTITION), except those that turn the single job into something else.
fn is_options(program: &str, variable: &OsStr) -> bool {
    let variable = variable.to_string_lossy();
    match program {
        "sbatch" => ["SBATCH_ARRAY_INX", "SBATCH_WAIT"].contains(&&*variable),
        _ => variable.strip_prefix(&*program.to_uppercase()).is_some_and(|rest| rest.starts_with('_')),
    }
}

/// The last line, without a leading program name.
fn failure(stderr: &str) -> Option<Failure> {
    let last = stderr.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    if last.ends_with("Invalid job id specified") {
        return Some(Failure::NoSuchJob);
    }
    let said =
        ["error: ", "fatal: "].into_iter().find_map(|level| last.split_once(level)).map_or(last, |(_, said)| said);
    Some(Failure::Failed(said.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slurm_message_is_the_reason_for_a_failure() {
        let said = |text| failure(text).map(|f| f.to_string());
        let no_config = "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n\
                         sbatch: error: fetch_config: DNS SRV lookup failed\n\
                         sbatch: error: _establish_config_source: failed to fetch config\n\
                         sbatch: fatal: Could not establish a configuration source\n";
        assert_eq!(said(no_config).as_deref(), Some("Could not establish a configuration source"));
        assert_eq!(
            said("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n").as_deref(),
            Some("Unable to contact slurm controller (connect failure)")
        );
        assert_eq!(failure("slurm_load_jobs error: Invalid job id specified\n"), Some(Failure::NoSuchJob));
        assert_eq!(
            said("allocation failure: Requested node configuration is not available\n").as_deref(),
            Some("allocation failure: Requested node configuration is not available")
        );
        assert_eq!(failure(" \n"), None);
    }

    #[test]
    fn environment_variables_with_slurm_options_are_recognized() {
        let is = |program, variable: &str| is_options(program, OsStr::new(variable));
        assert!(is("squeue", "SQUEUE_PARTITION") && is("scancel", "SCANCEL_STATE") && is("sacct", "SACCT_LOCAL"));
        assert!(is("sinfo", "SINFO_FORMAT") && is("scontrol", "SCONTROL_ALL") && is("sbatch", "SBATCH_WAIT"));
        for (program, variable) in
            [("squeue", "SLURM_CONF"), ("squeue", "SLURM_CLUSTERS"), ("squeue", "PATH"), ("sbatch", "SBATCH_ACCOUNT")]
        {
            assert!(!is(program, variable), "{program} {variable}");
        }
    }

    #[test]
    fn a_submitted_job_has_the_users_locale() {
        let has = |program| {
            let command = prepared(program, [""; 0]);
            command.get_envs().any(|(name, value)| name == "LC_ALL" && value == Some(OsStr::new("C")))
        };
        assert!(has("squeue") && has("sinfo") && !has("sbatch"));
    }

    #[test]
    fn a_missing_slurm_program_is_reported_with_a_remedy() {
        let absent = ask("no-such-program-of-slurm", [""; 0]).unwrap_err();
        let line = absent.error("cannot submit").to_string();
        assert!(
            line.starts_with("cannot submit: Slurm is not installed here (no-such-program-of-slurm is not in PATH); ")
        );
    }

    #[test]
    fn standard_input_is_passed_to_the_program() {
        assert_eq!(ask_with("cat", [""; 0], "a\nb").map(|(out, _)| out), Ok("a\nb".into()));
        assert_eq!(ask("sh", ["-c", "exit 3"]), Err(Failure::Failed("sh ended with exit status: 3".into())));
    }
}
