//! Addresses of documents.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;

/// Maximum length of an address, in bytes.
const BYTES_MAX: usize = 2_048;

/// Whether a document may come without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// Never.
    Refused,
    /// From this machine, for tests and for a proxy beside the server.
    FromLoopback,
}

/// Why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Too many bytes.
    #[error("the address has {found} bytes, and {BYTES_MAX} are the most")]
    TooLong {
        /// The length, in bytes.
        found: usize,
    },
    /// Not a URL of a web server.
    #[error("expected https://HOST[:PORT]/PATH")]
    Malformed,
    /// A user or a password in it would be shown wherever settings are shown.
    #[error("the address must not have a user or a password in it")]
    Credentials,
    /// Not over TLS.
    #[error(
        "http:// is not safe: anybody on the way could replace the keys. It can be allowed for 127.0.0.1, ::1 \
         and localhost with tailrace.oauthbearer.jwks.http.loopback=true"
    )]
    NotEncrypted,
}

/// The address of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) is_encrypted: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query.
    pub(crate) target: String,
    /// Host and port as the header has them.
    pub(crate) authority: String,
}

impl Address {
    /// Reads `https://HOST[:PORT]/PATH`.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn parse(text: &str, plain: Plain) -> Result<Self, AddressError> {
        if text.len() > BYTES_MAX {
            return Err(AddressError::TooLong { found: text.len() });
        }
        if text.contains('#') {
            return Err(AddressError::Malformed);
        }
        let uri: Uri = text.parse().map_err(|_| AddressError::Malformed)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(AddressError::Malformed);
        };
        if authority.as_str().contains('@') {
            return Err(AddressError::Credentials);
        }
        let is_encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(AddressError::Malformed),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        // A port that is not a number is malformed, and so is `host:`.
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match (authority.port_u16(), has_port, is_encrypted) {
            (Some(port), _, _) if port > 0 => port,
            (None, false, true) => 443,
            (None, false, false) => 80,
            _ => return Err(AddressError::Malformed),
        };
        if host.is_empty() {
            return Err(AddressError::Malformed);
        }
        let is_safe = is_encrypted || plain == Plain::FromLoopback && is_loopback(&host);
        if !is_safe {
            return Err(AddressError::NotEncrypted);
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Self { is_encrypted, host, port, target, authority: authority.as_str().to_owned() })
    }

    /// Returns HOST:PORT, to connect to.
    pub(crate) fn to_connect(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_their_ports_and_queries() {
        for (text, connect, host, target) in [
            ("https://idp/keys", "idp:443", "idp", "/keys"),
            ("https://idp.example:8443/a/b?c=d", "idp.example:8443", "idp.example", "/a/b?c=d"),
            ("https://idp", "idp:443", "idp", "/"),
            ("https://[::1]:9/k", "[::1]:9", "::1", "/k"),
            ("https://[2001:db8::1]/k", "[2001:db8::1]:443", "2001:db8::1", "/k"),
        ] {
            let found = Address::parse(text, Plain::Refused).unwrap();
            assert_eq!((found.to_connect().as_str(), found.host.as_str()), (connect, host), "{text}");
            assert_eq!(found.target, target, "{text}");
        }
        let found = Address::parse("https://idp/keys?x", Plain::Refused).unwrap();
        assert_eq!(found.to_string(), "https://idp/keys?x");
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            "idp",
            "/keys",
            "idp/keys",
            "https:///keys",
            "https://",
            "https://idp:/keys",
            "https://idp:0/keys",
            "https://idp:65536/keys",
            "https://idp:x/keys",
            "https://idp/ke ys",
            "https://idp/keys\n",
            "https://idp/keys#a",
            "ftp://idp/keys",
            "file:///keys",
        ] {
            assert_eq!(Address::parse(text, Plain::FromLoopback), Err(AddressError::Malformed), "{text:?}");
        }
        for text in ["https://user:secret@idp/keys", "https://user@idp/keys"] {
            assert_eq!(Address::parse(text, Plain::Refused), Err(AddressError::Credentials), "{text}");
        }
        let long = format!("https://idp/{}", "a".repeat(BYTES_MAX));
        assert_eq!(
            Address::parse(&long, Plain::Refused),
            Err(AddressError::TooLong { found: BYTES_MAX + 12 })
        );
    }

    #[test]
    fn without_tls_only_this_machine_and_only_if_allowed() {
        for text in ["http://127.0.0.1:80/k", "http://127.9.9.9/k", "http://[::1]/k", "http://localhost/k"] {
            assert!(Address::parse(text, Plain::FromLoopback).is_ok(), "{text}");
            assert_eq!(Address::parse(text, Plain::Refused), Err(AddressError::NotEncrypted), "{text}");
        }
        for text in
            ["http://idp/k", "http://10.0.0.1/k", "http://localhost.example/k", "http://127.0.0.1.x/k"]
        {
            assert_eq!(Address::parse(text, Plain::FromLoopback), Err(AddressError::NotEncrypted), "{text}");
        }
    }
}
