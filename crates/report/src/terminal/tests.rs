mod hostile;
mod of_a_trace;
mod of_brief;
mod of_files;
mod of_fleets;
mod of_heads;
mod of_kernels;
mod of_net_runs;
mod of_packed;
mod of_programs;

use super::*;
use iotrail_answer::compare::of_run;
use iotrail_base::plain::sanitise;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_store::RunSummary;
use iotrail_testing::run::two_by_two;
use iotrail_testing::sample;

const PLAIN: Style = Style::PLAIN;

pub(super) fn narrow(text: &str) {
    for line in text.lines() {
        assert!(textwrap::core::display_width(line) <= WIDTH, "{}: {line}", textwrap::core::display_width(line));
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

/// Compares the first lines with `heads/NAME.txt`; IOTRAIL_GOLDEN=1 regenerates the file.
#[track_caller]
pub fn same_as_golden(name: &str, text: &str) {
    narrow(text);
    assert!(text.lines().count() <= 20, "{name}: {} lines\n{text}", text.lines().count());
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/terminal/tests/heads/{}.txt"), name);
    if std::env::var_os("IOTRAIL_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "{name}\n{text}");
}

/// Removes only the codes for colour and bold type.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let (code, rest) = part.split_once('m').unwrap();
        assert!(code.chars().all(|c| c.is_ascii_digit() || c == ';'), "{part:?}");
        out + rest
    })
}

const FULL: View<'_> = View { full: true, again: "iotrail report 3" };

/// A run's screen with `--full`.
fn full(run: &RunRecord, style: Style) -> Screen {
    run::screen(run, &Head::of_run(run, true), FULL, style)
}

/// A run's screen without `--full`.
fn first_lines(run: &RunRecord) -> String {
    run::screen(run, &Head::of_run(run, true), View { full: false, ..FULL }, PLAIN).to_string()
}

fn record() -> RunRecord {
    let mut r = two_by_two();
    r.run = 3;
    for (i, cell) in r.cells.iter_mut().enumerate() {
        for repeat in 0..3 {
            let mut m = sample::measurement();
            m.iops = Some(9_812.0 * (i + 1) as f64 + 100.0 * f64::from(repeat));
            m.vehicles = vec![DeliveryPathCount {
                vehicle: DeliveryPath::SyscallExit,
                completions: 500,
                detail: Some("io_uring_enter".into()),
                delay_ns: None,
            }];
            cell.measurements.open().push(m);
        }
    }
    r.comparisons = of_run(&r, &|_, _| None);
    r
}

#[test]
fn the_screen_of_one_measurement_has_only_known_values() {
    let text = bench::screen(&sample::measurement(), true, PLAIN).to_string();
    narrow(&text);
    for part in [
        "io_uring randread 4 KiB · depth 1 · batch 1 · 1 job",
        "CPU 0 (non-irq) · wait peek · ring coop_taskrun",
        "250 IOPS · 1000 KiB/s · 500 I/Os in 2.00 s",
        "mean 4.00 ms",
        "p99 –",
        "submit 0.2 % · poll 99.5 % · clear 0.1 % · other 0.2 %",
        "context switches –",
        "480 runs of 1 · 10 runs of 2 to 3",
        "LOC local timer on CPU 0: 500",
        "36 virtio1-req.0 on CPU 1: 498 (/proc/interrupts 500)",
        "ttwu_queue_wakelist CPU 1 to 0: 1",
        "500 completions seen · 0 untracked · 0 events lost",
        "user                        1984   99.5 %     99.2 %   99.8 %",
        "1994 taken at 997 Hz by time · 1993 elsewhere · 1 lost",
        "warning: 99.4 % of completions waited for the timer tick",
        "warning: this is a virtual machine; compare ratios, not times",
    ] {
        assert!(text.contains(part), "'{part}' is missing in\n{text}");
    }
    let row = text.lines().find(|l| l.starts_with("timer_tick")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["timer_tick", "497", "99.4", "%", "–", "–"]);
}

#[test]
fn a_warning_is_printed_once_per_measurement_and_per_run() {
    let mut m = sample::measurement();
    (m.probe.lost, m.probe.untracked, m.probe.completions_seen) = (Some(3), Some(100), Some(400));
    (m.vehicles[0].vehicle, m.interrupts[1].count) = (DeliveryPath::Unknown, 0);
    m.warnings = iotrail_answer::warnings::doubt::doubts(&m);
    let mut r = record();
    r.cells[0].measurements.open()[0] = m.clone();
    for text in [bench::screen(&m, true, PLAIN).to_string(), full(&r, PLAIN).to_string()] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for once in [
            "the probes lost",
            "100 of 500 completions",
            "the delivery path of",
            "of the 500 interrupts of virtio1-req.0",
        ] {
            assert_eq!(flat.matches(once).count(), 1, "'{once}' in\n{text}");
        }
    }
}

#[test]
fn untrusted_text_cannot_control_the_terminal() {
    assert_eq!(sanitise("a\x1b[2Jb\u{202e}c\n"), "a\\u{1b}[2Jb\\u{202e}c\\u{a}");
    let mut m = sample::measurement();
    let nasty = format!("/data/\x1b]0;x\x07{}\u{9b}31m世界", "long/".repeat(40));
    m.load.file = Some(nasty.clone());
    m.vehicles[1].detail = Some(nasty.clone().into());
    m.interrupts[1].name = nasty.clone().into();
    m.host.cpu_model = nasty.clone();
    m.warnings[0].text = nasty.clone();
    narrow(&bench::screen(&m, true, PLAIN).to_string());
    let mut r = record();
    r.title = nasty.clone();
    r.cells[0].measurements.open()[0] = m;
    r.cells[1].untestable = Some(nasty);
    narrow(&full(&r, PLAIN).to_string());
}

