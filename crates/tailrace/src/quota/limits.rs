//! The keys of quotas, and their values.

use clap::{ArgGroup, Args};
use tailrace_cli::text::units;

/// Kafka's names of the keys (KIP-13, KIP-124, KIP-599, KIP-612).
const PRODUCER_BYTES: &str = "producer_byte_rate";
const CONSUMER_BYTES: &str = "consumer_byte_rate";
const REQUEST_PERCENT: &str = "request_percentage";
const MUTATIONS: &str = "controller_mutation_rate";
const CONNECTIONS: &str = "connection_creation_rate";

/// The keys, and the options that set them.
const KEYS: [(&str, &str); 5] = [
    (PRODUCER_BYTES, "producer-bytes"),
    (CONSUMER_BYTES, "consumer-bytes"),
    (REQUEST_PERCENT, "request-percent"),
    (MUTATIONS, "mutations"),
    (CONNECTIONS, "connections"),
];

/// Largest value: above it, not every whole number can be expressed.
const VALUE_MAX: f64 = 9_007_199_254_740_992.0;

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    pub(super) key: String,
    pub(super) value: f64,
}

/// The options that set quotas.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("limits").required(true).multiple(true))]
pub(super) struct LimitArguments {
    /// Bytes per second that may be produced, as in 10MB/s (producer_byte_rate)
    #[arg(long, value_name = "RATE", group = "limits", value_parser = byte_rate)]
    producer_bytes: Option<f64>,
    /// Bytes per second that may be fetched, as in 10MB/s (consumer_byte_rate)
    #[arg(long, value_name = "RATE", group = "limits", value_parser = byte_rate)]
    consumer_bytes: Option<f64>,
    /// Share of the time of a node's threads: 100 is one thread (request_percentage)
    #[arg(long, value_name = "PERCENT", group = "limits", value_parser = percent)]
    request_percent: Option<f64>,
    /// Partitions that may be created or deleted per second (controller_mutation_rate)
    #[arg(long, value_name = "RATE", group = "limits", value_parser = rate)]
    mutations: Option<f64>,
    /// Connections that an address may open per second (connection_creation_rate)
    #[arg(long, value_name = "RATE", group = "limits", value_parser = whole_rate)]
    connections: Option<f64>,
    /// A quota by Kafka's name; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE", group = "limits", value_parser = key_value)]
    limit: Vec<Limit>,
}

impl LimitArguments {
    /// Every quota that was given.
    ///
    /// # Errors
    /// A key was given twice, or it does not suit an address or anything else.
    pub(super) fn limits(&self, is_address: bool) -> Result<Vec<Limit>, String> {
        let options = [
            (PRODUCER_BYTES, self.producer_bytes),
            (CONSUMER_BYTES, self.consumer_bytes),
            (REQUEST_PERCENT, self.request_percent),
            (MUTATIONS, self.mutations),
            (CONNECTIONS, self.connections),
        ];
        let options =
            options.into_iter().filter_map(|(key, value)| Some(Limit { key: key.to_owned(), value: value? }));
        let mut limits: Vec<Limit> = options.chain(self.limit.iter().cloned()).collect();
        limits.sort_by(|a, b| a.key.cmp(&b.key));
        if let Some(pair) = limits.windows(2).find(|pair| pair[0].key == pair[1].key) {
            return Err(format!("{} is given twice", pair[0].key));
        }
        limits.iter().try_for_each(|limit| check_key(&limit.key, is_address))?;
        Ok(limits)
    }
}

/// An address has a rate of connections and nothing else; nothing else has one. Keys that are unknown here
/// are for the server.
fn check_key(key: &str, is_address: bool) -> Result<(), String> {
    match KEYS.iter().any(|(known, _)| *known == key) && is_address != (key == CONNECTIONS) {
        true if is_address => Err(format!("an address has no {key}, only {CONNECTIONS} (--connections)")),
        true => Err(format!("only addresses have {key} (--ip, --default-ip)")),
        false => Ok(()),
    }
}

/// Finds Kafka's name of a key, which may be given as the name of its option. Other names are for the server.
pub(super) fn key(text: &str) -> Result<String, String> {
    let option = text.strip_prefix("--").unwrap_or(text);
    let found = KEYS.iter().find(|(key, name)| *key == text || *name == option);
    match found {
        Some((key, _)) => Ok((*key).to_owned()),
        None if text.is_empty() => Err("it is empty".to_owned()),
        None => Ok(text.to_owned()),
    }
}

