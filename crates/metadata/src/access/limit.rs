//! The value of a client quota.

use std::fmt;

use tailrace_identity::quota::QuotaKey;

/// Highest limit: 2^63, which Kafka's clients send as the largest number of type long.
const LIMIT_MAX: f64 = 9_223_372_036_854_775_808.0;

/// Maximum length of a limit as text. The smallest numbers have more than 300 zeros.
const TEXT_BYTES_MAX: usize = 400;

/// A limit: a number above 0 and up to 2^63, in the unit of its key. Rates of bytes and of connections are
/// whole numbers.
// The bits of a number above 0 are ordered and equal as the number is. A number itself has no such order,
// because of the values that are excluded here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaLimit(u64);

/// Why a number is no limit. Kafka's error is `INVALID_REQUEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaLimitError {
    /// 0, negative, or not a number.
    #[error("Quota {} must be greater than 0", key.name())]
    NotPositive {
        /// The key.
        key: QuotaKey,
    },
    /// Above 2^63.
    #[error("Quota {} must be at most 2^63", key.name())]
    TooLarge {
        /// The key.
        key: QuotaKey,
    },
    /// A fraction, where the key takes whole numbers.
    #[error("Configuration {} must be a Long value", key.name())]
    Fraction {
        /// The key.
        key: QuotaKey,
    },
}

impl QuotaLimit {
    /// Checks a limit for `key`.
    ///
    /// # Errors
    /// The number is out of range, or the key takes whole numbers only.
    pub fn new(key: QuotaKey, limit: f64) -> Result<Self, QuotaLimitError> {
        if limit.is_nan() || limit <= 0.0 {
            return Err(QuotaLimitError::NotPositive { key });
        }
        if limit > LIMIT_MAX {
            return Err(QuotaLimitError::TooLarge { key });
        }
        if is_whole(key) && limit.fract() != 0.0 {
            return Err(QuotaLimitError::Fraction { key });
        }
        Ok(Self(limit.to_bits()))
    }

    /// Parses the output of `Display`, or another decimal number. `None` if it is no limit.
    pub(crate) fn parse(key: QuotaKey, text: &str) -> Option<Self> {
        let number = (text.len() <= TEXT_BYTES_MAX).then(|| text.parse().ok())??;
        Self::new(key, number).ok()
    }

    /// Returns the number.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Writes the number so that it is read back exactly.
impl fmt::Display for QuotaLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

impl fmt::Debug for QuotaLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn is_whole(key: QuotaKey) -> bool {
    match key {
        QuotaKey::ProducerByteRate | QuotaKey::ConsumerByteRate | QuotaKey::ConnectionCreationRate => true,
        QuotaKey::RequestPercentage | QuotaKey::ControllerMutationRate => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_positive_number_and_rates_of_bytes_are_whole() {
        let (bytes, percent) = (QuotaKey::ProducerByteRate, QuotaKey::RequestPercentage);
        for (key, number, refused) in [
            (bytes, 0.0, "Quota producer_byte_rate must be greater than 0"),
            (percent, -0.0, "Quota request_percentage must be greater than 0"),
            (percent, -1.0, "Quota request_percentage must be greater than 0"),
            (percent, f64::NAN, "Quota request_percentage must be greater than 0"),
            (percent, f64::INFINITY, "Quota request_percentage must be at most 2^63"),
            (bytes, 2.0 * LIMIT_MAX, "Quota producer_byte_rate must be at most 2^63"),
            (bytes, 1.5, "Configuration producer_byte_rate must be a Long value"),
            (bytes, 1e-9, "Configuration producer_byte_rate must be a Long value"),
        ] {
            assert_eq!(QuotaLimit::new(key, number).unwrap_err().to_string(), refused, "{number}");
        }
        for (key, number) in [(bytes, 1.0), (bytes, LIMIT_MAX), (percent, 0.5), (percent, 5e-324)] {
            assert_eq!(QuotaLimit::new(key, number).map(QuotaLimit::get), Ok(number));
        }
    }

    #[test]
    fn a_limit_is_read_back_exactly_as_it_was_written() {
        let key = QuotaKey::RequestPercentage;
        for number in
            [1_048_576.0, 0.1 + 0.2, 1.0 / 3.0, LIMIT_MAX, LIMIT_MAX / 3.0, f64::MIN_POSITIVE, 5e-324]
        {
            let limit = QuotaLimit::new(key, number).unwrap();
            assert_eq!(QuotaLimit::parse(key, &limit.to_string()), Some(limit), "{limit}");
        }
        assert_eq!(QuotaLimit::new(key, 1_048_576.0).unwrap().to_string(), "1048576");
        for none in ["", "0", "-1", "inf", "NaN", " 1", "0x1", "1,5", "1e19", &"1".repeat(401)] {
            assert_eq!(QuotaLimit::parse(key, none), None, "{none}");
        }
        assert_eq!(QuotaLimit::parse(QuotaKey::ConsumerByteRate, "1.5"), None);
    }

    #[test]
    fn limits_are_ordered_as_their_numbers() {
        let numbers = [5e-324, 1e-9, 0.5, 1.0, 1.5, 2.0, 1e9, LIMIT_MAX];
        let limits = numbers.map(|number| QuotaLimit::new(QuotaKey::RequestPercentage, number).unwrap());
        assert!(limits.is_sorted() && limits.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
