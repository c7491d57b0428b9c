//! Compiles the BPF object and generates its Rust skeleton, with the twins of `record.h`, into OUT_DIR.

use std::path::PathBuf;
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("iotrail.skel.rs");
    let bpf = PathBuf::from("src/probe/bpf");
    println!("cargo:rerun-if-changed=src/probe/record.h");
    for entry in fs::read_dir(&bpf).expect("src/probe/bpf is part of the source") {
        println!("cargo:rerun-if-changed={}", entry.expect("a readable folder").path().display());
    }
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok(other) => panic!("no entry decoding for {other} yet: see src/probe/bpf/arch.h"),
        Err(_) => panic!("cargo sets CARGO_CFG_TARGET_ARCH"),
    };
    SkeletonBuilder::new()
        .source(bpf.join("iotrail.bpf.c"))
        .clang_args([&format!("-D__TARGET_ARCH_{arch}"), "-mcpu=v3", "-Wall", "-Wno-unused-function"])
        .build_and_generate(&out)
        .unwrap_or_else(|e| panic!("the BPF programs did not compile (is clang installed?): {e:?}"));
}
