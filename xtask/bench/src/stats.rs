//! Medians and spreads over a few rounds. With an odd number of rounds, the median of the rounds' p99 is the
//! p99 of one round, not an average.

use std::fmt;

/// The median and the extremes of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
    pub(super) rounds: usize,
}

impl Spread {
    /// Computes the spread of values. `None` without a value. With an even count, the median is the mean of
    /// the two in the middle.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (&lowest, &highest) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, lowest, highest, rounds: values.len() })
    }

    /// The same spread in a larger unit.
    pub(super) fn per(self, unit: f64) -> Self {
        Self {
            median: self.median / unit,
            lowest: self.lowest / unit,
            highest: self.highest / unit,
            rounds: self.rounds,
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", number(self.median))?;
        if self.rounds > 1 {
            write!(f, " ({}..{})", number(self.lowest), number(self.highest))?;
        }
        Ok(())
    }
}

/// Formats a number with two decimals below 10, one below 100, and as a whole number with separators above.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size < 9.995 {
        return format!("{value:.2}");
    }
    if size < 99.95 {
        return format!("{value:.1}");
    }
    let digits = format!("{size:.0}");
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    if value < 0.0 { format!("-{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_between_the_extremes() {
        let spread = Spread::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, lowest: 1.0, highest: 5.0, rounds: 3 });
        assert_eq!(Spread::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN, 2.0]).unwrap().rounds, 1);
    }

    #[test]
    fn numbers_have_as_many_digits_as_they_deserve() {
        assert_eq!(number(0.456), "0.46");
        assert_eq!(number(9.999), "10.0");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(123.4), "123");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(-1234.0), "-1,234");
    }

    #[test]
    fn one_round_has_no_spread() {
        assert_eq!(Spread::of([0.5]).unwrap().to_string(), "0.50");
        assert_eq!(Spread::of([1.0, 2.0, 4.0]).unwrap().to_string(), "2.00 (1.00..4.00)");
    }
}
