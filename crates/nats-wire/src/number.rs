//! Decimal numbers of the protocol.

/// Number of digits of the largest `u64`.
const DIGITS_MAX: usize = 20;

/// The two digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Appends `number` in decimal digits.
#[inline]
pub fn push_decimal(out: &mut Vec<u8>, number: u64) {
    match number {
        // One digit fits into a byte.
        0..10 => out.push(b'0' + number as u8),
        10..100 => out.extend_from_slice(&PAIRS[number as usize]),
        _ => push_long(out, number),
    }
}

fn push_long(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    while number > 0 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    at += usize::from(digits[at] == b'0');
    out.extend_from_slice(&digits[at..]);
}

/// Returns the number of decimal digits of `number`.
pub fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Parses decimal digits and nothing else. Leading zeros are allowed. `None` if there are no digits, other
/// bytes, or the number does not fit.
pub(crate) fn parse_decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Parses the size of a payload: at most nine digits, as in nats-server.
pub(crate) fn parse_size(text: &[u8]) -> Option<u64> {
    if text.len() > 9 { None } else { parse_decimal(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read_back() {
        for number in [0, 1, 9, 10, 99, 100, 101, 999, 1000, 4096, 10_000, 1_048_576, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
            assert_eq!(out.len(), decimal_digits(number));
            assert_eq!(parse_decimal(&out), Some(number));
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "-1", "+1", "1a", " 1", "18446744073709551616"] {
            assert_eq!(parse_decimal(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_decimal(b"007"), Some(7));
    }
}
