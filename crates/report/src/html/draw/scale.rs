//! Maps numbers to positions along an axis, with few, round and distinct ticks.

use super::super::figure::{Axis, Scale as Wanted, Unit};

/// Maximum number of ticks per axis.
const TICKS: usize = 6;

pub struct Scale {
    lo: f64,
    hi: f64,
    is_log: bool,
    pub ticks: Vec<Tick>,
}

#[derive(Debug, PartialEq)]
pub struct Tick {
    /// In percent of the axis.
    pub at: f64,
    pub text: String,
    /// Omitted on narrow axes.
    pub is_spare: bool,
}

/// Range of all numbers on an axis.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub lo: f64,
    pub hi: f64,
    /// The smallest positive number.
    pub least: f64,
}

impl Extent {
    pub fn of(all: impl Iterator<Item = f64>) -> Self {
        let none = Extent { lo: f64::INFINITY, hi: f64::NEG_INFINITY, least: f64::INFINITY };
        all.filter(|x| x.is_finite()).fold(none, |e, x| Extent {
            lo: e.lo.min(x),
            hi: e.hi.max(x),
            least: if x > 0.0 { e.least.min(x) } else { e.least },
        })
    }
}

impl Scale {
    /// The scale that the axis requests.
    pub fn new(axis: &Axis, e: Extent) -> Self {
        match (axis.scale, axis.unit) {
            (Wanted::Log, Unit::Ratio) => Self::ratios(e),
            (Wanted::Log, _) => Self::log(e.least, e.hi, axis.unit),
            (Wanted::Linear, Unit::Share) => Self::linear(0.0, 1.0, Unit::Share),
            (Wanted::Linear, unit) => Self::around(e, unit),
            (Wanted::Auto, unit) => Self::auto(e, unit),
        }
    }

    /// From 0, or logarithmic if the largest number would crowd the others.
    fn auto(e: Extent, unit: Unit) -> Self {
        const PRESSED: f64 = 30.0;
        match () {
            () if e.hi <= 0.0 || !e.hi.is_finite() => Self::linear(0.0, 1.0, unit),
            () if e.lo > 0.0 && e.hi / e.least > PRESSED => Self::log(e.least / 1.3, e.hi * 1.3, unit),
            () => Self::linear(0.0, e.hi * 1.04, unit),
        }
    }

    /// From 0.
    pub fn from_0(hi: f64, unit: Unit) -> Self {
        Self::linear(0.0, if hi > 0.0 { hi } else { 1.0 }, unit)
    }

    /// With a margin at both ends. The axis of non-negative data does not extend below 0.
    fn around(e: Extent, unit: Unit) -> Self {
        let (lo, hi) = if e.lo <= e.hi { (e.lo, e.hi) } else { (0.0, 1.0) };
        let room = 0.06 * if hi > lo { hi - lo } else { hi.abs().max(1e-9) };
        Self::linear(if lo >= 0.0 { (lo - room).max(0.0) } else { lo - room }, hi + room, unit)
    }

    fn linear(lo: f64, hi: f64, unit: Unit) -> Self {
        Self::with(lo, hi, false, round(lo, hi), unit)
    }

