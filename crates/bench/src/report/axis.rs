//! Axes: positions of values, and labels.

/// An axis: the values at its two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Axis {
    /// The position of a value, as a share of the axis.
    pub(super) fn place(self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE)
    }

    /// An axis from 0 to a little more than the greatest value.
    pub(super) fn linear(greatest: f64) -> Self {
        Self { from: 0.0, to: if greatest > 0.0 { greatest * 1.05 } else { 1.0 } }
    }

    /// An axis of decimal logarithms, between 1, 2 or 5 times powers of ten.
    pub(super) fn logarithmic(least: f64, greatest: f64) -> Self {
        // Slightly wider, so that rounding does not add a step.
        let from = steps(least.floor() - 1.0, greatest).rfind(|step| *step <= least + 1e-9).unwrap_or(least);
        let to =
            steps(least, greatest.ceil() + 1.0).find(|step| *step >= greatest - 1e-9).unwrap_or(greatest);
        Self { from, to: if to > from { to } else { from + 1.0 } }
    }

    /// The labeled values of a logarithmic axis, as logarithms, with their labels.
    pub(super) fn logarithmic_ticks(self) -> Vec<(f64, String)> {
        let few = self.to - self.from <= 2.0;
        steps(self.from.floor(), self.to.ceil())
            .filter(|step| (self.from - 1e-9..=self.to + 1e-9).contains(step))
            .filter(|step| few || (step - step.round()).abs() < 1e-9)
            .map(|step| (step, power(step)))
            .collect()
    }
}

/// Logarithms of 1, 2 and 5 times powers of ten.
fn steps(from: f64, to: f64) -> impl DoubleEndedIterator<Item = f64> {
    let decades = from.floor() as i32..=to.ceil() as i32;
    decades.flat_map(|decade| [1.0_f64, 2.0, 5.0].map(|factor| f64::from(decade) + factor.log10()))
}

fn power(logarithm: f64) -> String {
    let value = 10_f64.powf(logarithm);
    let decimals = (-logarithm.floor()).max(0.0) as usize;
    if value >= 1000.0 { grouped(value.round() as u64) } else { format!("{value:.decimals$}") }
}

/// A number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The number of nines of a share: 0.9 has one, 0.99 two. A share of 1 counts as seven.
pub(super) fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-7).log10()
}

/// The labeled shares of an axis of nines, with their labels.
pub(super) fn percentile_ticks(to: f64) -> Vec<(f64, String)> {
    let mut ticks = vec![(0.0, "0 %".to_owned()), (nines(0.5), "50 %".to_owned())];
    ticks.extend((1..=to.floor() as i32).map(|count| (f64::from(count), percent(count))));
    ticks.retain(|(at, _)| *at <= to + 1e-9);
    ticks
}

fn percent(count: i32) -> String {
    match count {
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{} %", "9".repeat(more as usize - 2)),
    }
}

/// About six round numbers from 0 to `greatest`, with their labels.
pub(super) fn linear_ticks(greatest: f64) -> Vec<(f64, String)> {
    let rough = greatest / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
    let step = step.unwrap_or(power * 10.0);
    let count = (greatest / step).floor().clamp(0.0, 100.0) as u32;
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let name = |at: f64| if decimals == 0 { grouped(at.round() as u64) } else { format!("{at:.decimals$}") };
    (0..=count).map(|n| f64::from(n) * step).map(|at| (at, name(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ticks: Vec<(f64, String)>) -> String {
        ticks.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(names(linear_ticks(30.0)), "0 5 10 15 20 25 30");
        assert_eq!(names(linear_ticks(0.7)), "0.0 0.2 0.4 0.6");
        assert_eq!(names(linear_ticks(6000.0)), "0 1,000 2,000 3,000 4,000 5,000 6,000");
        assert_eq!(names(percentile_ticks(3.2)), "0 % 50 % 90 % 99 % 99.9 %");
        assert_eq!(names(percentile_ticks(0.2)), "0 %");
    }

    #[test]
    fn logarithmic_axes_end_at_round_numbers() {
        let axis = |least: f64, greatest: f64| Axis::logarithmic(least.log10(), greatest.log10());
        assert_eq!(names(axis(0.06, 0.9).logarithmic_ticks()), "0.05 0.1 0.2 0.5 1");
        assert_eq!(names(axis(0.05, 2.0).logarithmic_ticks()), "0.05 0.1 0.2 0.5 1 2");
        assert_eq!(names(axis(0.004, 3000.0).logarithmic_ticks()), "0.01 0.1 1 10 100 1,000");
        // A single value still has an axis.
        let single = axis(1.0, 1.0);
        assert!(single.from <= 0.0 && single.to > single.from, "{single:?}");
        assert!(single.place(0.0).is_finite());
    }

    #[test]
    fn digits_are_grouped() {
        let found: Vec<String> = [0, 999, 1000, 12_345_678].into_iter().map(grouped).collect();
        assert_eq!(found, ["0", "999", "1,000", "12,345,678"]);
    }
}
