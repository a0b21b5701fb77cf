//! Server addresses as given on the command line: `HOST`, `HOST:PORT`, or a URL with or without a user.

use crate::client::address::parse;

/// The default NATS port.
const NATS_PORT: u16 = 4222;

/// A server's address, and the credentials in its URL.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    /// `HOST:PORT`.
    pub(crate) host_port: String,
    /// User and password, or a token alone.
    pub(crate) credentials: Option<(String, Option<String>)>,
}

impl ServerAddress {
    /// Parses `HOST[:PORT]`, `nats://[USER[:PASSWORD]@]HOST[:PORT]`, or `nats://TOKEN@HOST`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let rest = match text.split_once("://") {
            None => text,
            Some(("nats", rest)) => rest,
            Some((scheme, _)) => {
                return Err(format!("cannot use '{scheme}://': expected HOST:PORT or nats://HOST:PORT"));
            }
        };
        let rest = rest.trim_end_matches('/');
        let (credentials, host) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((user, host)) => {
                let (user, password) = match user.split_once(':') {
                    Some((user, password)) => (user, Some(decode(password)?)),
                    None => (user, None),
                };
                (Some((decode(user)?, password)), host)
            }
        };
        if host.is_empty() || host.contains(['/', ' ', '?']) {
            return Err("expected HOST:PORT or nats://HOST:PORT".to_owned());
        }
        Ok(Self { host_port: parse(host, NATS_PORT)?, credentials })
    }
}

/// Decodes the percent escapes of a URL.
fn decode(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.ok_or("a percent sign in a URL needs two hexadecimal digits after it")?);
        rest = &after[2..];
    }
    String::from_utf8(out).map_err(|_| "user and password of a URL must be UTF-8".to_owned())
}

impl std::fmt::Debug for ServerAddress {
    /// Omits the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerAddress").field("host_port", &self.host_port).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_urls_are_read() {
        let plain = |host_port: &str| ServerAddress { host_port: host_port.to_owned(), credentials: None };
        assert_eq!(ServerAddress::parse("localhost"), Ok(plain("localhost:4222")));
        assert_eq!(ServerAddress::parse(" [::1]:7 "), Ok(plain("[::1]:7")));
        assert_eq!(ServerAddress::parse("nats://h/"), Ok(plain("h:4222")));
        let with = |user: &str, password: Option<&str>| ServerAddress {
            host_port: "h:1".to_owned(),
            credentials: Some((user.to_owned(), password.map(str::to_owned))),
        };
        assert_eq!(ServerAddress::parse("nats://u:p%40w@h:1"), Ok(with("u", Some("p@w"))));
        assert_eq!(ServerAddress::parse("nats://token@h:1"), Ok(with("token", None)));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for wrong in ["", "nats://", "http://h", "h/path", "nats://%zz@h", "a b", "h:99999", "nats://h:0"] {
            ServerAddress::parse(wrong).unwrap_err();
        }
    }
}