    /// Both bounds must be positive.
    fn log(lo: f64, hi: f64, unit: Unit) -> Self {
        let (lo, hi) = if lo > 0.0 && lo < hi { (lo, hi) } else { (hi.max(1e-9) / 3.0, hi.max(1e-9) * 3.0) };
        const FINE: [&[f64]; 4] =
            [&[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let (from, to) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
        let of = |steps: &[f64], every: i32| -> Vec<f64> {
            let decades = (from..=to).filter(|p| p.rem_euclid(every) == 0);
            let all = decades.flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)));
            all.filter(|t| *t >= lo * 0.999 && *t <= hi * 1.001).collect()
        };
        let mut sets = FINE.iter().map(|s| of(s, 1)).chain((2..).map(|every| of(&[1.0], every)));
        let ticks = sets.find(|t| t.len() <= TICKS).filter(|t| t.len() > 1).unwrap_or_else(|| round(lo, hi));
        Self::with(lo, hi, true, ticks, unit)
    }

    /// Around 1, which always has a tick. In percent if all numbers are close to 1, otherwise in factors.
    pub fn ratios(e: Extent) -> Self {
        let (lo, hi) = (e.least.clamp(1e-3, 0.96) / 1.04, e.hi.clamp(1.04, 1e3) * 1.04);
        let ticks = match is_near_1(lo, hi) {
            true => {
                let of = |step: f64| -> Vec<f64> {
                    let all = (-60..=150).map(|i| 1.0 + f64::from(i) * step);
                    all.filter(|t| (lo..=hi).contains(t)).collect()
                };
                [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].map(of).into_iter().find(|t| t.len() <= TICKS)
            }
            false => {
                let of = |base: f64| -> Vec<f64> {
                    let all = (-10..=10).map(|i| base.powi(i));
                    all.filter(|t| (lo..=hi).contains(t)).collect()
                };
                [2.0, 4.0, 10.0, 100.0].map(of).into_iter().find(|t| t.len() <= TICKS)
            }
        };
        Self::with(lo, hi, true, ticks.unwrap_or_else(|| vec![1.0]), Unit::Ratio)
    }

    fn with(lo: f64, hi: f64, is_log: bool, all: Vec<f64>, unit: Unit) -> Self {
        let mut scale = Self { lo, hi, is_log, ticks: Vec::new() };
        let in_factors = is_log && !is_near_1(lo, hi);
        let text = |t: f64, digits| match unit {
            Unit::Ratio => ratio_text(t, in_factors, digits),
            _ => tick_text(t, unit, digits),
        };
        // The fewest digits that keep labels distinct.
        let texts = |digits| all.iter().map(|t| text(*t, digits)).collect::<Vec<_>>();
        let differ = |texts: &Vec<String>| texts.windows(2).all(|two| two[0] != two[1]);
        let texts = (2..9).map(texts).find(differ).unwrap_or_else(|| texts(9));
        let one = all.iter().position(|t| unit == Unit::Ratio && (*t - 1.0).abs() < 1e-9).unwrap_or(0);
        let tick = |(t, text): (&f64, String)| Tick { at: scale.of(*t), text, is_spare: true };
        scale.ticks = all.iter().zip(texts).map(tick).collect();
        spare(&mut scale.ticks, one);
        scale
    }

    /// In percent of the axis, clamped to its ends.
    pub fn of(&self, x: f64) -> f64 {
        let place = match self.is_log {
            true if x <= 0.0 => 0.0,
            true => (x / self.lo).ln() / (self.hi / self.lo).ln(),
            false => (x - self.lo) / (self.hi - self.lo),
        };
        100.0 * place.clamp(0.0, 1.0)
    }

    pub fn is_log(&self) -> bool {
        self.is_log
    }
}

/// Width of a label in percent of a narrow and of a wide axis.
const NARROW: f64 = 24.0;
const WIDE: f64 = 7.0;

/// Working outwards from one tick, removes ticks that do not fit on a wide axis, and marks those that do not fit on a
/// narrow one.
fn spare(ticks: &mut Vec<Tick>, from: usize) {
    if ticks.is_empty() {
        return;
    }
    ticks[from].is_spare = false;
    let mut goes = vec![false; ticks.len()];
    let sides: [Vec<usize>; 2] = [(from + 1..ticks.len()).collect(), (0..from).rev().collect()];
    for side in sides {
        let (mut kept, mut last) = (ticks[from].at, ticks[from].at);
        for i in side {
            let at = ticks[i].at;
            goes[i] = (at - last).abs() < WIDE;
            ticks[i].is_spare = (at - kept).abs() < NARROW;
            if !goes[i] {
                last = at;
            }
            if !ticks[i].is_spare {
                kept = at;
            }
        }
    }
    let far = |t: &Tick| (t.at - ticks[from].at).abs();
    if ticks.iter().filter(|t| !t.is_spare).count() == 1 {
        let farthest = (0..ticks.len()).max_by(|a, b| far(&ticks[*a]).total_cmp(&far(&ticks[*b])));
        if let Some(i) = farthest {
            (ticks[i].is_spare, goes[i]) = (false, false);
        }
    }
    let mut goes = goes.into_iter();
    ticks.retain(|_| !goes.next().unwrap_or(false));
}

/// At least two equidistant round numbers within this range.
fn round(lo: f64, hi: f64) -> Vec<f64> {
    let raw = (hi - lo) / 4.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw * 0.999).unwrap_or(raw);
    let first = (lo / step - 1e-9).ceil() as i64;
    (first..).map(|i| i as f64 * step).take_while(|t| *t <= hi * (1.0 + 1e-9) + 1e-12).collect()
}

