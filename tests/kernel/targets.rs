//! Files in use are never written, under any name, even with --allow-write.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Failed, Trial};

use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("targets::a_file_behind_a_loop_device_is_not_written", behind_loop),
        trial::test("targets::a_swap_file_is_not_written", swap),
        trial::test("targets::the_executable_of_a_running_program_is_not_written", running),
    ]
}

/// Reverts a setup on drop.
struct Undo(&'static str, PathBuf);

impl Undo {
    /// Runs the first command on the path, and the second one on drop.
    fn after(make: &[&str], path: &Path, undo: (&'static str, PathBuf)) -> Self {
        let out = Command::new(make[0]).args(&make[1..]).arg(path).output().expect("the command starts");
        assert!(out.status.success(), "{make:?} {path:?}: {}", String::from_utf8_lossy(&out.stderr));
        Self(undo.0, undo.1)
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let mut command = Command::new(self.0);
        let done = command.args((self.0 == "losetup").then_some("-d")).arg(&self.1).status();
        assert!(done.is_ok_and(|status| status.success()), "{} {:?}", self.0, self.1);
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder")
}

/// Every name of the file is rejected for this reason, and the file's bytes are unchanged.
fn refused(file: &Path, reason: &str) {
    let [hard, soft] = ["hard", "soft"].map(|name| file.with_file_name(name));
    std::fs::hard_link(file, &hard).expect("a hard link");
    symlink(file, &soft).expect("a symbolic link");
    let before = std::fs::read(file).expect("the file");
    for name in [file, &hard, &soft] {
        for options in ["--rw randwrite", "--rw write --buffered --engine sync", "--rw randrw --engine libaio"] {
            let mut bench = Command::new(env!("CARGO_BIN_EXE_iotrail"));
            bench.args("bench --allow-write --trace off --count 64 --warmup 0".split(' ')).args(options.split(' '));
            let out = bench.arg("--file").arg(name).output().expect("the built binary starts");
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(2), "{options} {name:?}: {said}");
            assert!(said.contains(" is in use (") && said.contains(reason), "{options} {name:?}: {said}");
        }
    }
    assert!(std::fs::read(file).expect("the file") == before, "it was written to");
}

fn behind_loop() -> Result<(), Failed> {
    let folder = folder();
    let file = folder.path().join("image");
    std::fs::write(&file, vec![7; 4 << 20])?;
    let free = Command::new("losetup").arg("-f").output()?;
    let device = PathBuf::from(String::from_utf8(free.stdout)?.trim());
    let made = Undo::after(&["losetup", &device.display().to_string()], &file, ("losetup", device.clone()));
    let name = device.file_name().expect("a name").to_string_lossy().into_owned();
    refused(&file, &format!("it backs {name}"));
    // Once the file is no longer in use, it can be written.
    drop(made);
    let mut bench = Command::new(env!("CARGO_BIN_EXE_iotrail"));
    bench.args("bench --allow-write --trace off --count 64 --warmup 0 --rw write --file".split(' '));
    assert!(bench.arg(&file).output()?.status.success());
    Ok(())
}

fn swap() -> Result<(), Failed> {
    let folder = folder();
    let file = folder.path().join("swap");
    std::fs::write(&file, vec![0; 4 << 20])?;
    Command::new("mkswap").arg(&file).output()?;
    let _on = Undo::after(&["swapon"], &file, ("swapoff", file.clone()));
    refused(&file, "it is swap");
    Ok(())
}

fn running() -> Result<(), Failed> {
    let folder = folder();
    let file = folder.path().join("program");
    std::fs::copy("/bin/sh", &file)?;
    let mut child = Command::new(&file).args(["-c", "read line"]).stdin(Stdio::piped()).spawn()?;
    refused(&file, &format!("process {} (program) runs code from it", child.id()));
    child.kill()?;
    child.wait()?;
    Ok(())
}
