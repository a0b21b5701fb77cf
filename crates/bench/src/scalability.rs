//! The universal scalability law: how throughput grows with load, and where it stops growing.
//!
//! N. J. Gunther, "Guerrilla Capacity Planning" (Springer, 2007): `X(N) = gamma N / (1 + sigma (N - 1) +
//! kappa N (N - 1))`. gamma is the throughput at a load of 1, sigma the share of the work that is serial
//! (contention), kappa the cost of agreement between any two (coherency). The fit minimises the squared
//! errors of the throughputs themselves, not those of a transformed law.

use serde::Serialize;
use thiserror::Error;

/// Fewest different loads: three coefficients fit any three points.
pub(crate) const LOADS_MIN: usize = 4;

/// Most steps of the fit; it takes about ten.
const STEPS_MAX: u32 = 500;

/// One observation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Point {
    /// The number of concurrent workers.
    pub load: f64,
    /// Their throughput, per second.
    pub throughput: f64,
}

/// Why points cannot be fitted.
#[derive(Clone, Debug, PartialEq, Error)]
pub(crate) enum ScalabilityError {
    /// Too few different loads.
    #[error(
        "a fit of three coefficients needs runs at {LOADS_MIN} different loads or more: found {found} ({loads})"
    )]
    TooFew {
        /// The number of loads.
        found: usize,
        /// The loads.
        loads: String,
    },
    /// A load below 1, or a throughput that is not above 0.
    #[error(
        "a load of {load} with a throughput of {throughput} is not an observation: expected a load of 1 or more, and a throughput above 0"
    )]
    NoObservation {
        /// The load.
        load: f64,
        /// The throughput.
        throughput: f64,
    },
}

/// The coefficients of the law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Law {
    /// Throughput at a load of 1, per second.
    pub gamma: f64,
    /// Contention: the serial share of the work. At least 0.
    pub sigma: f64,
    /// Coherency: cost of agreement between any two. At least 0.
    pub kappa: f64,
}

impl Law {
    /// The throughput at a load.
    pub(crate) fn throughput(&self, load: f64) -> f64 {
        self.gamma * load / self.slowdown(load)
    }

    fn slowdown(&self, load: f64) -> f64 {
        1.0 + self.sigma * (load - 1.0) + self.kappa * load * (load - 1.0)
    }

    /// The load of the greatest throughput. `None` if throughput never stops growing (kappa is 0).
    ///
    /// It is 1 if all work is serial (sigma is 1 or more).
    pub(crate) fn peak_load(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }

    /// The limit that throughput approaches but never reaches. `None` if it has a peak, or no bound.
    pub(crate) fn ceiling(&self) -> Option<f64> {
        (self.kappa == 0.0 && self.sigma > 0.0).then(|| self.gamma / self.sigma)
    }
}

/// The distance of an observation from the law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Residual {
    /// The observation.
    #[serde(flatten)]
    pub point: Point,
    /// The law's throughput.
    pub fitted: f64,
    /// Observed less fitted, per second.
    pub residual: f64,
}

/// A law, and how well it fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Fit {
    /// The coefficients.
    #[serde(flatten)]
    pub law: Law,
    /// The load of the greatest throughput, N*. `None` if there is none.
    pub peak_load: Option<f64>,
    /// The throughput there, per second.
    pub peak_throughput: Option<f64>,
    /// Whether the peak is beyond all loads that were tried, and so a guess.
    pub peak_is_extrapolated: bool,
    /// The limit of throughput, if it has no peak.
    pub ceiling: Option<f64>,
    /// Coefficients that would be below 0 and were held at 0: the law does not describe these points.
    pub held_at_zero: Vec<&'static str>,
    /// Each observation, in order of load.
    pub residuals: Vec<Residual>,
    /// Root of the mean square of the residuals, per second.
    pub residual_rms: f64,
    /// The greatest residual as a share of the observed throughput.
    pub residual_share_max: f64,
    /// Share of the throughputs' variance that the law explains.
    pub r_squared: f64,
}

