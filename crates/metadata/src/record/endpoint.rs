//! The Kafka listeners that a node has registered.

use serde::{Deserialize, Serialize};
use tailrace_config::{LISTENER_NAME_BYTES_MAX, LISTENERS_MAX, SecurityProtocol, is_address};

use crate::serial::Plain;

/// A Kafka listener of a node, as the nodes tell clients of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KafkaEndpoint {
    /// The listener's name, in capitals.
    pub name: String,
    /// What its clients speak.
    #[serde(with = "crate::serial")]
    pub protocol: SecurityProtocol,
    /// The address that clients are told, HOST:PORT.
    pub address: String,
}

impl Plain for SecurityProtocol {
    type Form = String;

    fn form(&self) -> String {
        self.name().to_owned()
    }

    fn of(text: String) -> Option<Self> {
        Self::from_name(&text)
    }
}

/// Checks the Kafka listeners of a registration.
///
/// # Errors
/// What is wrong.
pub(crate) fn check_endpoints(endpoints: &[KafkaEndpoint]) -> Result<(), &'static str> {
    if endpoints.len() > LISTENERS_MAX {
        return Err("it has more than 32 Kafka listeners");
    }
    let legal = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    for (number, KafkaEndpoint { name, address, .. }) in endpoints.iter().enumerate() {
        if !(1..=LISTENER_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(legal) {
            return Err("the name of one of its Kafka listeners is illegal");
        }
        if !is_address(address) {
            return Err("the address of one of its Kafka listeners is not HOST:PORT");
        }
        if endpoints[..number].iter().any(|earlier| earlier.name == *name) {
            return Err("two of its Kafka listeners have one name");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(name: &str, address: &str) -> KafkaEndpoint {
        let (name, address) = (name.to_owned(), address.to_owned());
        KafkaEndpoint { name, protocol: SecurityProtocol::Ssl, address }
    }

    #[test]
    fn listeners_that_no_node_may_have_are_refused() {
        assert_eq!(check_endpoints(&[endpoint("IN", "k:1"), endpoint("OUT", "[::1]:2")]), Ok(()));
        let many: Vec<_> = (0..33).map(|n| endpoint(&format!("N{n}"), "k:1")).collect();
        assert_eq!(check_endpoints(&many[1..]), Ok(()));
        for (endpoints, part) in [
            (many.as_slice(), "more than 32"),
            (&[endpoint("", "k:1")], "name"),
            (&[endpoint("in", "k:1")], "name"),
            (&[endpoint("A.B", "k:1")], "name"),
            (&[endpoint(&"N".repeat(65), "k:1")], "name"),
            (&[endpoint("IN", "k")], "HOST:PORT"),
            (&[endpoint("IN", "k:1"), endpoint("IN", "k:2")], "one name"),
        ] {
            assert!(check_endpoints(endpoints).unwrap_err().contains(part), "{part}");
        }
    }
}
