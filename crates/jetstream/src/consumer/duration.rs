//! Durations as Go writes and reads them.

use std::fmt;

const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// A duration in ns that prints as Go's `time.Duration` does: `1m30s`, `1.5s`, `100ms`.
pub(super) struct GoDuration(pub(super) i64);

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match ns {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{ns}ns"),
            1_000..1_000_000 => write!(f, "{}\u{b5}s", Decimal(ns, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", Decimal(ns, 1_000_000)),
            _ => {
                let minutes = ns / 60_000_000_000;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                write!(f, "{}s", Decimal(ns % 60_000_000_000, 1_000_000_000))
            }
        }
    }
}

/// A number of `.1` parts, without trailing zeros.
struct Decimal(u64, u64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / self.1)?;
        let (mut rest, mut unit) = (self.0 % self.1, self.1);
        if rest > 0 {
            f.write_str(".")?;
        }
        while rest > 0 {
            unit /= 10;
            write!(f, "{}", rest / unit)?;
            rest %= unit;
        }
        Ok(())
    }
}

/// Reads what Go's `time.ParseDuration` reads: `5s`, `1h2m3.5s`, `-10ms`. In ns.
pub(super) fn parse_go(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if unsigned == "0" {
        return Some(0);
    }
    let mut rest = unsigned;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let name = rest.get(..unit)?;
        sum += number * UNITS.iter().find(|(known, _)| *known == name)?.1;
        rest = rest.get(unit..)?;
    }
    // Go refuses what does not fit into 63 bits.
    let fits = !unsigned.is_empty() && sum < 9.2e18;
    #[expect(clippy::cast_possible_truncation, reason = "compared above")]
    fits.then_some((sum * sign) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_as_go_prints_them() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5\u{b5}s"),
            (100_000_000, "100ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (3_690_000_000_000, "1h1m30s"),
            (-2_000_000_000, "-2s"),
        ];
        for (ns, text) in cases {
            assert_eq!(GoDuration(ns).to_string(), text);
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("5s", Some(5_000_000_000)),
            ("1h2m3.5s", Some(3_723_500_000_000)),
            ("-10ms", Some(-10_000_000)),
            ("1.5us", Some(1_500)),
            ("0", Some(0)),
            ("", None),
            ("-", None),
            ("5", None),
            ("s", None),
            ("5 s", None),
            (".s", None),
            ("1d", None),
            ("99999999999h", None),
        ];
        for (text, ns) in cases {
            assert_eq!(parse_go(text), ns, "{text}");
        }
    }
}
