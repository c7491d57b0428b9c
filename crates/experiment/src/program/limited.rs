//! Matches user-supplied regular expressions against a program's output, with a time limit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use regex_lite::Regex;

use iotrail_base::words::bytes;

/// Time limit for all matches of an expression. One match takes time proportional to output and expression; all matches
/// together take quadratic time.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Interval at which `stop` is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `work` in a separate thread, because a match cannot be interrupted. After the limit or `stop`, that thread
/// exits once its current match ends; `work` reads the flag between matches.
pub fn limited<T: Send + 'static>(
    pattern: &Regex,
    output: &str,
    limit: Duration,
    stop: &AtomicBool,
    work: impl FnOnce(&Regex, &str, &AtomicBool) -> T + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    let (own, text, given_up) = (pattern.clone(), output.to_owned(), Arc::new(AtomicBool::new(false)));
    let gives_up = Arc::clone(&given_up);
    std::thread::spawn(move || {
        // The send fails after the limit, because the receiver has been dropped.
        let _ = sender.send(work(&own, &text, &given_up));
    });
    let until = Instant::now() + limit;
    let why = loop {
        if stop.load(Ordering::Relaxed) {
            break "it was stopped".into();
        }
        let left = until.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left.min(LOOK)) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Disconnected) => break format!("/{pattern}/ cannot be matched"),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                let output = bytes(output.len() as u64);
                break format!("/{pattern}/ takes longer than {limit:?} on {output} of output; match more of its line");
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    gives_up.store(true, Ordering::Relaxed);
    Err(why)
}