/// Whether ratios are printed in percent instead of factors.
fn is_near_1(lo: f64, hi: f64) -> bool {
    lo > 0.4 && hi < 2.5
}

/// `×2`, `÷10`; or `−50 %`, `+5 %`.
fn ratio_text(x: f64, in_factors: bool, digits: usize) -> String {
    match in_factors {
        _ if (x - 1.0).abs() < 1e-9 => "1".into(),
        true if x > 1.0 => format!("×{}", significant(x, digits)),
        true if x > 0.0 => format!("÷{}", significant(1.0 / x, digits)),
        _ if x > 1.0 => format!("+{} %", significant((x - 1.0) * 100.0, digits)),
        _ => format!("−{} %", significant((1.0 - x) * 100.0, digits)),
    }
}

/// `10 µs`, `25 %`.
fn tick_text(x: f64, unit: Unit, digits: usize) -> String {
    let scaled = |units: &[&str]| {
        let (mut x, mut i) = (x, 0);
        while x.abs() >= 999.5 && i + 1 < units.len() {
            (x, i) = (x / 1000.0, i + 1);
        }
        let number = significant(x, digits);
        if units[i].is_empty() { number } else { format!("{number} {}", units[i]) }
    };
    match unit {
        _ if x == 0.0 => "0".into(),
        Unit::Ns => scaled(&["ns", "µs", "ms", "s"]),
        Unit::Share => format!("{} %", significant(x * 100.0, digits)),
        Unit::Text | Unit::Number | Unit::PerSecond | Unit::Ratio => scaled(&["", "k", "M", "G"]),
    }
}

/// Rounds to this number of significant digits, without trailing zeros.
fn significant(x: f64, digits: usize) -> String {
    let decimals = (digits as i32 - 1 - x.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{x:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|t| t.text.as_str()).collect()
    }

    fn of(lo: f64, hi: f64) -> Extent {
        Extent::of([lo, hi].into_iter())
    }

    #[test]
    fn axis_ticks_are_few_round_and_distinct() {
        assert_eq!(texts(&Scale::linear(0.0, 1.0, Unit::Share)), ["0", "50 %", "100 %"]);
        assert_eq!(texts(&Scale::auto(of(9_000.0, 13_100.0), Unit::PerSecond)), ["0", "5 k", "10 k"]);
        assert_eq!(texts(&Scale::log(1e3, 1e7, Unit::Ns)), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]);
        assert_eq!(texts(&Scale::log(1e5, 4e5, Unit::Ns)), ["100 µs", "200 µs"]);
        assert_eq!(texts(&Scale::around(of(10_000.0, 10_010.0), Unit::PerSecond)), ["10 k", "10.005 k", "10.01 k"]);
        assert_eq!(texts(&Scale::log(3.1e5, 3.9e5, Unit::Ns)), ["320 µs", "340 µs", "360 µs", "380 µs"]);
        let uneven = Scale::ratios(of(0.6, 2.2));
        let narrow: Vec<&str> = uneven.ticks.iter().filter(|t| !t.is_spare).map(|t| t.text.as_str()).collect();
        assert_eq!(narrow, ["1", "+50 %"]);
        let wide = Scale::log(1.0, 1e12, Unit::Number);
        assert!(wide.ticks.len() <= TICKS && wide.ticks.len() > 2, "{:?}", wide.ticks);
        for scale in [Scale::auto(of(0.0, 0.0), Unit::Number), Scale::auto(Extent::of([].into_iter()), Unit::Ns)] {
            assert!(scale.ticks.len() > 1, "{:?}", scale.ticks);
        }
    }

    #[test]
    fn ratios_are_in_percent_near_1_and_factors_otherwise() {
        assert_eq!(texts(&Scale::ratios(of(0.97, 1.02))), ["−5 %", "1", "+5 %"]);
        assert_eq!(texts(&Scale::ratios(of(0.02, 1.1))), ["÷32", "÷16", "÷8", "÷4", "÷2", "1"]);
        assert_eq!(texts(&Scale::ratios(of(0.9, 3.1))), ["1", "×2"]);
        assert_eq!(texts(&Scale::around(of(0.5, 1.6), Unit::Ratio)), ["−50 %", "1", "+50 %"]);
        let scale = Scale::ratios(of(0.02, 1.1));
        assert!(scale.of(1.0) > 90.0 && scale.of(0.0) == 0.0 && scale.of(1e9) == 100.0);
    }
}
