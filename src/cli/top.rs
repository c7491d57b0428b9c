//! `iotrail top`: shows the activity of other programs' rings per second, live.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use crate::cli::seconds;
use iotrail_base::error::{Error, Result};
use iotrail_base::interrupt;
use iotrail_base::plain;
use iotrail_base::words::and_descendants;
use iotrail_probe::choice::Choice;
use iotrail_report::terminal::{self, Style};
use iotrail_report::top::{Screen, block};
use iotrail_schema::measurement::Warning;
use iotrail_schema::top_record::TopRecord;
use iotrail_watch::live::{self, Listener, Options};
use iotrail_watch::namespace::Numbers;
use iotrail_watch::subject::{self, Target};

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Trace this process and its descendants, including later ones; may be repeated
    #[arg(short, long = "pid", value_name = "TGID", allow_negative_numbers = true, value_parser = crate::cli::process)]
    processes: Vec<u32>,

    /// Trace every process that uses io_uring, native aio or POSIX AIO (default without -p)
    #[arg(short, long)]
    all: bool,

    /// Refresh at this interval (seconds, or 500ms, 2m); at least 100ms
    #[arg(short, long, value_name = "SECONDS", default_value = "1", allow_negative_numbers = true, value_parser = interval)]
    interval: Duration,

    /// Exit after N intervals
    #[arg(short = 'n', long, value_name = "COUNT", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Trace 1 in N requests end to end, for latencies and delays (1: all, about 0.3 µs each); counts cover all requests. Default: all
    /// up to 20,000 per second per CPU, then 1 in 16
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    one_in: Option<u32>,

    /// Print one JSON object per interval, each on its own line
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    let span = seconds(text)?;
    if span < Duration::from_millis(100) { Err("an interval must be at least 100ms".into()) } else { Ok(span) }
}

pub fn run(args: &TopArgs) -> Result<u8> {
    let numbers = Rc::new(Numbers::of_this_process()?);
    let asked = subject::resolve(&[], &args.processes, args.all || args.processes.is_empty(), &numbers)?;
    let choice = args.one_in.map_or(Choice::adaptive(16), Choice::fixed);
    let how = Options { interval: args.interval, choice, numbers: Rc::clone(&numbers) };
    let stop = interrupt::raise_flag()?;
    let ending = Ending { count: args.count, stop };
    if !args.json && std::io::stdout().is_terminal() {
        let screen = Screen::new(words(&asked, &numbers)?, Style::of_stdout().colour, plain::stdout_is_ascii());
        live::watch(asked, &how, &mut Drawn { screen, terminal: None, ending })?;
    } else {
        live::watch(asked, &how, &mut Printed { json: args.json, ending })?;
    }
    Ok(0)
}

fn words(asked: &Target, numbers: &Numbers) -> Result<String> {
    let Target::Processes(processes) = asked else { return Ok("all programs".into()) };
    let mut descendants = BTreeSet::new();
    for process in processes {
        descendants.extend(numbers.descendants(process.tgid)?);
    }
    let others = descendants.iter().filter(|tgid| processes.iter().all(|p| p.tgid != **tgid)).count();
    let named = match processes.as_slice() {
        [one] => format!("{} ({})", one.comm, one.tgid),
        several => format!("{} processes", several.len()),
    };
    Ok(format!("{named}{}", and_descendants(others)))
}

/// Conditions that end `top` before the traced programs exit.
struct Ending {
    count: Option<u64>,
    stop: &'static AtomicBool,
}

impl Ending {
    fn after(&self, interval: u64) -> ControlFlow<()> {
        match self.count {
            Some(count) if interval >= count => ControlFlow::Break(()),
            _ => self.now(),
        }
    }

    fn now(&self) -> ControlFlow<()> {
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Prints lines, one block per interval.
struct Printed {
    json: bool,
    ending: Ending,
}

impl Listener for Printed {
    fn begins(&mut self, missing: &[Warning]) -> Result<()> {
        for w in missing {
            terminal::say(&format!("iotrail: {}; {}", w.text, w.remedy));
        }
        Ok(())
    }

    fn interval(&mut self, record: TopRecord) -> Result<ControlFlow<()>> {
        let broken = match self.json {
            true => terminal::print_json_line(&record)?,
            false => terminal::show_on(&block(&record, Style::of_stdout()))?,
        }
        .is_break();
        Ok(if broken { ControlFlow::Break(()) } else { self.ending.after(record.interval) })
    }

    fn meanwhile(&mut self) -> Result<ControlFlow<()>> {
        Ok(self.ending.now())
    }
}

/// A full-screen display, from the start of tracing until it is dropped.
struct Drawn {
    screen: Screen,
    terminal: Option<DefaultTerminal>,
    ending: Ending,
}

impl Drawn {
    fn draw(&mut self) -> Result<()> {
        let Some(terminal) = &mut self.terminal else { return Ok(()) };
        terminal.draw(|frame| self.screen.draw(frame)).map(drop).map_err(no_terminal)
    }
}

fn no_terminal(cause: std::io::Error) -> Error {
    Error::machine("cannot draw on this terminal", "pipe the output for plain lines: iotrail top | cat").because(cause)
}

impl Listener for Drawn {
    fn begins(&mut self, _missing: &[Warning]) -> Result<()> {
        // A second request to stop is handled once the terminal is restored.
        interrupt::hold()?;
        // From here on, a panic restores the terminal before it prints anything.
        self.terminal = Some(ratatui::try_init().map_err(no_terminal)?);
        self.draw()
    }

    fn interval(&mut self, record: TopRecord) -> Result<ControlFlow<()>> {
        let number = record.interval;
        self.screen.take(record);
        self.draw()?;
        Ok(self.ending.after(number))
    }

    fn meanwhile(&mut self) -> Result<ControlFlow<()>> {
        let mut changed = false;
        while event::poll(Duration::ZERO).map_err(no_terminal)? {
            changed = true;
            if let Event::Key(key) = event::read().map_err(no_terminal)?
                && !self.screen.key(key)
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        if changed {
            self.draw()?;
        }
        Ok(self.ending.now())
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        if self.terminal.take().is_some() {
            ratatui::restore();
            // The terminal is restored; a failure to reset the signal handling cannot be handled.
            interrupt::let_go().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_parsed_with_and_without_a_unit() {
        assert_eq!(interval("1"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "0.05", "-1", "soon", "inf", "nan", "1e300"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn top_ends_after_the_requested_intervals_or_on_request() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let ending = Ending { count: Some(2), stop: &STOP };
        assert_eq!([1, 2, 3].map(|n| ending.after(n).is_break()), [false, true, true]);
        let endless = Ending { count: None, stop: &STOP };
        assert!(endless.after(1_000_000).is_continue());
        STOP.store(true, Ordering::Relaxed);
        assert!(endless.after(1).is_break() && endless.now().is_break());
    }
}
