//! Frequency governor of all policies. CPUs in a policy share the governor.

use std::path::PathBuf;

use super::change::Change;
use super::queue::along;
use super::roots::{Roots, is_so, not_writable, present};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::files;

const POLICIES: &str = "sys/devices/system/cpu/cpufreq";

/// Directories of the policies of all online CPUs.
fn policies(roots: &Roots) -> Vec<PathBuf> {
    let all = files::entries(&roots.system, POLICIES).into_iter().filter(|n| n.starts_with("policy"));
    all.map(|n| roots.path(POLICIES).join(n))
        .filter(|p| files::text(p, "affected_cpus").is_some_and(|cpus| !cpus.is_empty()))
        .collect()
}

pub fn refusal(roots: &Roots, wanted: &str) -> Option<Error> {
    let policies = policies(roots);
    if policies.is_empty() {
        return Some(Error::machine(
            "cannot set a governor: the kernel does not control CPU frequencies here (/sys/devices/system/cpu/cpufreq is empty)",
            "omit governor; in a virtual machine the host controls frequencies, and on other machines firmware settings may have to enable this",
        ));
    }
    policies.iter().find_map(|policy| {
        let offered = files::text(policy, "scaling_available_governors").unwrap_or_default();
        if !offered.split_whitespace().any(|g| g == wanted) {
            return Some(Error::machine(
                format!("{} offers no governor '{wanted}'", policy.display()),
                format!("it offers: {offered}; other governors must be built into the kernel or loaded as modules"),
            ));
        }
        let file = policy.join("scaling_governor");
        if is_so(&file, wanted) { None } else { not_writable("the governor", &file) }
    })
}

pub fn changes(roots: &Roots, wanted: &str) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for policy in policies(roots) {
        let path = policy.join("scaling_governor");
        let old = present(&path).or_machine(format_args!("cannot read {}", path.display()), "omit governor")?;
        if old != wanted {
            // intel_pstate's performance governor fixes the preference; `userspace` loses its speed.
            let names = ["energy_performance_preference", "scaling_setspeed"];
            let kept = names.into_iter().filter_map(|n| along(policy.join(n), &path));
            changes.extend(kept.filter(|c| !matches!(c, Change::Along { old, .. } if old.starts_with('<'))));
            changes.push(Change::Value { path, old, new: wanted.to_owned() });
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::test::roots;
    use iotrail_testing::fixture::Tree;

    fn two_policies() -> Tree {
        let mut t = Tree::new();
        for (policy, cpus, now) in
            [("policy0", "0 1", "schedutil"), ("policy2", "2", "performance"), ("policy3", "", "")]
        {
            let folder = format!("{POLICIES}/{policy}");
            t = t
                .file(&format!("{folder}/affected_cpus"), cpus)
                .file(&format!("{folder}/scaling_available_governors"), "performance schedutil\n")
                .file(&format!("{folder}/scaling_setspeed"), "<unsupported>\n")
                .file(&format!("{folder}/energy_performance_preference"), "balance_power\n")
                .file(&format!("{folder}/scaling_governor"), now);
        }
        t
    }

    #[test]
    fn an_unavailable_governor_is_rejected() {
        let t = two_policies();
        assert!(refusal(&roots(&t), "performance").is_none());
        let e = refusal(&roots(&t), "powersave").unwrap().to_string();
        assert!(e.contains("policy0 offers no governor 'powersave'; it offers: performance schedutil; "), "{e}");
        let e = refusal(&roots(&Tree::new()), "performance").unwrap().to_string();
        assert!(e.starts_with("cannot set a governor: the kernel does not control CPU frequencies here"), "{e}");
    }

    #[test]
    fn an_unchanged_setting_needs_no_privilege() {
        let t = two_policies().file(&format!("{POLICIES}/policy0/scaling_governor"), "performance");
        for policy in ["policy0", "policy2"] {
            let file = t.root().join(POLICIES).join(policy).join("scaling_governor");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        }
        assert!(refusal(&roots(&t), "performance").is_none() && refusal(&roots(&t), "schedutil").is_some());
    }

    #[test]
    fn only_policies_with_a_different_governor_are_changed() {
        let t = two_policies();
        let folder = t.root().join(POLICIES).join("policy0");
        let path = folder.join("scaling_governor");
        let along = Change::Along {
            path: folder.join("energy_performance_preference"),
            old: "balance_power".into(),
            of: path.clone(),
        };
        let value = Change::Value { path, old: "schedutil".into(), new: "performance".into() };
        assert_eq!(changes(&roots(&t), "performance").unwrap(), [along, value]);
    }
}
