//! Random numbers that must be the same in every version, so the generators are part of this source.

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The same generator after `n` draws.
    #[inline]
    pub fn after(&self, n: u64) -> Self {
        Self(self.0.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// 64 uniformly distributed bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `n`, from the high half of the product. The bias, n / 2^64, is far below the resolution of any
    /// run.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(n)) >> 64) as u64
    }
}

/// xoshiro256++ (Blackman, Vigna), seeded by SplitMix64: 4 ns per number, period 2^256.
#[derive(Debug, Clone)]
pub struct Random([u64; 4]);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut seeds = SplitMix64::new(seed);
        Self(std::array::from_fn(|_| seeds.draw()))
    }

    #[inline]
    pub fn draw(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform below `n` (Lemire's multiplication; the bias is below n / 2^64).
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(n)) >> 64) as u64
    }
}

/// Seed for use if none is specified.
pub fn fresh_seed() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    SplitMix64::new(now.as_nanos() as u64).draw() as u32
}

/// Distributions for simulations.
impl SplitMix64 {
    /// Strictly between 0 and 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.draw() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_matches_the_reference_implementation() {
        // First output for the state 0, as in the reference implementation.
        assert_eq!(SplitMix64::new(0).draw(), 0xe220_a839_7b1d_cdaf);
        let mut one = SplitMix64::new(7);
        for _ in 0..5 {
            one.draw();
        }
        assert_eq!(SplitMix64::new(7).after(5).draw(), one.draw());
    }
}
