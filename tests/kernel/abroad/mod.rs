//! Unusual environments: namespaces, many rings and processes, neighbours, low limits, hostile paths, several disks.
//! iotrail's report is correct there, or names the values that it cannot determine.

mod conditions;
mod limits;
mod many;
mod namespaces;
mod neighbours;
mod outputs;
mod sampling;

use libtest_mimic::{Failed, Trial};

use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let rooms: [(&str, &[(&str, Test)]); 7] = [
        ("conditions", conditions::TESTS),
        ("limits", limits::TESTS),
        ("many", many::TESTS),
        ("namespaces", namespaces::TESTS),
        ("neighbours", neighbours::TESTS),
        ("outputs", outputs::TESTS),
        ("sampling", sampling::TESTS),
    ];
    let trial = |room: &str, (name, test): &(&str, Test)| trial::test(format!("abroad::{room}::{name}"), *test);
    rooms.iter().flat_map(|(room, tests)| tests.iter().map(|t| trial(room, t)).collect::<Vec<_>>()).collect()
}
