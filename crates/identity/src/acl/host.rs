//! The addresses that a rule is about.

use std::net::IpAddr;

use crate::network::Network;

/// All addresses, or those of a network. Addresses are compared as addresses, not as text as in Kafka. An
/// IPv4 address that is written as an IPv6 address (`::ffff:10.0.0.1`) is an IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// Every address, and requests whose address is unknown.
    Any,
    /// The addresses of a network whose base has no bits behind the prefix.
    Network(Network),
}

impl Host {
    /// Reads `*`, an address, or a network such as `10.0.0.0/8`. `None` for any other text, and for a network
    /// with bits behind its prefix: `10.1.2.3/8` is a mistake.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(parse_bits(bits)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let network = match bits {
            Some(bits) => Network::new(address, bits)?,
            None => Network::of(address)?,
        };
        (!network.has_rest()).then_some(Self::Network(network))
    }

    /// Reports whether it contains an address in canonical form (`IpAddr::to_canonical`).
    pub(super) fn contains(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Network(network) => network.contains(address),
        }
    }
}

/// Reads the length of a prefix. There is one text for each: no sign, and no leading zero.
fn parse_bits(text: &str) -> Option<u8> {
    let is_plain = text == "0" || !text.starts_with('0');
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && is_number).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_contain_what_they_say() {
        for (host, inside, outside) in [
            ("*", "10.0.0.1", ""),
            ("10.0.0.1", "10.0.0.1", "10.0.0.2"),
            ("10.0.0.1", "::ffff:10.0.0.1", "::10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2"),
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "a00::"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.0"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("::/0", "ffff::1", "10.0.0.1"),
            ("10.0.0.128/25", "10.0.0.255", "10.0.0.127"),
            ("0:0:0:0:0:0:0:1", "::1", "::2"),
            ("2001:db8::/32", "2001:db8:ffff::", "2001:db9::"),
            ("::1/128", "::1", "::"),
        ] {
            let parsed = Host::parse(host).unwrap_or_else(|| panic!("{host}"));
            let contains = |text: &str| parsed.contains(text.parse::<IpAddr>().unwrap().to_canonical());
            assert!(contains(inside), "{host} {inside}");
            assert!(outside.is_empty() || !contains(outside), "{host} {outside}");
        }
    }

    #[test]
    fn anything_else_is_no_host() {
        for text in [
            "",
            "**",
            "localhost",
            "10.0.0",
            "10.0.0.256",
            "010.0.0.1",
            " 10.0.0.1",
            "10.0.0.1/",
            "10.0.0.1/33",
            "10.0.0.0/08",
            "10.0.0.0/+8",
            "10.1.2.3/8",
            "10.0.0.0/8/8",
            "/8",
            "*/8",
            "::/129",
            "::1%eth0",
            "::ffff:0.0.0.0/90",
            "[::1]",
            "::1/0",
            "10.0.0.0/256",
        ] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }
}
