//! The batch script: writes the plan to the node and starts this program there.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::words::quoted;

/// Prefix of a task's directory on its node, which keeps the files until they are collected: `/var/tmp` outlives the
/// job and is on a disk.
pub(super) const BASE: &str = "/var/tmp/iotrail-slurm-";

/// The version that the node's program must have.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The directory of this user's job.
pub fn folder(uid: u32, job: u64) -> String {
    format!("{BASE}{uid}/{job}")
}

/// Where a node gets the program from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// It is installed on the node: at this path, or in PATH.
    Installed(PathBuf),
    /// It is in a directory that the nodes share.
    At(PathBuf),
    /// It is transferred by a stream to the task's directory.
    Comes,
}

/// An iotrail command that stores a run.
#[derive(Debug, Clone, Copy)]
pub enum Work<'a> {
    /// `iotrail run` with this experiment and these options, without the store.
    Experiment { text: &'a str, options: &'a [String] },
    /// These words, without the store.
    Command(&'a [String]),
}

/// A node's script.
#[derive(Debug, Clone, Copy)]
pub struct Script<'a> {
    pub program: &'a Program,
    /// Index of the task in the fleet.
    pub task: u32,
    pub work: Work<'a>,
    /// Its working directory, the same as on this machine; `None` for the task's own directory.
    pub within: Option<&'a Path>,
    /// The address of the second node in a pair.
    pub server: Option<&'a str>,
    /// Directory for the results, if all nodes share it.
    pub shared: Option<&'a Path>,
}

impl Script<'_> {
    pub fn text(&self) -> String {
        let words = |words: &[String]| words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ");
        let (experiment, command) = match self.work {
            Work::Experiment { text, options } => {
                (written(text), format!("run \"$dir/experiment.toml\" {}", words(options)))
            }
            Work::Command(of_ours) => (String::new(), words(of_ours)),
        };
        let option = |name: &str, value: Option<&str>| {
            value.map_or_else(String::new, |value| format!(" --{name} {}", quoted(value)))
        };
        let path = |name: &str, path: Option<&Path>| option(name, path.map(Path::to_string_lossy).as_deref());
        // A user's program gets the environment that it would have on this machine.
        let cache = match self.within {
            None => {
                "# A home may be shared: what is measured lies on the node itself.\nexport XDG_CACHE_HOME=\"$base/cache\"\n"
            }
            Some(_) => "",
        };
        format!(
            "#!/bin/sh\n\
             # iotrail --slurm: one exclusive job per node.\n\
             mask=$(umask)\n\
             umask 077\n\
             base={BASE}$(id -u)\n\
             mkdir \"$base\" 2>/dev/null\n\
             {{ [ -d \"$base\" ] && [ -O \"$base\" ] && [ ! -L \"$base\" ]; }} || exit 73\n\
             dir=$base/$SLURM_JOB_ID\n\
             # Where nothing begins nothing is left, but for what was measured before.\n\
             fail() {{ cd / && {{ [ -e \"$dir/work.db\" ] || rm -rf \"$dir\"; }}; rmdir \"$base\" 2>/dev/null; exit \"$1\"; }}\n\
             trap 'fail 143' TERM\n\
             mkdir -p \"$dir\" && cd \"$dir\" || fail 73\n\
             {cache}{experiment}{}\
             case $(\"$program\" --version 2>/dev/null) in\n\
             'iotrail {VERSION}') ;;\n\
             iotrail*) fail 2 ;;\n\
             *) fail 126 ;;\n\
             esac\n\
             umask \"$mask\"\n\
             exec \"$program\" slurm-node measure \"$dir\" {}{}{}{} -- {command}\n",
            self.program(),
            self.task,
            path("shared", self.shared),
            path("within", self.within),
            option("server", self.server),
        )
    }

    fn program(&self) -> String {
        let path = |path: &Path| quoted(&path.to_string_lossy());
        match self.program {
            Program::Installed(at) => {
                format!("program={}\n[ -x \"$program\" ] || program=$(command -v iotrail) || fail 127\n", path(at))
            }
            Program::At(at) => format!("program={}\n[ -x \"$program\" ] || fail 127\n", path(at)),
            // The submitting process may no longer exist.
            Program::Comes => "program=$dir/iotrail\ni=0\nwhile [ ! -x \"$program\" ]; do\n\
                               \x20   i=$((i + 1)); [ $i -le 600 ] || fail 127\n    sleep 1\ndone\n"
                .to_owned(),
        }
    }
}

/// Shell lines that write an experiment to a file, whatever it contains. sbatch rejects scripts with DOS line ends.
fn written(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut end = "END_OF_EXPERIMENT".to_owned();
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    format!("cat >experiment.toml <<'{end}' || fail 73\n{}\n{end}\n", text.trim_end_matches('\n'))
}