/// Fits the law to observations. Several at one load are welcome.
///
/// # Errors
/// There are fewer than [`LOADS_MIN`] different loads, or an observation is invalid.
pub(crate) fn fit(points: &[Point]) -> Result<Fit, ScalabilityError> {
    let points = check(points)?;
    // Numbers near 1 keep the arithmetic accurate.
    let scale = points.iter().map(|point| point.throughput).fold(0.0, f64::max);
    let scaled: Vec<Point> =
        points.iter().map(|point| Point { throughput: point.throughput / scale, ..*point }).collect();
    let (law, free) = best(&scaled);
    let law = Law { gamma: law.gamma * scale, ..law };
    let held = [("sigma", free[1]), ("kappa", free[2])];
    Ok(judge(law, &points, held.iter().filter(|(_, free)| !free).map(|(name, _)| *name).collect()))
}

fn check(points: &[Point]) -> Result<Vec<Point>, ScalabilityError> {
    for &Point { load, throughput } in points {
        if !(load >= 1.0 && load.is_finite() && throughput > 0.0 && throughput.is_finite()) {
            return Err(ScalabilityError::NoObservation { load, throughput });
        }
    }
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.load.total_cmp(&b.load));
    let mut loads: Vec<f64> = points.iter().map(|point| point.load).collect();
    loads.dedup();
    if loads.len() < LOADS_MIN {
        let names: Vec<String> = loads.iter().map(f64::to_string).collect();
        let loads_named = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(ScalabilityError::TooFew { found: loads.len(), loads: loads_named });
    }
    Ok(points)
}

/// The best law without negative coefficients, and which of them were free.
fn best(points: &[Point]) -> (Law, [bool; 3]) {
    let tried = [[true, true, true], [true, false, true], [true, true, false], [true, false, false]];
    let mut found: Option<(f64, Law, [bool; 3])> = None;
    for free in tried {
        let law = descend(points, free);
        if law.gamma <= 0.0 || law.sigma < 0.0 || law.kappa < 0.0 {
            continue;
        }
        let error = squares(&law, points);
        // The fit with all of them free is the best, if it is allowed.
        if free == tried[0] {
            return (law, free);
        }
        if found.as_ref().is_none_or(|(least, ..)| error < *least) {
            found = Some((error, law, free));
        }
    }
    // With gamma alone the law is linear, and its gamma is positive, as all throughputs are.
    found.map_or((start(points, tried[3]), tried[3]), |(_, law, free)| (law, free))
}

