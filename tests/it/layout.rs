//! A created target is either complete or does not exist.

use std::path::Path;
use std::process::Child;

use crate::tool::{Place, bench, end, kill, run, wait_for};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("layout::a_target_is_created_completely_and_reused", whole),
    ("layout::a_kill_during_layout_leaves_no_file", killed),
    ("layout::an_interrupt_during_layout_leaves_no_file", stopped),
    ("layout::an_unusable_target_is_rejected_before_it_is_written", refused),
];

fn whole() -> End {
    let place = Place::new();
    run(&mut bench(&place, "--count 8 --size 3m --file x")).ok();
    let bytes = std::fs::read(place.join("x")).expect("it was made");
    assert_eq!(bytes.len(), 3 << 20);
    assert!(bytes.chunks(512).all(|sector| sector.iter().any(|b| *b != 0)), "every block was written");
    let before = place.contents();
    assert_eq!(before.len(), 1, "{before:?}");
    run(&mut bench(&place, "--count 8 --file x")).ok();
    assert_eq!(place.contents(), before, "a read load changes nothing");
    End::Passed
}

/// Starts a load whose target is too large to be laid out during the test.
fn laying_out(place: &Place) -> Child {
    let child = bench(place, "--count 8 --size 2g --file x").spawn().expect("the tool starts");
    let folder = place.path().to_owned();
    let written = move |fd: std::fs::DirEntry| {
        let to = std::fs::read_link(fd.path()).ok()?;
        let size = std::fs::metadata(fd.path()).ok()?.len();
        (to.starts_with(&folder) && size > 0).then_some(())
    };
    wait_for("the first byte of the target", || {
        std::fs::read_dir(Path::new("/proc").join(child.id().to_string()).join("fd")).ok()?.flatten().find_map(&written)
    });
    child
}

fn killed() -> End {
    let place = Place::new();
    let child = laying_out(&place);
    kill(child.id(), libc::SIGKILL);
    assert_eq!(end(child).status, 128 + libc::SIGKILL);
    assert_eq!(place.contents().len(), 0, "{:?}", place.contents());
    End::Passed
}

fn stopped() -> End {
    let place = Place::new();
    let child = laying_out(&place);
    kill(child.id(), libc::SIGINT);
    let ended = end(child);
    assert_eq!(ended.status, 3);
    assert_eq!(ended.one_line(), "stopped while laying out x; no partial results were kept");
    assert_eq!(place.contents().len(), 0, "{:?}", place.contents());
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    // Writing a file of this size first would take seconds.
    let ended = run(&mut bench(&place, "--count 8 --size 4g --bs 1000 --file x"));
    assert_eq!(ended.status, 2);
    assert!(ended.one_line().starts_with("--bs 1000 is not a multiple of the "), "{}", ended.stderr);
    assert_eq!(place.contents().len(), 0);
    End::Passed
}