/// Shell lines for a step: reads the program from standard input, once the waiting task has created its directory.
pub fn receive(folder: &str) -> String {
    let to = quoted(folder);
    format!(
        "i=0; until cd {to} 2>/dev/null; do i=$((i + 1)); [ $i -le 30 ] || exit 73; sleep 1; done; [ -x iotrail ] || \
         {{ cat >iotrail.part && chmod 700 iotrail.part && mv iotrail.part iotrail; }}"
    )
}

/// Shell lines for a step: sends the files in the task's directory. `once`: only existing files, for a task that has
/// ended.
pub fn send(program: &Program, folder: &str, task: u32, once: bool) -> String {
    let program = match program {
        Program::Installed(path) | Program::At(path) => quoted(&path.to_string_lossy()),
        Program::Comes => quoted(&format!("{folder}/iotrail")),
    };
    let once = if once { " --once" } else { "" };
    let folder = quoted(folder);
    format!("p={program}; [ -x \"$p\" ] || p=iotrail; exec \"$p\" slurm-node send {folder} {task}{once}")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn script<'a>(program: &'a Program, options: &'a [String], text: &'a str) -> Script<'a> {
        Script { program, task: 3, work: Work::Experiment { text, options }, within: None, server: None, shared: None }
    }

    fn installed() -> Program {
        Program::Installed("/opt/my programs/iotrail".into())
    }

    #[test]
    fn the_script_is_valid_shell_and_keeps_the_experiment_unmodified() {
        let options = ["--seed=3".to_owned(), "--file=/data/it's".into()];
        for program in [Program::Installed("/a b".into()), Program::At("/x/iotrail".into()), Program::Comes] {
            let shared = Some(Path::new("/s h"));
            let text = Script { shared, ..script(&program, &options, "name = \"$HOME\"\n'\n") }.text();
            let checked = Command::new("sh").args(["-n", "-c", &text]).output().unwrap();
            assert!(checked.status.success() && checked.stderr.is_empty(), "{text}");
            assert!(text.contains("\nname = \"$HOME\"\n'\nEND_OF_EXPERIMENT\n"), "{text}");
            let end = " --shared '/s h' -- run \"$dir/experiment.toml\" --seed=3 '--file=/data/it'\\''s'\n";
            assert!(text.ends_with(end) && text.contains("XDG_CACHE_HOME"), "{text}");
        }
        assert!(
            script(&installed(), &options, "a\nEND_OF_EXPERIMENT\nb\n").text().contains("\nb\nEND_OF_EXPERIMENT_\n")
        );
    }

    #[test]
    fn the_script_restores_the_working_directory_and_environment() {
        let (program, words) = (installed(), ["net".to_owned(), "bench".into(), "--ring=a b".into()]);
        let within = Some(Path::new("/my work"));
        let text = Script { within, ..script(&program, &[], "a") }.text();
        assert!(text.contains(" 3 --within '/my work' -- run ") && !text.contains("XDG_CACHE_HOME"), "{text}");
        let text = Script { work: Work::Command(&words), server: Some("n 1"), ..script(&program, &[], "") }.text();
        assert!(
            text.ends_with(" 3 --server 'n 1' -- net bench '--ring=a b'\n") && !text.contains("experiment.toml"),
            "{text}"
        );
    }

    /// Runs the script with a base directory of its own; returns its exit status and the number of files left behind.
    fn run(program: &Program) -> (Option<i32>, usize) {
        let text = script(program, &[], "").text();
        let folder = tempfile::tempdir().unwrap();
        let text = text.replace(BASE, &format!("{}/b-", folder.path().display()));
        // The program is neither there nor in PATH, but the shell's own programs are.
        let mut shell = Command::new("sh");
        shell.args(["-c", &text]).env("PATH", "/usr/bin:/bin").env("SLURM_JOB_ID", "4");
        let status = shell.stderr(std::process::Stdio::null()).status().unwrap();
        (status.code(), std::fs::read_dir(folder.path()).unwrap().count())
    }

    #[test]
    fn a_script_without_the_program_exits_with_status_127() {
        if !Path::new("/usr/bin/iotrail").exists() {
            assert_eq!(run(&installed()), (Some(127), 0));
        }
        assert_eq!(run(&Program::At("/x/iotrail".into())), (Some(127), 0));
    }

    #[test]
    fn a_program_that_cannot_run_is_distinguished_from_another_version() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("iotrail");
        for (bytes, status) in [
            (&b"\x7fELF\x02\x01\x01 of another machine\n"[..], 126),
            (b"#!/no/such/interpreter\n", 126),
            (b"#!/bin/sh\nexit 1\n", 126),
            (b"#!/bin/sh\necho iotrail 0.0.1\n", 2),
        ] {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(run(&Program::At(path.clone())), (Some(status), 0), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn dos_line_endings_are_removed_from_the_script() {
        let program = installed();
        let text = script(&program, &[], "name = \"a\"\r\n[load]\r\n").text();
        assert!(!text.contains('\r') && text.contains("\nname = \"a\"\n[load]\nEND"), "{text}");
    }
}
