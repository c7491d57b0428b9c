//! Compiles the BPF objects into OUT_DIR and generates their Rust skeletons and the Rust counterparts of their records.

use std::path::PathBuf;
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let bpf = PathBuf::from("src/bpf");
    println!("cargo:rerun-if-changed=src/record.h");
    for entry in fs::read_dir(&bpf).expect("src/bpf is part of the source") {
        println!("cargo:rerun-if-changed={}", entry.expect("a readable folder").path().display());
    }
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        Ok(other) => panic!("no entry decoding for {other} yet: see docs/contributing/new-architecture.md"),
        Err(_) => panic!("cargo sets CARGO_CFG_TARGET_ARCH"),
    };
    // Separate objects: capture for replay, creation of rings, tracing of completions, listing of processes, and
    // CPU sampling.
    for object in ["capture", "created", "iotrail", "numbers", "profile", "snapshot"] {
        SkeletonBuilder::new()
            .source(bpf.join(format!("{object}.bpf.c")))
            .clang_args([&format!("-D__TARGET_ARCH_{arch}"), "-mcpu=v3", "-Wall", "-Wno-unused-function"])
            .build_and_generate(out.join(format!("{object}.skel.rs")))
            .unwrap_or_else(|e| panic!("the BPF programs did not compile (is clang installed?): {e:?}"));
    }
}
