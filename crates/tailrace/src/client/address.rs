//! Addresses of servers, as given on the command line.

/// The default Kafka port.
pub(crate) const KAFKA_PORT: u16 = 9092;

/// The default HTTP port.
pub(crate) const HTTP_PORT: u16 = 8222;

/// Parses the address of a Kafka listener.
pub(crate) fn kafka(text: &str) -> Result<String, String> {
    parse(text, KAFKA_PORT)
}

/// Parses the address of an HTTP listener.
pub(crate) fn http(text: &str) -> Result<String, String> {
    parse(text, HTTP_PORT)
}

/// Parses an address and adds the usual port if it has none. Names are not resolved.
pub(crate) fn parse(text: &str, usual_port: u16) -> Result<String, String> {
    let whole = complete(text, usual_port);
    let (host, port) = whole.rsplit_once(':').unwrap_or((&whole, ""));
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || "/?@\"".contains(c)) {
        return Err("expected HOST or HOST:PORT".to_owned());
    }
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if inner.map_or(host.contains(':'), |inner| inner.parse::<std::net::Ipv6Addr>().is_err()) {
        return Err(
            "expected HOST:PORT with a number for the port, or an IPv6 address as in [::1]:9092".to_owned()
        );
    }
    match port.parse::<u16>() {
        Ok(1..) => Ok(whole),
        _ => Err(format!("'{port}' is not a port: expected a number from 1 to 65535")),
    }
}

/// Guesses the kind of a server from its first `bytes`. `None` if they do not tell.
pub(crate) fn nature(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'H', b'T', b'T', b'P', ..] => Some("an HTTP server"),
        [b'I', b'N', b'F', b'O', ..] | [b'-', b'E', b'R', b'R', ..] => Some("a NATS server"),
        // A TLS record: an alert, or a handshake.
        [0x15 | 0x16, 0x03, ..] => Some("a server that speaks TLS (see --tls-ca)"),
        _ => None,
    }
}

/// `HOST:PORT`, with the usual port if none is given. An IPv6 address with a port is in brackets.
pub(crate) fn complete(text: &str, usual_port: u16) -> String {
    let text = text.trim();
    let has_port = match text.rsplit_once(':') {
        Some((host, port)) => {
            !port.is_empty()
                && port.bytes().all(|b| b.is_ascii_digit())
                && (!host.contains(':') || (host.starts_with('[') && host.ends_with(']')))
        }
        None => false,
    };
    match text {
        _ if has_port => text.to_owned(),
        _ if text.contains(':') && !text.starts_with('[') => format!("[{text}]:{usual_port}"),
        _ => format!("{text}:{usual_port}"),
    }
}

/// The address of a host and port from a server's response.
pub(crate) fn join(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused() {
        for wrong in [
            "",
            " ",
            "host:99999",
            "host:0",
            "host:",
            ":9092",
            "host:http",
            "a b",
            "http://h:1",
            "[::1",
            "[x]:1",
        ] {
            kafka(wrong).unwrap_err();
        }
        for (text, expected) in
            [("h", "h:9092"), ("h:65535", "h:65535"), ("::1", "[::1]:9092"), ("[::1]:5", "[::1]:5")]
        {
            assert_eq!(kafka(text), Ok(expected.to_owned()));
        }
        assert_eq!(http("h"), Ok("h:8222".to_owned()));
    }

    #[test]
    fn servers_of_other_protocols_are_known_by_their_answers() {
        assert_eq!(nature(b"HTTP/1.1 400"), Some("an HTTP server"));
        assert_eq!(nature(b"INFO {"), Some("a NATS server"));
        assert_eq!(nature(b"\x15\x03\x03\0"), Some("a server that speaks TLS (see --tls-ca)"));
        assert_eq!(nature(b"\0\0\0\x10"), None);
        assert_eq!(nature(b""), None);
    }

    #[test]
    fn ports_are_added_where_they_are_missing() {
        for (text, expected) in [
            ("localhost", "localhost:9092"),
            ("localhost:1", "localhost:1"),
            ("127.0.0.1", "127.0.0.1:9092"),
            ("::1", "[::1]:9092"),
            ("[::1]", "[::1]:9092"),
            ("[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(complete(text, KAFKA_PORT), expected);
        }
        assert_eq!(join("::1", 7), "[::1]:7");
    }
}