fn key_value(text: &str) -> Result<Limit, String> {
    let (name, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let key = key(name)?;
    let value = match key.as_str() {
        PRODUCER_BYTES | CONSUMER_BYTES => byte_rate(value),
        REQUEST_PERCENT => percent(value),
        CONNECTIONS => whole_rate(value),
        _ => rate(value),
    }?;
    Ok(Limit { key, value })
}

/// Parses `1000`, `10MB/s`, `1.5MiB`: powers of 1,000 for kB, MB and GB, of 1,024 for KiB, MiB, GiB and for
/// K, M, G as in all other options.
fn byte_rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is no rate of bytes: expected, for example, 10MB/s, 512KiB/s or 1000");
    let number = text.strip_suffix("/s").unwrap_or(text);
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let scale = match &number[end..] {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1024.0 * 1024.0,
        "G" | "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number[..end].parse().map_err(|_| wrong())?;
    checked(number * scale).filter(|rate| rate.fract() == 0.0).ok_or_else(wrong)
}

fn percent(text: &str) -> Result<f64, String> {
    positive(text.strip_suffix('%').unwrap_or(text))
        .ok_or_else(|| format!("'{text}' is no share: expected, for example, 50 or 12.5"))
}

fn rate(text: &str) -> Result<f64, String> {
    positive(text.strip_suffix("/s").unwrap_or(text))
        .ok_or_else(|| format!("'{text}' is no rate: expected, for example, 10 or 0.5"))
}

fn whole_rate(text: &str) -> Result<f64, String> {
    let whole = positive(text.strip_suffix("/s").unwrap_or(text)).filter(|rate| rate.fract() == 0.0);
    whole.ok_or_else(|| format!("'{text}' is no rate: expected a whole number per second, for example, 10"))
}

/// Digits, with or without a fraction: neither a sign nor an exponent.
fn positive(text: &str) -> Option<f64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_number).and_then(checked)
}

fn checked(value: f64) -> Option<f64> {
    (value > 0.0 && value <= VALUE_MAX).then_some(value)
}

/// A value for people: exact, and for bytes also in a larger unit.
pub(super) fn shown_value(key: &str, value: f64) -> String {
    match key {
        PRODUCER_BYTES | CONSUMER_BYTES if value >= 1e3 => format!("{value} ({}/s)", units::bytes(value)),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_bytes_have_units() {
        for (text, expected) in [
            ("1000", 1000.0),
            ("1B", 1.0),
            ("10MB/s", 1e7),
            ("1.5kB", 1500.0),
            ("512KiB/s", 524_288.0),
            ("1M", 1_048_576.0),
            ("2GiB/s", 2_147_483_648.0),
        ] {
            assert_eq!(byte_rate(text), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "0",
            "-1",
            "1.5",
            "1.0001kB",
            "MB",
            "1e6",
            "inf",
            "NaN",
            "1TB",
            "1MB/h",
            "9999999999GiB",
            ".",
        ] {
            assert!(byte_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_values_are_positive_numbers() {
        assert_eq!((percent("12.5%"), percent("200")), (Ok(12.5), Ok(200.0)));
        assert_eq!((rate("0.5"), rate("10/s"), whole_rate("10/s")), (Ok(0.5), Ok(10.0), Ok(10.0)));
        for wrong in ["", "0", "-1", "1e3", "inf", "nan", "x", "1.2.3", "+1"] {
            assert!(percent(wrong).is_err() && rate(wrong).is_err() && whole_rate(wrong).is_err(), "{wrong}");
        }
        assert!(whole_rate("0.5").is_err());
    }

    #[test]
    fn keys_have_two_names() {
        for text in ["producer_byte_rate", "producer-bytes", "--producer-bytes"] {
            assert_eq!(key(text), Ok(PRODUCER_BYTES.to_owned()));
        }
        assert_eq!(key("new_rate"), Ok("new_rate".to_owned()));
        assert_eq!(
            key_value("consumer_byte_rate=1MB"),
            Ok(Limit { key: CONSUMER_BYTES.to_owned(), value: 1e6 })
        );
        assert_eq!(key_value("new_rate=0.5"), Ok(Limit { key: "new_rate".to_owned(), value: 0.5 }));
        for wrong in ["", "producer_byte_rate", "=5", "producer_byte_rate=", "connections=0.5"] {
            assert!(key_value(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_have_connections_and_nothing_else_has() {
        assert!(check_key(CONNECTIONS, true).is_ok() && check_key(PRODUCER_BYTES, false).is_ok());
        assert!(check_key(CONNECTIONS, false).is_err() && check_key(PRODUCER_BYTES, true).is_err());
        assert!(check_key("new_rate", true).is_ok() && check_key("new_rate", false).is_ok());
    }

    #[test]
    fn values_are_shown_exactly() {
        assert_eq!(shown_value(PRODUCER_BYTES, 1e7), "10000000 (10.0 MB/s)");
        assert_eq!(shown_value(PRODUCER_BYTES, 1.0), "1");
        assert_eq!(shown_value(REQUEST_PERCENT, 12.5), "12.5");
    }
}
