//! What a client says of itself in CONNECT.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// CONNECT's JSON is none, or a field has a type that it cannot have. Shows nothing of it: passwords are in there.
#[derive(thiserror::Error)]
#[error("CONNECT: {} at column {}", kind(.0), .0.column())]
pub struct ConnectError(#[from] serde_json::Error);

impl std::fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConnectError({self})")
    }
}

fn kind(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a field of the wrong type",
        serde_json::error::Category::Eof => "the JSON is not complete",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "no JSON",
    }
}

/// The fields of CONNECT. What a client leaves out has the protocol's default; fields that are not known are ignored.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ConnectOptions {
    /// The server answers every operation with `+OK`.
    pub verbose: bool,
    /// The server checks subjects of publishes too.
    pub pedantic: bool,
    /// The client wants TLS.
    pub tls_required: bool,
    /// The client's own publishes come back to its subscriptions.
    pub echo: bool,
    /// The client understands headers.
    pub headers: bool,
    /// The client wants to be told that nobody listens to a request.
    pub no_responders: bool,
    /// 1: the client takes INFO at any time.
    pub protocol: i64,
    /// The client's name for itself.
    pub name: String,
    /// Its language.
    pub lang: String,
    /// Its library's version.
    pub version: String,
    /// User name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// Token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_token: Option<String>,
    /// Public key of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nkey: Option<String>,
    /// The nonce of INFO, signed by that key, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sig: Option<String>,
    /// A user JWT. tailrace does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<String>,
    /// An account of the server. tailrace has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

impl Default for ConnectOptions {
    /// As nats-server takes a CONNECT without fields.
    fn default() -> Self {
        Self {
            verbose: true,
            pedantic: true,
            tls_required: false,
            echo: true,
            headers: false,
            no_responders: false,
            protocol: 0,
            name: String::new(),
            lang: String::new(),
            version: String::new(),
            user: None,
            pass: None,
            auth_token: None,
            nkey: None,
            sig: None,
            jwt: None,
            account: None,
        }
    }
}

impl ConnectOptions {
    /// Reads the JSON of a CONNECT line.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn parse(json: &[u8]) -> Result<Self, ConnectError> {
        Ok(serde_json::from_slice(json)?)
    }
}

/// Names of fields count in any case, and null leaves the default, as Go's JSON has it.
impl<'de> Deserialize<'de> for ConnectOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = ConnectOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ConnectOptions, M::Error> {
        let mut options = ConnectOptions::default();
        while let Some(mut name) = map.next_key::<String>()? {
            name.make_ascii_lowercase();
            match name.as_str() {
                "verbose" => set(&mut map, &mut options.verbose)?,
                "pedantic" => set(&mut map, &mut options.pedantic)?,
                "tls_required" => set(&mut map, &mut options.tls_required)?,
                "echo" => set(&mut map, &mut options.echo)?,
                "headers" => set(&mut map, &mut options.headers)?,
                "no_responders" => set(&mut map, &mut options.no_responders)?,
                "protocol" => set(&mut map, &mut options.protocol)?,
                "name" => set(&mut map, &mut options.name)?,
                "lang" => set(&mut map, &mut options.lang)?,
                "version" => set(&mut map, &mut options.version)?,
                "user" => options.user = map.next_value()?,
                "pass" => options.pass = map.next_value()?,
                "auth_token" => options.auth_token = map.next_value()?,
                "nkey" => options.nkey = map.next_value()?,
                "sig" => options.sig = map.next_value()?,
                "jwt" => options.jwt = map.next_value()?,
                "account" => options.account = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(options)
    }
}

fn set<'de, M: MapAccess<'de>, T: Deserialize<'de>>(map: &mut M, field: &mut T) -> Result<(), M::Error> {
    if let Some(value) = map.next_value()? {
        *field = value;
    }
    Ok(())
}

impl fmt::Debug for ConnectOptions {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("name", &self.name)
            .field("lang", &self.lang)
            .field("version", &self.version)
            .field("user", &self.user)
            .field("nkey", &self.nkey)
            .field("verbose", &self.verbose)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_no_secret() {
        for (json, expected) in [
            (&br#"{"user":"a","pass":12345}"#[..], "CONNECT: a field of the wrong type at column 24"),
            (br#"{"pass":"12345"#, "CONNECT: the JSON is not complete at column 14"),
            (br#"{"pass":"12345"]"#, "CONNECT: no JSON at column 16"),
        ] {
            let error = ConnectOptions::parse(json).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(!format!("{error:?}").contains("12345"));
        }
    }
}
