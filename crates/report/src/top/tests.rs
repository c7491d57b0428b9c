//! The screen of `top` as drawn, and its lines as printed.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::sample::record;
use super::{Screen, block};
use crate::terminal::Style;

fn screen() -> Screen {
    let mut screen = Screen::new("all programs".into(), true, false);
    screen.take(record());
    screen
}

fn press(screen: &mut Screen, keys: &[KeyCode]) {
    for key in keys {
        assert!(screen.key(KeyEvent::new(*key, KeyModifiers::NONE)), "{key:?} does not quit");
    }
}

/// Lines of the screen, without trailing spaces.
fn drawn(screen: &Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn the_screen_has_only_ascii_characters_on_an_ascii_terminal() {
    let mut screen = Screen::new("größer".into(), true, true);
    assert_eq!(drawn(&screen, 80, 24)[1], "watching .");
    screen.take(record());
    let mut there = [drawn(&screen, 80, 24)].concat();
    press(&mut screen, &[KeyCode::Enter]);
    there.extend(drawn(&screen, 120, 40));
    press(&mut screen, &[KeyCode::Char('?')]);
    there.extend(drawn(&screen, 80, 24));
    assert!(there.iter().all(|line| line.is_ascii()), "{there:#?}");
    assert_eq!(there[0], "iotrail top | gr??er | 1.00 s | 3 rings");
}

#[test]
fn the_screen_fits_in_80_by_24_characters() {
    let lines = drawn(&screen(), 80, 24);
    assert_eq!(
        lines[..6],
        [
            "iotrail top · all programs · 1.00 s · 3 rings",
            "12.4 k requests/s · 12.4 k completions/s · 48.0 MiB/s · 3 errors/s · 42 kicks/s",
            "120 punts/s · 7 overflows",
            "PROCESS          RING  REQ/S DONE/S  BYTES/S     P50     P99  LATE99 DELIVERY",
            "database (4711)     0 12.3 k 12.3 k 48.0 MiB  101 µs 4.00 ms 3.90 ms eeeeeeeettt",
            "\\u{1b}[31mr (99)    2     50     50      0 B       –       –       – sssssssssss",
        ]
    );
    assert!(lines[6..22].iter().all(String::is_empty), "the idle ring is not shown: {lines:?}");
    assert_eq!(lines[22], "e enter 75 %  t timer_tick 25 %  s sqpoll 0.4 %");
    assert!(lines[23].starts_with("q quit  ? help"));
}

#[test]
fn the_screen_fits_in_40_by_10_characters() {
    let lines = drawn(&screen(), 40, 10);
    assert_eq!(
        lines,
        [
            "iotrail top · all programs · 1.00 s · 3",
            "12.4 k requests/s · 12.4 k completions/s",
            "48.0 MiB/s · 3 errors/s · 42 kicks/s",
            "PROCESS          RING DONE/S DELIVERY",
            "database (4711)     0 12.3 k eeeeeeeettt",
            "\\u{1b}[31mr (99)    2     50 sssssssssss",
            "",
            "",
            "e enter 75 %  t timer_tick 25 %  s sqpol",
            "q quit  ? help  ↑↓ Enter open  ←→ sort",
        ]
    );
}

#[test]
fn any_terminal_size_is_supported() {
    let mut screens = vec![Screen::new("all programs".into(), false, false), screen()];
    for keys in [&[KeyCode::Enter] as &[KeyCode], &[KeyCode::Char('?')], &[KeyCode::Char('p')], &[KeyCode::Char('i')]] {
        let mut opened = screen();
        press(&mut opened, keys);
        screens.push(opened);
    }
    for screen in &screens {
        for width in 1..=100 {
            for height in 1..=14 {
                drawn(screen, width, height);
            }
        }
    }
}

#[test]
fn keys_sort_reverse_freeze_and_show_idle_rows() {
    let mut screen = screen();
    let rings = |screen: &Screen| screen.rows().iter().map(|r| r.ring.unwrap()).collect::<Vec<_>>();
    assert_eq!(rings(&screen), [0, 2]);
    press(&mut screen, &[KeyCode::Char('r')]);
    assert_eq!(rings(&screen), [2, 0]);
    press(&mut screen, &[KeyCode::Char('r'), KeyCode::Char('i')]);
    assert_eq!(rings(&screen), [0, 2, 1]);
    press(&mut screen, &[KeyCode::Right; 9]);
    let lines = drawn(&screen, 80, 24);
    assert!(lines[3].contains("SQPOLL"), "{lines:?}");
    assert_eq!(rings(&screen), [2, 0, 1], "the ring with an SQPOLL thread is first");

    press(&mut screen, &[KeyCode::Char('f')]);
    let mut next = record();
    next.rings.truncate(1);
    screen.take(next);
    assert_eq!(rings(&screen).len(), 3, "frozen");
    assert!(drawn(&screen, 80, 24)[0].starts_with(" FROZEN "));
    press(&mut screen, &[KeyCode::Char('f')]);
    assert_eq!(rings(&screen), [0], "the latest interval is shown after the freeze");
}

#[test]
fn a_ring_page_opens_and_closes() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Enter]);
    let text = drawn(&screen, 80, 24).join("\n");
    for part in [
        "ring 0       database (4711) · fd 5 · coop_taskrun · 64 and 128 entries",
        "late by      p50 4.10 µs · p99 3.90 ms",
        "stages       issue 10 % (10.0 µs) · wait 80 % (80.0 µs)",
        "read_fixed       12.3 k  12.3 k  48.0 MiB       3     120   101 µs  4.00 ms",
        "enter        ready",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    press(&mut screen, &[KeyCode::Esc, KeyCode::Down]);
    let rows = screen.rows();
    assert_eq!(rows[screen.place(&rows)].ring, Some(2));
    // Opens the rings of a process from the process list.
    press(&mut screen, &[KeyCode::Char('p')]);
    let processes =
        |screen: &Screen| drawn(screen, 80, 24).iter().any(|line| line.contains("RNGS") && line.contains("RUN"));
    assert!(processes(&screen));
    assert!(
        drawn(&screen, 80, 24)[3].starts_with("database (4711), 2 threads · blocked in io_uring_enter for completions")
    );
    press(&mut screen, &[KeyCode::Down, KeyCode::Enter]);
    assert_eq!(screen.rows().len(), 1);
    press(&mut screen, &[KeyCode::Enter]);
    let text = drawn(&screen, 80, 24).join("\n");
    assert!(text.contains("SQPOLL       25 % of a CPU") && !text.contains('\x1b'), "{text}");
    // The ring vanishes while its page is open.
    let mut next = record();
    next.rings.clear();
    screen.take(next);
    assert_eq!(drawn(&screen, 80, 24)[1], "ring 2 no longer exists");
    press(&mut screen, &[KeyCode::Esc, KeyCode::Esc, KeyCode::Esc]);
    assert!(processes(&screen));
}

