//! Seeded randomness: the same seed gives the same numbers on every machine and in every version.
//!
//! The generator is xoshiro256++ with its state filled by splitmix64. It is implemented here rather
//! than taken from a crate because a seed in a bug report has to replay after any upgrade.

/// A seeded source of random numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut z = seed;
        Self { state: core::array::from_fn(|_| splitmix(&mut z)) }
    }

    /// An independent generator for a purpose: drawing more for one purpose does not shift another.
    #[must_use]
    pub fn fork(&self, purpose: u64) -> Self {
        Self::new(self.state[0] ^ self.state[3].rotate_left(17) ^ splitmix(&mut purpose.wrapping_add(1)))
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let bits = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        bits
    }

    /// A number of 0..1, every multiple of 2^-53 equally likely.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of 0..bound; 0 if the bound is 0. The bias of at most bound / 2^64 is negligible
    /// here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number from the normal distribution with mean 0 and standard deviation 1.
    pub fn normal(&mut self) -> f64 {
        // Box and Muller; 1 - unit() is never 0, which has no logarithm.
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(core::f64::consts::TAU * self.unit())
    }
}

fn splitmix(z: &mut u64) -> u64 {
    *z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (*z ^ (*z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_numbers_of_its_generator() {
        // splitmix64 from 0, as its author prints it.
        assert_eq!(splitmix(&mut 0), 0xe220_a839_7b1d_cdaf);
        // xoshiro256++ from the state 1, 2, 3, 4, as in its reference implementation.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!([rng.bits(), rng.bits(), rng.bits()], [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn the_distributions_have_the_moments_they_claim() {
        let mut rng = Rng::new(7);
        let n = 100_000;
        let (mut unit, mut normal, mut square) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            unit += rng.unit();
            let x = rng.normal();
            normal += x;
            square += x * x;
            assert!(rng.below(10) < 10);
        }
        let n = f64::from(n);
        assert!((unit / n - 0.5).abs() < 0.005);
        assert!((normal / n).abs() < 0.02);
        assert!((square / n - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_fork_is_not_shifted_by_what_its_parent_draws_elsewhere() {
        let parent = Rng::new(3);
        assert_eq!(parent.fork(1).bits(), parent.fork(1).bits());
        assert_ne!(parent.fork(1).bits(), parent.fork(2).bits());
    }
}
