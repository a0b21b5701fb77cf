//! Addresses as people write them.

/// The port of a Kafka server that names none.
pub(crate) const KAFKA_PORT: u16 = 9092;

/// `HOST:PORT` with the usual port added where there is none. An IPv6 address with a port is bracketed.
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

/// The address of a host that a server named.
pub(crate) fn join(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

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