#[test]
fn q_and_ctrl_c_quit() {
    let mut screen = screen();
    assert!(!screen.key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)));
    assert!(!screen.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    press(&mut screen, &[KeyCode::Char('c'), KeyCode::Char('?')]);
    assert!(!screen.key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)), "q quits from the help too");
}

#[test]
fn output_without_a_terminal_is_plain_lines() {
    assert_eq!(
        block(&record(), Style::PLAIN).to_string(),
        "\
01:01:01Z    12.4 k requests/s · 12.4 k completions/s · 48.0 MiB/s · 3 errors/s
             42 kicks/s · 120 punts/s · 7 overflows
delivered by enter 75 % · timer_tick 25 % · sqpoll 0.4 %
threads      database (4711), 2 threads
             blocked in io_uring_enter for completions 75 % · running 20 %
             waiting for a CPU 5 %
threads      \\u{1b}[31mred (99), 2 threads
             blocked in io_uring_enter for completions 75 % · running 20 %
             waiting for a CPU 5 %
PROCESS               RING  REQ/S DONE/S  BYTES/S  ERR/S     P50     P99  LATE99
database (4711)          0 12.3 k 12.3 k 48.0 MiB      3  101 µs 4.00 ms 3.90 ms
             enter 75 % · timer_tick 25 % · punts/s 120 · overflows 7
             late p50 4.10 µs
\\u{1b}[31mr (99)         2     50     50      0 B      0       –       –       –
             sqpoll 100 % · SQPOLL 25 %

"
    );
}