/// Levenberg and Marquardt's descent, starting at the fit of the law's reciprocal, which is linear.
fn descend(points: &[Point], free: [bool; 3]) -> Law {
    let mut law = start(points, free);
    let mut error = squares(&law, points);
    let mut damping = 1e-3;
    for _ in 0..STEPS_MAX {
        let Some(step) = step(&law, points, free, damping) else { break };
        let next = Law { gamma: law.gamma + step[0], sigma: law.sigma + step[1], kappa: law.kappa + step[2] };
        let next_error = squares(&next, points);
        if next_error.is_finite() && next_error <= error {
            let done = step[0].abs() <= 1e-14 * law.gamma.abs()
                && step[1].abs() <= 1e-14 + 1e-13 * law.sigma.abs()
                && step[2].abs() <= 1e-17 + 1e-13 * law.kappa.abs();
            (law, error, damping) = (next, next_error, (damping * 0.1).max(1e-15));
            if done {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    law
}

/// `N / X = (1 + sigma (N - 1) + kappa N (N - 1)) / gamma` is linear in three numbers. Weights make its
/// errors approximate those of X.
fn start(points: &[Point], free: [bool; 3]) -> Law {
    let rows = points.iter().map(|&Point { load, throughput }| {
        let weight = throughput * throughput / load;
        ([weight, weight * (load - 1.0), weight * load * (load - 1.0)], weight * load / throughput)
    });
    let found = least_squares(rows, free, 0.0).unwrap_or([1.0, 0.0, 0.0]);
    if found[0] <= 0.0 {
        return Law { gamma: points[0].throughput / points[0].load, sigma: 0.0, kappa: 0.0 };
    }
    Law { gamma: 1.0 / found[0], sigma: found[1] / found[0], kappa: found[2] / found[0] }
}

fn step(law: &Law, points: &[Point], free: [bool; 3], damping: f64) -> Option<[f64; 3]> {
    let rows = points.iter().map(|&Point { load, throughput }| {
        let slowdown = law.slowdown(load);
        let fitted = law.gamma * load / slowdown;
        let slopes =
            [load / slowdown, -fitted * (load - 1.0) / slowdown, -fitted * load * (load - 1.0) / slowdown];
        (slopes, throughput - fitted)
    });
    least_squares(rows, free, damping)
}

/// The numbers that bring the rows closest to their values. Those that are not free are 0.
fn least_squares(
    rows: impl Iterator<Item = ([f64; 3], f64)> + Clone,
    free: [bool; 3],
    damping: f64,
) -> Option<[f64; 3]> {
    // Columns of length 1: load squared is large, and 1 is not.
    let mut lengths = [0.0; 3];
    for (row, _) in rows.clone() {
        for place in 0..3 {
            lengths[place] += row[place] * row[place];
        }
    }
    let lengths = lengths.map(|square: f64| square.sqrt().max(f64::MIN_POSITIVE));
    let mut matrix = [[0.0; 4]; 3];
    for (row, value) in rows {
        for i in 0..3 {
            for j in 0..3 {
                matrix[i][j] += row[i] / lengths[i] * (row[j] / lengths[j]);
            }
            matrix[i][3] += row[i] / lengths[i] * value;
        }
    }
    for place in 0..3 {
        matrix[place][place] *= 1.0 + damping;
        if !free[place] {
            for row in &mut matrix {
                row[place] = 0.0;
            }
            matrix[place] = [0.0; 4];
            matrix[place][place] = 1.0;
        }
    }
    let solved = solve(matrix)?;
    let mut found = [0.0; 3];
    for place in 0..3 {
        found[place] = solved[place] / lengths[place];
    }
    found.iter().all(|value| value.is_finite()).then_some(found)
}

/// Gaussian elimination with the largest pivot of each column.
fn solve(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot =
            (column..3).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        if matrix[column][column].abs() < 1e-300 {
            return None;
        }
        let top = matrix[column];
        for row in &mut matrix[column + 1..] {
            let factor = row[column] / top[column];
            for (cell, above) in row.iter_mut().zip(top) {
                *cell -= factor * above;
            }
        }
    }
    let mut found = [0.0; 3];
    for row in (0..3).rev() {
        let known: f64 = (row + 1..3).map(|place| matrix[row][place] * found[place]).sum();
        found[row] = (matrix[row][3] - known) / matrix[row][row];
    }
    Some(found)
}

fn squares(law: &Law, points: &[Point]) -> f64 {
    points.iter().map(|point| (point.throughput - law.throughput(point.load)).powi(2)).sum()
}

fn judge(law: Law, points: &[Point], held_at_zero: Vec<&'static str>) -> Fit {
    let residuals: Vec<Residual> = points
        .iter()
        .map(|point| {
            let fitted = law.throughput(point.load);
            Residual { point: *point, fitted, residual: point.throughput - fitted }
        })
        .collect();
    let count = points.len() as f64;
    let mean = points.iter().map(|point| point.throughput).sum::<f64>() / count;
    let variance: f64 = points.iter().map(|point| (point.throughput - mean).powi(2)).sum();
    let error = squares(&law, points);
    let greatest = points.iter().map(|point| point.load).fold(0.0, f64::max);
    let share = |residual: &Residual| (residual.residual / residual.point.throughput).abs();
    let peak_load = law.peak_load();
    Fit {
        law,
        peak_load,
        peak_throughput: peak_load.map(|load| law.throughput(load)),
        peak_is_extrapolated: peak_load.is_some_and(|load| load > greatest),
        ceiling: law.ceiling(),
        held_at_zero,
        residual_rms: (error / count).sqrt(),
        residual_share_max: residuals.iter().map(share).fold(0.0, f64::max),
        // Equal throughputs have no variance to explain.
        r_squared: if variance > 0.0 { 1.0 - error / variance } else { 1.0 },
        residuals,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Random;

    const LOADS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    fn made(law: Law, loads: &[f64]) -> Vec<Point> {
        loads.iter().map(|load| Point { load: *load, throughput: law.throughput(*load) }).collect()
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-6 * expected.abs().max(1e-3)
    }

    #[test]
    fn known_coefficients_come_back() {
        for (gamma, sigma, kappa) in [
            (1000.0, 0.05, 0.0001),
            (995.6486, 0.026_717_2, 0.000_769_105), // Gunther's example of a web server has coefficients like these
            (250_000.0, 0.4, 0.02),
            (0.5, 0.001, 1e-6),
            (3.2e6, 0.95, 0.003),
        ] {
            let law = Law { gamma, sigma, kappa };
            for loads in [&LOADS[..], &LOADS[..4], &[3.0, 5.0, 10.0, 40.0, 200.0][..]] {
                let fit = fit(&made(law, loads)).unwrap();
                let found = fit.law;
                assert!(
                    near(found.gamma, gamma) && near(found.sigma, sigma) && near(found.kappa, kappa),
                    "{law:?} {found:?}"
                );
                assert!(
                    fit.residual_share_max < 1e-9
                        && fit.r_squared > 1.0 - 1e-9
                        && fit.held_at_zero.is_empty()
                );
                let peak = ((1.0 - sigma) / kappa).sqrt();
                assert!((fit.peak_load.unwrap() - peak).abs() < 1e-4 * peak, "{fit:?}");
                assert_eq!(fit.peak_is_extrapolated, peak > *loads.last().unwrap(), "{fit:?}");
            }
        }
    }

    #[test]
    fn noise_moves_coefficients_little() {
        let law = Law { gamma: 10_000.0, sigma: 0.08, kappa: 0.0005 };
        let mut random = Random::new(7, 0);
        let mut points = Vec::new();
        for _ in 0..5 {
            for mut point in made(law, &LOADS) {
                // Uniformly between 3 % less and 3 % more.
                point.throughput *= 0.97 + random.below(60_001) as f64 / 1e6;
                points.push(point);
            }
        }
        let found = fit(&points).unwrap();
        assert!((found.law.gamma / law.gamma - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.law.sigma / law.sigma - 1.0).abs() < 0.15, "{found:?}");
        assert!((found.law.kappa / law.kappa - 1.0).abs() < 0.15, "{found:?}");
        assert!((found.peak_load.unwrap() / (0.92_f64 / 0.0005).sqrt() - 1.0).abs() < 0.1, "{found:?}");
        assert!(found.residual_rms > 0.0 && found.residual_share_max < 0.08 && found.r_squared > 0.95);
        // It is a minimum: any step away from it is worse.
        let least = squares(&found.law, &points);
        for (gamma, sigma, kappa) in [
            (1.001, 1.0, 1.0),
            (0.999, 1.0, 1.0),
            (1.0, 1.01, 1.0),
            (1.0, 0.99, 1.0),
            (1.0, 1.0, 1.01),
            (1.0, 1.0, 0.99),
        ] {
            let law = found.law;
            let other = Law { gamma: law.gamma * gamma, sigma: law.sigma * sigma, kappa: law.kappa * kappa };
            assert!(squares(&other, &points) > least, "{other:?}");
        }
    }

    #[test]
    fn without_coherency_there_is_a_ceiling_and_no_peak() {
        let amdahl = Law { gamma: 100.0, sigma: 0.25, kappa: 0.0 };
        let mut points = made(amdahl, &LOADS);
        // A little more at the end than contention allows: kappa would be below 0.
        points[7].throughput *= 1.01;
        let found = fit(&points).unwrap();
        assert_eq!(
            (found.held_at_zero.as_slice(), found.law.kappa, found.peak_load),
            (&["kappa"][..], 0.0, None)
        );
        assert!((found.ceiling.unwrap() / 400.0 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn better_than_linear_is_held_and_told() {
        let points: Vec<Point> =
            LOADS[..5].iter().map(|load| Point { load: *load, throughput: load.powf(1.2) }).collect();
        let found = fit(&points).unwrap();
        assert_eq!(found.held_at_zero, ["sigma", "kappa"]);
        assert!(found.residual_share_max > 0.05 && found.ceiling.is_none(), "{found:?}");
    }

    #[test]
    fn too_few_loads_are_refused() {
        let law = Law { gamma: 10.0, sigma: 0.1, kappa: 0.01 };
        let mut points = made(law, &[1.0, 2.0, 4.0]);
        points.extend(made(law, &[2.0, 4.0]));
        let error = fit(&points).unwrap_err();
        assert_eq!(error, ScalabilityError::TooFew { found: 3, loads: "1, 2, 4".to_owned() });
        assert!(error.to_string().contains("needs runs at 4 different loads or more: found 3 (1, 2, 4)"));
        assert_eq!(fit(&[]).unwrap_err(), ScalabilityError::TooFew { found: 0, loads: "none".to_owned() });
        for (load, throughput) in [(0.5, 1.0), (f64::NAN, 1.0), (1.0, 0.0), (1.0, f64::INFINITY)] {
            let mut points = made(law, &LOADS);
            points.push(Point { load, throughput });
            assert!(
                matches!(fit(&points), Err(ScalabilityError::NoObservation { .. })),
                "{load} {throughput}"
            );
        }
    }
}