#[test]
fn the_delivery_table_fits_in_eighty_columns() {
    let text = full(&record(), PLAIN).to_string();
    narrow(&text);
    let row = text.lines().find(|l| l.contains("9.91 k   2.0")).unwrap_or_else(|| panic!("{text}"));
    let expected = ["1", "default", "9.91", "k", "2.0", "3998", "–", "syscall_exit", "100%", "0.00", "0.01", "0.00"];
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), expected, "\n{text}");
    assert!(text.contains("12 of 12 measurements · 3 repeats per cell · seed 7"), "{text}");
    assert!(text.contains("6000 completions seen · 0 of unknown delivery path · 0 untracked\n"), "{text}");
    assert!(text.contains("IOPS with coop_taskrun against default: higher"), "{text}");
    let row = text.lines().find(|l| l.starts_with("depth 4 ")).unwrap();
    let expected = ["depth", "4", "3", "1.332", "1.329–1.335", "–", "0.8", "faster"];
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), expected, "\n{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains(
            "not comparable: latency_p99 is not known in 3 of 3 measurements of default (2 of 4 comparisons)"
        ),
        "{text}"
    );
}

#[test]
fn comparisons_of_any_magnitude_fit_in_eighty_columns() {
    let mut r = record();
    let long = "a parameter with a long name ".repeat(5);
    for (i, c) in r.comparisons.iter_mut().enumerate() {
        c.at.insert(long.clone(), "x\x1b[2Jy".into());
        (c.a, c.b) = (long.clone(), long.clone());
        c.ratio = Some(10f64.powi(3 * i as i32 - 4));
        c.ci95 = c.ratio.map(|x| [x * 0.999_9, x * 10.0]);
        (c.noise_floor, c.smallest_visible) = (Some(1e9), Some(1e-9));
        c.reasons = vec![long.clone()];
    }
    let mut screen = Screen::new(PLAIN);
    compare::tables(&mut screen, &r.comparisons);
    let text = screen.to_string();
    narrow(&text);
    assert!(text.contains("note: a parameter") && text.contains(">9999") && text.contains("<0.1"), "{text}");
}

#[test]
fn reasons_that_differ_only_in_numbers_are_merged() {
    let mut r = record();
    for (c, share) in r.comparisons.iter_mut().zip(1..) {
        c.reasons =
            vec![format!("{share} % of the time"), format!("{}.5 % of the time", share * 10), "a reason".into()];
    }
    let mut screen = Screen::new(PLAIN);
    compare::tables(&mut screen, &r.comparisons);
    let text = screen.to_string();
    assert_eq!(text.matches("of the time").count(), 1, "{text}");
    assert!(text.contains("note: 1 % of the time; 7 more with other numbers\nnote: a reason\n"), "{text}");
}

#[test]
fn the_cost_table_fits_in_eighty_columns() {
    let mut r = record();
    r.table = "cost".into();
    let text = full(&r, PLAIN).to_string();
    narrow(&text);
    let row = text.lines().find(|l| l.starts_with("default")).unwrap();
    let expected = ["default", "2000000", "0.0", "0.2", "99.5", "0.1", "0.2", "1990000", "10000"];
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), expected, "\n{text}");
}

#[test]
fn untestable_cells_show_their_reason() {
    let mut r = record();
    for cell in &mut r.cells {
        cell.measurements.open().clear();
        cell.untestable = Some("there is no such CPU".into());
    }
    let text = full(&r, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("  not testable here: there is no such CPU\n"), "{text}");
    let mut r = record();
    r.cells[1].measurements.open().clear();
    r.cells[1].untestable = Some("the kernel has no such flag".into());
    let text = full(&r, PLAIN).to_string();
    let mut rows = text.lines().map(str::trim).skip_while(|l| *l != "coop_taskrun");
    assert_eq!([rows.next(), rows.next()], [Some("coop_taskrun"), Some("untested")], "{text}");
    assert!(text.contains("1 cell (depth 1 · arm coop_taskrun): the kernel has no such\n"), "{text}");
}

#[test]
fn colour_changes_no_text() {
    let colour = bench::screen(&sample::measurement(), true, Style { colour: true, ..PLAIN }).to_string();
    assert!(colour.contains("\x1b[33mwarning: "));
    assert_eq!(without_colours(&colour), bench::screen(&sample::measurement(), true, PLAIN).to_string());
}

#[test]
fn the_list_of_runs_fits_in_eighty_columns() {
    let one = RunSummary {
        corruption: None,
        run: 12,
        kind: "experiment".into(),
        experiment: "an-experiment-with-a-long-name".into(),
        started: "2026-03-01 12:00:00".into(),
        started_unix_s: 1_772_366_400,
        finished_unix_s: None,
        done: 5,
        planned: 560,
        hosts: vec!["h".into()],
        kernels: vec![],
    };
    let mut screen = Screen::new(PLAIN);
    run::list(&mut screen, &[one]);
    let text = screen.to_string();
    narrow(&text);
    assert!(text.contains("5/560") && text.contains('–'), "{text}");
}
