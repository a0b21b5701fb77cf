//! The parts of `listeners` and `advertised.listeners`: NAME://HOST:PORT.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::listener::name_of;
use crate::choice::AdvertisedListener;
use crate::cluster::ADDRESS_BYTES_MAX;

/// Where a listener without a host listens: on all addresses, as in Kafka.
const ALL_ADDRESSES: &str = "0.0.0.0";

/// One NAME://HOST:PORT.
#[derive(Debug)]
pub(super) struct Entry {
    /// In capitals.
    pub(super) name: String,
    /// HOST:PORT, to listen on.
    pub(super) address: String,
    /// Without brackets. Empty if there is none.
    host: String,
    port: u16,
}

impl Entry {
    /// Returns the entry as one of `advertised.listeners`.
    pub(super) fn advertised(self) -> Result<(String, AdvertisedListener), String> {
        let Self { name, host, port, .. } = self;
        let is_unspecified = host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
        if is_unspecified {
            return Err(format!(
                "cannot use the nonroutable meta-address {host} for {name}. Use a routable IP address"
            ));
        }
        if host.is_empty() || port == 0 {
            return Err(format!("{name} needs a host and a port that clients can reach: {name}://HOST:PORT"));
        }
        Ok((name, AdvertisedListener { host, port }))
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// Reads NAME://HOST:PORT.
pub(super) fn entry(text: &str) -> Result<Entry, String> {
    let unreadable = || format!("Unable to parse '{text}' to a broker endpoint: expected NAME://HOST:PORT");
    let (name, address) = text.split_once("://").ok_or_else(unreadable)?;
    let name = name_of(name)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(unreadable)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'%' | b'.' | b'_' | b':');
    if bare.len() > ADDRESS_BYTES_MAX - 8
        || !bare.bytes().all(legal)
        || !port.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(unreadable());
    }
    let port: u16 = port.parse().map_err(|_| format!("'{port}' of '{text}' is not a port"))?;
    let listening = if bare.is_empty() { ALL_ADDRESSES } else { bare };
    let listening = AdvertisedListener { host: listening.to_owned(), port };
    Ok(Entry { name, address: listening.to_string(), host: bare.to_owned(), port })
}

/// Reads `listeners`. Each must have another name.
pub(super) fn list(texts: &[String]) -> Result<Vec<Entry>, String> {
    let entries = texts.iter().map(|text| entry(text)).collect::<Result<Vec<_>, _>>()?;
    for (number, entry) in entries.iter().enumerate() {
        if entries[..number].iter().any(|earlier| earlier.name == entry.name) {
            return Err(format!("Each listener must have a different name, found {} twice", entry.name));
        }
    }
    Ok(entries)
}

/// Refuses two listeners on one port, as Kafka does, unless one has an IPv4 and the other an IPv6 address.
/// Port 0 is another port for each.
pub(super) fn check_ports(entries: &[Entry]) -> Result<(), String> {
    let mut by_port: BTreeMap<u16, Vec<&Entry>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.port != 0) {
        by_port.entry(entry.port).or_default().push(entry);
    }
    for (port, entries) in by_port {
        let [first, second, ..] = entries.as_slice() else { continue };
        let differ = matches!((first.ip(), second.ip()), (Some(a), Some(b)) if a.is_ipv4() != b.is_ipv4());
        if entries.len() > 2 || !differ {
            return Err(format!(
                "Each listener must have a different port unless exactly one listener has an IPv4 address and \
                 the other IPv6 address: {} and {} have port {port}",
                first.name, second.name
            ));
        }
    }
    Ok(())
}

/// Reads the address of the only listener: HOST:PORT or PLAINTEXT://HOST:PORT.
pub(super) fn advertised_alone(text: &str) -> Result<AdvertisedListener, String> {
    let expected = || "expected HOST:PORT or PLAINTEXT://HOST:PORT".to_owned();
    let address = match text.split_once("://") {
        Some(("PLAINTEXT", address)) => address,
        Some((name, _)) => {
            return Err(format!("the listener {name} is not in listeners, which is not set; {}", expected()));
        }
        None => text,
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(expected)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() || host.contains(['/', ' ']) {
        return Err(expected());
    }
    match port.parse() {
        Ok(port) if port != 0 => Ok(AdvertisedListener { host: host.to_owned(), port }),
        _ => Err(format!("{port} is not a port; {}", expected())),
    }
}
