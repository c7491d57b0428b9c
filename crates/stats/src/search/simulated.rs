use super::*;
use crate::random::SplitMix64;
use crate::{bootstrap, holm};

pub struct World {
    pub random: SplitMix64,
    pub logs: Vec<f64>,
    pub noise: Vec<f64>,
    pub outliers: f64,
    pub drift: f64,
}
impl World {
    pub fn new(seed: u64, logs: Vec<f64>, noise: f64) -> Self {
        let k = logs.len();
        World {
            random: SplitMix64::new(seed.wrapping_mul(0x1234_5678_9abc_def1)),
            logs,
            noise: vec![noise; k],
            outliers: 0.05,
            drift: 0.0,
        }
    }
    pub fn block(&mut self) {
        self.drift += 0.06 * self.random.normal();
    }
    pub fn value(&mut self, i: usize) -> f64 {
        let mut log = self.drift + self.logs[i] + self.noise[i] * self.random.normal();
        if self.random.uniform() < self.outliers {
            log -= (1.2 + 0.3 * self.random.uniform()).ln();
        }
        log.exp()
    }
}
pub fn equal(k: usize, lead: f64) -> Vec<f64> {
    let mut v = vec![0.0; k];
    v[0] = 0.0;
    v[k / 3] = lead.ln_1p();
    v
}
pub fn spread(k: usize, lead: f64) -> Vec<f64> {
    let best = k / 3;
    let mut v: Vec<f64> = (0..k).map(|i| (1.0f64 - 0.3 * (i as f64) / (k as f64 - 1.0)).ln()).collect();
    // Second best has 0, the best lead.
    v.swap(best, 0);
    let mut others: Vec<f64> = (0..k - 1).map(|i| (1.0f64 - 0.3 * i as f64 / (k as f64 - 2.0)).ln()).collect();
    others.rotate_left(5);
    others.insert(best, lead.ln_1p());
    others
}
pub fn run(w: &mut World, o: Options, seed: u64) -> Search {
    let mut s = Search::new(w.logs.len(), 0.05, o, seed);
    let mut b = 0;
    while let Some(order) = s.next_block() {
        w.block();
        for i in order {
            let v = w.value(i);
            s.record(b, i, v);
        }
        b += 1;
    }
    s
}
fn env(name: &str, or: f64) -> f64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or)
}

#[test]
#[ignore]
fn exhaustive() {
    let trials = env("TRIALS", 200.0) as usize;
    for noise in [0.03, 0.05] {
        for b in [20, 25, 30, 35, 40, 50, 60, 70, 80, 90, 100, 110, 120] {
            if noise == 0.03 && b > 50 || noise == 0.05 && b < 50 {
                continue;
            }
            let (mut boot, mut robust) = (0, 0);
            for t in 0..trials {
                let mut w = World::new(t as u64 + 77, equal(16, 0.05), noise);
                let mut all = vec![vec![]; 16];
                let mut table = Table::new(16);
                for block in 0..b {
                    w.block();
                    for i in 0..16 {
                        let v = w.value(i);
                        all[i].push(v);
                        table.record(block, i, Some(v.ln()));
                    }
                }
                let p: Vec<f64> = (0..16)
                    .filter(|i| *i != 5)
                    .map(|i| {
                        let r = bootstrap::paired(&all[i], &all[5]).unwrap();
                        if r.ratio > 1.0 { r.interval.unwrap().p } else { 1.0 }
                    })
                    .collect();
                boot += usize::from(holm::adjusted(&p).iter().all(|p| *p < 0.05));
                let fit = table.fit();
                let p: Vec<f64> = (0..16)
                    .filter(|i| *i != 5)
                    .map(|i| {
                        let r = fit.pair(5, i).unwrap();
                        if r.log > 0.0 { crate::student::beyond(r.log / r.error, r.df) } else { 1.0 }
                    })
                    .collect();
                robust += usize::from(holm::adjusted(&p).iter().all(|p| *p < 0.05));
            }
            println!(
                "noise {noise} blocks {b}: bootstrap+holm {:.3} robust+holm {:.3}",
                boot as f64 / trials as f64,
                robust as f64 / trials as f64
            );
        }
    }
}

#[test]
#[ignore]
fn searches() {
    let trials = env("TRIALS", 500.0) as usize;
    table::LENT.store(env("LENT", 8.0) as u64, std::sync::atomic::Ordering::Relaxed);
    let k = env("K", 16.0) as usize;
    for (noise, blocks) in [(0.03, env("B3", 40.0) as usize), (0.05, env("B5", 100.0) as usize)] {
        for (name, shape) in [("equal", equal as fn(usize, f64) -> Vec<f64>), ("spread", spread)] {
            if k < 7 && name == "spread" {
                continue;
            }
            for lead in [0.0, 0.02, 0.05, 0.1] {
                let full = k * blocks;
                let budget = (full as f64 * env("SHARE", 0.3333)) as usize;
                let (mut held, mut one, mut used, mut used2, mut left, mut exact) = (0, 0, 0, 0usize, 0, 0);
                for t in 0..trials {
                    let mut w = World::new(t as u64 + 1, shape(k, lead), noise);
                    if let Ok(h) = std::env::var("HET") {
                        let f: f64 = h.parse().unwrap();
                        w.noise[k / 3] *= f;
                    }
                    w.outliers = env("OUT", 0.05);
                    let o =
                        Options { threshold: 0.01, min_blocks: env("MIN", 3.0) as usize, max_blocks: blocks, budget };
                    let s = run(&mut w, o, t as u64);
                    let h = s.survivors().contains(&(k / 3));
                    held += usize::from(h);
                    one += usize::from(s.survivors().len() == 1);
                    exact += usize::from(s.survivors().len() == 1 && h);
                    used += s.used;
                    used2 = used2.max(s.used);
                    left += s.survivors().len();
                }
                let n = trials as f64;
                println!(
                    "{name:6} noise {noise} lead {lead:4}: held {:.3} one {:.3} ({:.3}) left {:.2} used {:.0} max {used2} share {:.3}",
                    held as f64 / n,
                    one as f64 / n,
                    exact as f64 / n,
                    left as f64 / n,
                    used as f64 / n,
                    used as f64 / n / full as f64
                );
            }
        }
    }
}
