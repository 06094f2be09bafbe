//! The cost behind observed launches: least squares over constant, SEQ and REM.
//!
//! A launch whose critical path waits `a` times for SEQ and `b` times for REM takes `constant + a
//! SEQ + b REM`. [`Explanation::steps`](super::explain::Explanation::steps) gives a and b of a
//! tree, and of every host in it when cut there. A cost cannot be negative: of all fits over a
//! subset of the three numbers (the others being zero), the best one without a negative number is
//! taken.

use alloc::vec::Vec;
use core::time::Duration;

use crate::cost::Cost;

/// One observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The multiple of SEQ on the path.
    pub seq_steps: u32,
    /// The multiple of REM on the path.
    pub rem_steps: u32,
    /// The observed time.
    pub time: Duration,
}

/// A cost, and how well it explains the observations.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fit {
    /// The cost.
    pub cost: Cost,
    /// R²: the fraction of the variance of the times that the cost explains, at most 1.
    pub r_squared: f64,
}

/// Observations that do not determine a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// There are fewer observations than unknowns.
    #[error("{0} observations do not determine three costs; at least 3 are needed")]
    TooFew(usize),
    /// The observed paths are too similar.
    #[error("the observed paths are too similar to separate constant, SEQ and REM; observe other trees")]
    TooAlike,
}

/// The constant, SEQ and REM that fit these observations best.
///
/// # Errors
/// Too few observations, or paths that do not separate the three costs.
pub fn fit(samples: &[Observation]) -> Result<Fit, FitError> {
    if samples.len() < 3 {
        return Err(FitError::TooFew(samples.len()));
    }
    let rows: Vec<_> = samples.iter().map(Equation::from).collect();
    if solve(&rows, [true; 3]).is_none() {
        return Err(FitError::TooAlike);
    }
    let subsets = (0u8..8).map(|bits| [0, 1, 2].map(|column| bits >> column & 1 == 1));
    let best = subsets
        .filter_map(|used| solve(&rows, used))
        .filter(|costs| costs.iter().all(|&cost| cost >= 0.0))
        .map(|costs| (residual(&rows, costs), costs))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let (unexplained, [constant, seq, rem]) = best.ok_or(FitError::TooAlike)?;
    let mean = rows.iter().map(|row| row.time).sum::<f64>() / rows.len() as f64;
    let total: f64 = rows.iter().map(|row| (row.time - mean) * (row.time - mean)).sum();
    // The rounding error of equal times is not variance.
    let rounding = f64::EPSILON * f64::EPSILON * mean * mean * (16 * rows.len()) as f64;
    let r_squared = if total > rounding { 1.0 - unexplained / total } else { 1.0 };
    let duration = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let cost = Cost { constant: duration(constant), seq: duration(seq), rem: duration(rem) };
    Ok(Fit { cost, r_squared })
}

struct Equation {
    /// The coefficients of constant, SEQ and REM.
    factors: [f64; 3],
    time: f64,
}

impl From<&Observation> for Equation {
    fn from(sample: &Observation) -> Self {
        let factors = [1.0, f64::from(sample.seq_steps), f64::from(sample.rem_steps)];
        Self { factors, time: sample.time.as_secs_f64() }
    }
}

fn residual(rows: &[Equation], costs: [f64; 3]) -> f64 {
    let error = |row: &Equation| row.time - (0..3).map(|i| row.factors[i] * costs[i]).sum::<f64>();
    rows.iter().map(|row| error(row) * error(row)).sum()
}

/// The least-squares costs with the unused ones zero; `None` if the equations do not determine
/// them.
fn solve(rows: &[Equation], used: [bool; 3]) -> Option<[f64; 3]> {
    // Columns are scaled to length 1, so that the threshold for zero does not depend on units.
    let length = |i: usize| libm::sqrt(rows.iter().map(|row| row.factors[i] * row.factors[i]).sum());
    let lengths = [length(0), length(1), length(2)];
    let mut matrix = [[0.0; 4]; 3];
    for i in 0..3 {
        if !used[i] {
            matrix[i][i] = 1.0; // this cost is zero
            continue;
        }
        for j in (0..3).filter(|&j| used[j]) {
            let dot: f64 = rows.iter().map(|row| row.factors[i] * row.factors[j]).sum();
            matrix[i][j] = dot / (lengths[i] * lengths[j]);
        }
        matrix[i][3] = rows.iter().map(|row| row.factors[i] * row.time).sum::<f64>() / lengths[i];
    }
    let mut costs = eliminate(matrix)?;
    for i in (0..3).filter(|&i| used[i]) {
        costs[i] /= lengths[i];
    }
    Some(costs)
}

