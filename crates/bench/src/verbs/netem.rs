//! What `tc netem` is to do to packets: parses it from a plan, and formats it for tc.

use std::time::Duration;

use tailrace_cli::failure::Failure;
use tailrace_cli::text::units::duration_with_unit;

/// Packets that may wait in one direction. The kernel's default of 1,000 would drop packets that should only
/// be delayed.
const PACKETS_MAX: &str = "100000";

/// What happens to the packets of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Impairment {
    delay: Duration,
    jitter: Duration,
    /// Shares in percent, in tc's format.
    loss: Option<String>,
    duplicate: Option<String>,
    reorder: Option<String>,
}

impl Impairment {
    /// Adds the settings in `text`: `delay=10ms,jitter=1ms,loss=1%,duplicate=0.1%,reorder=5%`.
    pub(super) fn add(&mut self, text: &str) -> Result<(), Failure> {
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("netem: '{part}': expected KEY=VALUE"))?;
            match key {
                "delay" => self.delay = duration_with_unit(value)?,
                "jitter" => self.jitter = duration_with_unit(value)?,
                "loss" => self.loss = Some(percent(value)?),
                "duplicate" => self.duplicate = Some(percent(value)?),
                "reorder" => self.reorder = Some(percent(value)?),
                _ => {
                    let known = "delay, jitter, loss, duplicate or reorder";
                    return Err(format!("netem: '{key}' is unknown: expected {known}").into());
                }
            }
        }
        Ok(())
    }

    /// Checks the combination. The kernel reorders only packets that it delays.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.delay.is_zero() && (self.reorder.is_some() || !self.jitter.is_zero()) {
            return Err("netem: reorder and jitter need a delay, within which packets overtake others".into());
        }
        Ok(())
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The arguments after `tc qdisc add dev DEVICE root`.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec!["netem".to_owned(), "limit".to_owned(), PACKETS_MAX.to_owned()];
        if !self.delay.is_zero() {
            words.push("delay".to_owned());
            let times = [self.delay, self.jitter].into_iter().filter(|time| !time.is_zero());
            words.extend(times.map(|time| format!("{}us", time.as_micros())));
        }
        for (key, share) in [("loss", &self.loss), ("duplicate", &self.duplicate), ("reorder", &self.reorder)]
        {
            words.extend(share.iter().flat_map(|share| [key.to_owned(), share.clone()]));
        }
        words
    }
}

/// Parses `0.5%`, from 0 to 100.
fn percent(text: &str) -> Result<String, Failure> {
    let number = text.strip_suffix('%').and_then(|digits| digits.parse::<f64>().ok());
    match number.filter(|number| (0.0..=100.0).contains(number)) {
        Some(number) => Ok(format!("{number}%")),
        None => {
            Err(format!("netem: '{text}' is not a percentage: expected, for example, 0.5%, from 0% to 100%")
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_told_to_tc() {
        for (text, words) in [
            ("loss=1%", "netem limit 100000 loss 1%"),
            ("delay=10ms", "netem limit 100000 delay 10000us"),
            (
                "delay=10ms,jitter=2ms,loss=0.25%,duplicate=0.1%,reorder=5%",
                "netem limit 100000 delay 10000us 2000us loss 0.25% duplicate 0.1% reorder 5%",
            ),
        ] {
            let mut found = Impairment::default();
            found.add(text).unwrap();
            found.check().unwrap();
            assert_eq!(found.words().join(" "), words);
            assert!(!found.is_none());
        }
        let mut both = Impairment::default();
        assert!(both.is_none());
        both.add("delay=1ms").unwrap();
        both.add("loss=2%").unwrap();
        assert_eq!(both.words().join(" "), "netem limit 100000 delay 1000us loss 2%");
    }

    #[test]
    fn what_tc_could_not_do_is_refused() {
        for (text, expected) in [
            ("loss", "'loss': expected KEY=VALUE"),
            ("loss=1", "'1' is not a percentage"),
            ("loss=101%", "'101%' is not a percentage"),
            ("loss=NaN%", "'NaN%' is not a percentage"),
            ("rain=1%", "'rain' is unknown"),
            ("delay=soon", "soon"),
            ("delay=10", "'10' has no unit"),
        ] {
            let error = Impairment::default().add(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        for text in ["reorder=5%", "jitter=1ms"] {
            let mut found = Impairment::default();
            found.add(text).unwrap();
            assert!(found.check().unwrap_err().to_string().contains("need a delay"));
        }
    }
}
