//! Synthetic runs over the network, and their expected conclusions.

use serde_json::json;

use super::conclude;
use super::made_runs::{cell, run, said};
use iotrail_schema::measurement::Measurement;
use iotrail_testing::sample::{self, delivered, echo};

#[test]
fn variation_between_runs_is_reported_with_the_inversion_counts() {
    let reversed = |m: &mut Measurement, repeat: usize| {
        echo(m, [161_000, 107_000][repeat], [256, 413][repeat], 0.5);
        delivered(m, [200, 450][repeat], [2, 7][repeat]);
    };
    let kept = |m: &mut Measurement, repeat: usize| {
        echo(m, [205_000, 222_000][repeat], [140, 101][repeat], 0.5);
        delivered(m, 0, 0);
    };
    let unfollowed = |m: &mut Measurement, _| {
        echo(m, 200_000, 140, 0.5);
        m.order = None;
    };
    let arms = ["defer", "coop", "plain"];
    let cells = vec![
        cell(json!({"arm": "defer"}), reversed),
        cell(json!({"arm": "coop"}), kept),
        cell(json!({"arm": "plain"}), unfollowed),
    ];
    assert_eq!(
        said(&run("order", &["arm"], &arms, cells)),
        [
            "Requests per second against defer: inconclusive with coop and plain (minimum detectable effect more \
             than ×10).",
            "defer: 0.200 to 0.450 inversions per completion (posted before one that was ready earlier), by at most \
             7 places, in task work, over 2.00 k completions; the run with the fewest (0.200) had 161 k \
             requests per second, the one with the most (0.450) 107 k.",
            "coop: all 2.00 k completions with a known ready time were posted in ready order, in every run. The \
             order of delivery does not explain the difference between its runs.",
            "plain: the order of its completions is not known for every run.",
            "Requests per second: defer 134 k (107 k to 161 k in 2 runs, a spread of 40 % of the median); coop 214 k \
             (205 k to 222 k in 2 runs, a spread of 8 % of the median); plain 200 k (200 k to 200 k in 2 runs, a \
             spread of 0 % of the median).",
            "Idle time per second: defer 334 ms (256 ms to 413 ms in 2 runs, a spread of 47 % of the median); coop \
             120 ms (101 ms to 140 ms in 2 runs, a spread of 32 % of the median); plain 140 ms (140 ms to 140 ms in \
             2 runs, a spread of 0 % of the median).",
        ]
    );
}

#[test]
fn servers_are_compared_and_a_saturated_sender_is_reported() {
    let epoll = |m: &mut Measurement, repeat: usize| {
        echo(m, 100_000 + repeat as u64, 0, 0.7);
    };
    let ring = |m: &mut Measurement, repeat: usize| {
        echo(m, 200_000 + repeat as u64, 0, 0.85 + 0.1 * repeat as f64);
        m.per_io.kicks = Some(0.25);
        m.vehicles = sample::measurement().vehicles;
    };
    let r = run(
        "net",
        &["connections", "arm"],
        &["epoll", "io_uring"],
        vec![
            cell(json!({"connections": 64, "arm": "epoll"}), epoll),
            cell(json!({"connections": 64, "arm": "io_uring"}), ring),
        ],
    );
    let said = said(&r);
    assert!(
        said[0].starts_with("Requests per second with io_uring against epoll: higher at connections 64 (×2.00, "),
        "{said:#?}"
    );
    assert!(
        said[1].starts_with(
            "The server's CPU time per request with io_uring against epoll: lower at connections 64 (×0.500"
        ),
        "{said:#?}"
    );
    assert_eq!(said[3], "Completions were mostly delivered by timer_tick (99.4 %) with io_uring.");
    assert!(
        said[4].starts_with(
            "With io_uring completions wait for the timer tick (200 k requests and 500 ticks per second, 400 per tick, at connections 64). "
        ),
        "{said:#?}"
    );
    assert_eq!(said[5..], ["Kicks per request: io_uring 0.25 at connections 64."]);
    let [_, whole] = &conclude(&r)[..] else { panic!("the servers, and the whole run") };
    assert_eq!(
        whole.sentences[0],
        "In 1 of 4 measurements the sender was at its limit (io_uring). There, the requests per second show the \
         sender's limit, which is a lower bound for the server; the server's CPU time per request is unaffected."
    );
}
