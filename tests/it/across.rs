//! `run` across machines: a target named by an environment variable, the number of blocks, `--kernels` without booting
//! a machine.

use serde_json::json;

use crate::run::experiment;
use crate::tool::{Place, file, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("across::a_variable_names_the_target_of_read_only_experiments", target),
    ("across::the_repeats_option_overrides_the_experiments_value", repeats),
    ("across::a_usage_error_is_one_line", wrong_use),
    ("across::missing_slurm_is_one_error_line", no_slurm),
    ("across::unavailable_kernels_are_reported_in_one_line_each", no_kernel),
];

fn target() -> End {
    let file = file();
    let file = file.as_path();
    let place = Place::new();
    experiment(&place, "count = 8");
    let planned = |variable: &std::path::Path, more: &[&str]| {
        let mut command = place.tool(["run", "e.toml", "--plan", "--json"]);
        run(command.args(more).env("IOTRAIL_TARGET", variable)).ok().json()["target"].clone()
    };
    assert_eq!(planned(file, &[]), json!(file));
    assert_eq!(planned(file, &["--file", "/x"]), json!("/x"), "the command line goes before it");
    let scratch = planned("".as_ref(), &[]);
    assert!(
        scratch.as_str().is_some_and(|path| path.ends_with("/scratch-1g")),
        "an empty one names nothing: {scratch}"
    );
    let ended = run(place.tool(["run", "e.toml", "--quick", "--store", "s.db"]).env("IOTRAIL_TARGET", file)).ok();
    let expected = format!("target: {} (named by IOTRAIL_TARGET; only read)\n", file.display());
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
    experiment(&place, "count = 8\nrw = \"randwrite\"");
    let writes = planned(file, &[]);
    assert!(writes.as_str().is_some_and(|path| path.ends_with("/scratch-1g")), "what writes does not use it: {writes}");
    End::Passed
}

fn repeats() -> End {
    let place = Place::new();
    experiment(&place, "count = 8");
    let plan =
        run(&mut place.tool(["run", "e.toml", "--plan", "--json", "--repeats", "3", "--file", "/x"])).ok().json();
    assert_eq!((&plan["repeats"], plan["order"].as_array().map(Vec::len)), (&json!(3), Some(12)));
    End::Passed
}

fn wrong_use() -> End {
    let place = Place::new();
    experiment(&place, "count = 8");
    for (options, expected) in [
        ("e.toml --kernels 6.1,6.12,6.1", "--kernels lists 6.1 twice"),
        ("e.toml --kernels 6.1 --nvme queue=1", "unknown property 'queue'"),
        ("e.toml --kernels 6.1 --rounds 0", "invalid value '0' for '--rounds <N>'"),
        ("e.toml --kernels 6.1 --plan", "'--kernels <LIST>' cannot be used with '--plan'"),
        ("e.toml --rounds 3", "--kernels <LIST>"),
        ("e.toml --repeats 0", "invalid value '0' for '--repeats <N>'"),
        ("e.toml --slurm --nodes n1 --count 2", "'--nodes <LIST>' cannot be used with '--count <N>'"),
        ("e.toml --slurm --nodes n1 --plan", "'--slurm' cannot be used with '--plan'"),
        ("e.toml --slurm --nodes n1 --sbatch 'x", "has an unclosed quote"),
        ("e.toml --ship", "--slurm"),
        ("e.toml --attach 3", "'[EXPERIMENT]' cannot be used with '--attach <JOB>'"),
        ("no-such --slurm --nodes n1", "unknown experiment 'no-such'"),
        ("no-such --kernels 6.1", "unknown experiment 'no-such'"),
    ] {
        refused(&place, "run", options, expected);
    }
    for (options, expected) in [
        ("--slurm -- true", "--slurm does not specify any nodes"),
        ("--slurm --nodes n1", "<CMD>"),
        ("--slurm --nodes n1 --plan -- true", "'--slurm' cannot be used with '--plan'"),
        ("--slurm --nodes n1 --save x -- true", "'--slurm' cannot be used with '--save <FILE>'"),
        ("--slurm --nodes n1 --fail-on slower -- true", "'--slurm' cannot be used with '--fail-on <VERDICT>'"),
        ("--detach -- true", "--slurm"),
        ("--attach 3 -- true", "'--attach <JOB>' cannot be used with '[CMD]...'"),
        ("--attach 3 --ring none", "'--attach <JOB>' cannot be used with '--ring <LIST>'"),
        ("--attach 3", "no --slurm job 3 is waiting to be collected into s.db"),
    ] {
        refused(&place, "try", options, expected);
    }
    for (options, expected) in [
        ("--slurm --nodes n1,n2 --constraint x", "cannot be used with"),
        ("--slurm --nodes n1,n2 --plan", "'--slurm' cannot be used with '--plan'"),
        ("--slurm --nodes n1,n2 --between unix", "--between applies to one machine"),
        ("--slurm --nodes n1,n2 --window 1,1", "--window lists 1 twice"),
        ("--between hosts", "add --slurm, or run `iotrail net serve` there and `iotrail net load` here"),
        ("--server-address n1", "--slurm"),
    ] {
        refused(&place, "net bench", options, expected);
    }
    assert!(!place.join("s.db").exists());
    End::Passed
}

#[track_caller]
fn refused(place: &Place, command: &str, options: &str, expected: &str) {
    let words = command.split(' ').chain(["--store", "s.db"]).chain(options.split_whitespace());
    let ended = run(&mut place.tool(words));
    assert_eq!(ended.status, 2, "{command} {options}: {}", ended.stderr);
    assert!(ended.one_line().contains(expected), "{command} {options}: {}", ended.stderr);
}

/// A PATH without Slurm's programs.
fn no_slurm() -> End {
    let place = Place::new();
    experiment(&place, "count = 8");
    for (line, program) in [
        ("run e.toml --store s.db --slurm --nodes n1", "scontrol"),
        ("run e.toml --store s.db --slurm --count 2", "sbatch"),
        ("try --store s.db --slurm --nodes n1 -- true", "scontrol"),
        ("net bench --store s.db --slurm --nodes n1,n2", "scontrol"),
    ] {
        let mut command = place.tool(line.split(' '));
        let ended = run(command.env("PATH", place.path()));
        assert_eq!(ended.status, 3, "{}", ended.stderr);
        let said =
            format!("Slurm is not installed here ({program} is not in PATH); install Slurm's commands (Debian: ");
        assert!(ended.one_line().contains(&said), "{}", ended.stderr);
    }
    assert!(!place.join("s.db").exists());
    End::Passed
}

/// A PATH without a download program.
fn no_kernel() -> End {
    let place = Place::new();
    experiment(&place, "count = 8");
    let mut command = place.tool(["run", "e.toml", "--kernels", "1.2,1.3", "--cache", "cache", "--store", "s.db"]);
    let ended = run(command.env("PATH", place.path()));
    assert_eq!((ended.status, ended.stdout.as_str()), (3, ""), "{}", ended.stderr);
    for kernel in ["iotrail: 1.2 (1 of 3): ", "iotrail: 1.3 (1 of 3): "] {
        assert_eq!(ended.stderr.matches(kernel).count(), 1, "{}", ended.stderr);
    }
    assert!(ended.stderr.contains("no kernel produced a measurement"), "{}", ended.stderr);
    assert!(!place.join("s.db").exists());
    End::Passed
}