/// Solves three equations in three unknowns (the right-hand side is the last column).
fn eliminate(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    const NOTHING: f64 = 1e-10;
    for column in 0..3 {
        let size = |row: &usize| libm::fabs(matrix[*row][column]);
        let pivot = (column..3).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        matrix.swap(column, pivot);
        let scale = matrix[column][column];
        // A column of zeros gives NaN here, which fails this comparison as well.
        if libm::fabs(scale) > NOTHING {
            matrix[column] = matrix[column].map(|x| x / scale);
        } else {
            return None;
        }
        for row in (0..3).filter(|&row| row != column) {
            let factor = matrix[row][column];
            let done = matrix[column];
            for (x, from) in matrix[row].iter_mut().zip(done) {
                *x -= factor * from;
            }
        }
    }
    Some([matrix[0][3], matrix[1][3], matrix[2][3]])
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::Shape;
    use crate::plan::explain::explain;
    use crate::sim::rng::Rng;

    /// Launches of trees of many shapes and sizes at this cost, each time off by up to this
    /// fraction.
    fn observe(cost: &Cost, noise: f64) -> Vec<Observation> {
        let mut rng = Rng::new(1);
        let k = |k| Shape::Kary(NonZeroU32::new(k).unwrap());
        let shapes = [Shape::Flat, Shape::Chain, k(2), k(8), k(32), Shape::Binomial];
        let sizes = [10, 40, 200];
        let launches = shapes.iter().flat_map(|shape| sizes.map(|hosts| (shape, hosts)));
        let sample = launches.map(|(shape, hosts)| {
            let tree = shape.tree(NonZeroU32::new(hosts).unwrap(), cost);
            let explanation = explain(&tree, &tree.schedule(cost));
            let (seq_steps, rem_steps) = explanation.steps();
            let factor = 1.0 + noise * (2.0 * rng.unit() - 1.0);
            Observation { seq_steps, rem_steps, time: explanation.launch_time.mul_f64(factor) }
        });
        sample.collect()
    }

    proptest! {
        #[test]
        fn exact_observations_give_the_cost_back(
            seq in 1u64..100_000, rem in 0u64..10_000_000, constant in 0u64..1_000_000
        ) {
            let micros = Duration::from_micros;
            let cost = Cost::new(micros(seq), micros(rem)).with_constant(micros(constant));
            let fit = fit(&observe(&cost, 0.0)).unwrap();
            let near = |a: Duration, b: Duration| a.abs_diff(b) < micros(50);
            prop_assert!(near(fit.cost.seq, cost.seq), "{:?}", fit);
            prop_assert!(near(fit.cost.rem, cost.rem), "{:?}", fit);
            prop_assert!(near(fit.cost.constant, cost.constant), "{:?}", fit);
            prop_assert!(fit.r_squared > 0.999_999);
        }
    }

    #[test]
    fn paths_that_never_wait_for_seq_cannot_tell_it() {
        // If SEQ is zero, the last host of a flat tree has waited for no other launch.
        let cost = Cost::new(Duration::ZERO, Duration::from_millis(172));
        assert_eq!(fit(&observe(&cost, 0.0)[..6]), Err(FitError::TooAlike));
    }

    #[test]
    fn times_that_are_all_the_same_are_explained_by_the_constant() {
        for millis in [1, 100, 300, 700, 3_333] {
            let time = Duration::from_millis(millis);
            let samples = [(1, 1), (5, 1), (2, 3), (9, 2)].map(|(seq_steps, rem_steps)| Observation {
                seq_steps,
                rem_steps,
                time,
            });
            assert_eq!(fit(&samples).unwrap().r_squared, 1.0, "{millis} ms");
        }
    }

    #[test]
    fn noisy_observations_give_about_the_cost_and_an_r_squared_below_one() {
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
        let fit = fit(&observe(&cost, 0.05)).unwrap();
        assert!((fit.cost.seq.as_secs_f64() / 0.007 - 1.0).abs() < 0.2, "{fit:?}");
        assert!((fit.cost.rem.as_secs_f64() / 0.172 - 1.0).abs() < 0.05, "{fit:?}");
        assert!((0.99..1.0).contains(&fit.r_squared), "{fit:?}");
    }

    #[test]
    fn a_cost_is_never_negative() {
        let sample = |seq_steps, rem_steps, millis| Observation {
            seq_steps,
            rem_steps,
            time: Duration::from_millis(millis),
        };
        // The longer a path waits for SEQ, the less time it took: SEQ can only be zero.
        let samples = [sample(0, 1, 110), sample(10, 1, 100), sample(20, 2, 195), sample(5, 2, 205)];
        let fit = fit(&samples).unwrap();
        assert_eq!(fit.cost.seq, Duration::ZERO);
        assert!((fit.cost.rem.as_secs_f64() - 0.095).abs() < 0.01, "{fit:?}");
    }

    #[test]
    fn observations_that_tell_nothing_apart_are_refused() {
        let same = Observation { seq_steps: 3, rem_steps: 2, time: Duration::from_secs(1) };
        assert_eq!(fit(&[same; 2]), Err(FitError::TooFew(2)));
        assert_eq!(fit(&[same; 9]), Err(FitError::TooAlike));
        let none = Observation { seq_steps: 0, rem_steps: 0, time: Duration::ZERO };
        assert_eq!(fit(&[none; 9]), Err(FitError::TooAlike));
        // One step of SEQ for every step of REM: only their sum is determined.
        let line = [1, 2, 3, 4].map(|n| Observation { seq_steps: n, rem_steps: n, time: n * same.time });
        assert_eq!(fit(&line), Err(FitError::TooAlike));
    }
}
