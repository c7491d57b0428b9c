//! The project's metadata in `Cargo.toml`.

use std::process::Command;

use serde_json::Value;

use crate::{End, Test};

pub const TESTS: &[Test] =
    &[("manifest::no_dependency_needs_a_newer_rust_than_declared", no_dependency_needs_a_newer_rust)];

fn no_dependency_needs_a_newer_rust() -> End {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let metadata = match metadata {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => {
            return End::Skipped(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Err(e) => return End::Skipped(format!("cargo metadata: {e}")),
    };
    let metadata: Value = serde_json::from_slice(&metadata).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 100, "{}", packages.len());
    let declared = version(env!("CARGO_PKG_RUST_VERSION"));
    let newer = packages.iter().filter_map(|p| Some((p, p["rust_version"].as_str()?)));
    let newer = newer.filter(|(_, needs)| version(needs) > declared);
    let newer: Vec<String> = newer.map(|(p, needs)| format!("{} {} needs {needs}", p["name"], p["version"])).collect();
    assert!(newer.is_empty(), "rust-version is {declared:?}: {}", newer.join(", "));
    End::Passed
}

/// Parses `1.88` or `1.88.0`.
fn version(text: &str) -> Vec<u64> {
    let mut parts: Vec<u64> = text.split('.').map(|part| part.parse().expect("a number")).collect();
    parts.resize(3, 0);
    parts
}
