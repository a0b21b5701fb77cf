//! Sums of any size, as counters have them.

use crate::json::{fields, lenient};
use crate::limits::INCREMENT_DIGITS_MAX;

/// A whole number of any size: whether it is below zero, and its digits, the lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Number {
    is_negative: bool,
    digits: Vec<u8>,
}

impl Number {
    /// Reads digits with an optional sign. Longer ones than our bound are none.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (is_negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let legal =
            (1..=INCREMENT_DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        let digits = digits.iter().rev().map(|digit| digit.wrapping_sub(b'0')).collect();
        legal.then(|| Self { is_negative, digits }.trimmed())
    }

    fn trimmed(mut self) -> Self {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        self.is_negative &= !self.digits.is_empty();
        self
    }

    /// The sum of both.
    pub(super) fn plus(&self, other: &Self) -> Self {
        if self.is_negative == other.is_negative {
            let digits = combined(&self.digits, &other.digits, |one, other| one + other);
            return Self { is_negative: self.is_negative, digits }.trimmed();
        }
        let (large, small) = if self.is_smaller_than(other) { (other, self) } else { (self, other) };
        let digits = combined(&large.digits, &small.digits, |one, other| one - other);
        Self { is_negative: large.is_negative, digits }.trimmed()
    }

    /// Compares without signs.
    fn is_smaller_than(&self, other: &Self) -> bool {
        let key =
            |number: &Self| (number.digits.len(), number.digits.iter().rev().copied().collect::<Vec<_>>());
        key(self) < key(other)
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.digits.is_empty() {
            return f.write_str("0");
        }
        let digits: String = self.digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
        write!(f, "{}{digits}", if self.is_negative { "-" } else { "" })
    }
}

/// Digit by digit, with what is carried over.
fn combined(one: &[u8], other: &[u8], combine: impl Fn(i8, i8) -> i8) -> Vec<u8> {
    let digit = |digits: &[u8], at: usize| digits.get(at).map_or(0, |digit| digit.cast_signed());
    let mut carried = 0;
    let mut sum = Vec::with_capacity(one.len().max(other.len()) + 1);
    for at in 0..=one.len().max(other.len()) {
        let value = combine(digit(one, at), digit(other, at)) + carried;
        carried = value.div_euclid(10);
        sum.push(value.rem_euclid(10).cast_unsigned());
    }
    sum
}

#[derive(Default)]
struct Value {
    val: String,
}

fields! {
    Value as "CounterValue";
    "val" "string" val
}

/// The sum in the payload of a counter's last message; none if that is no counter. A sum that is no number
/// counts as 0.
pub(super) fn stored(payload: &[u8]) -> Option<Number> {
    let mut value = Value::default();
    lenient(payload, "server.CounterValue", &mut value).ok()?;
    Some(Number::parse(value.val.as_bytes()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: i128) -> Number {
        Number::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn sums_are_right() {
        let values = [0, 1, -1, 5, 9, 10, -10, 99, 101, -999, i128::from(i64::MAX), -(1 << 100)];
        for one in values {
            for other in values {
                assert_eq!(number(one).plus(&number(other)), number(one + other), "{one} {other}");
            }
        }
        let large = Number::parse("9".repeat(100).as_bytes()).unwrap();
        assert_eq!(large.plus(&number(1)).to_string(), format!("1{}", "0".repeat(100)));
    }

    #[test]
    fn numbers_are_read_with_a_sign_and_bounded() {
        assert_eq!(Number::parse(b"+007").unwrap().to_string(), "7");
        assert_eq!(Number::parse(b"-0").unwrap().to_string(), "0");
        for other in ["", "+", "-", "1.5", "0x1", " 1", "1e3"] {
            assert_eq!(Number::parse(other.as_bytes()), None, "{other}");
        }
        assert!(Number::parse("1".repeat(INCREMENT_DIGITS_MAX).as_bytes()).is_some());
        assert!(Number::parse("1".repeat(INCREMENT_DIGITS_MAX + 1).as_bytes()).is_none());
    }

    #[test]
    fn a_payload_that_is_no_counter_is_told() {
        assert_eq!(stored(br#"{"val":"-12"}"#).unwrap().to_string(), "-12");
        assert_eq!(stored(b"{}").unwrap().to_string(), "0");
        assert_eq!(stored(b"hello"), None);
        assert_eq!(stored(br#"{"val":1}"#), None);
    }
}
