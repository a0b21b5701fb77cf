//! The options that a client sends in CONNECT.

use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, Serialize};

use crate::json::{SubjectLists, Text, check, folded, set, skip};

/// An error in CONNECT's JSON: invalid syntax, or a field of the wrong type. Shows nothing of the content,
/// because it contains passwords.
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
        serde_json::error::Category::Eof => "the JSON is incomplete",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "invalid JSON",
    }
}

/// The fields of CONNECT. Missing fields have the protocol's defaults. Unknown fields are ignored.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ConnectOptions {
    /// Whether the server answers every operation with `+OK`.
    pub verbose: bool,
    /// Whether the server checks the subjects of publishes, too.
    pub pedantic: bool,
    /// Whether the client wants TLS.
    pub tls_required: bool,
    /// Whether the client's own publishes are delivered to its subscriptions.
    pub echo: bool,
    /// Whether the client understands headers.
    pub headers: bool,
    /// Whether the client wants to be told if a request has no responders.
    pub no_responders: bool,
    /// 1 if the client accepts INFO at any time.
    pub protocol: i64,
    /// The client's name for itself.
    pub name: String,
    /// The client's programming language.
    pub lang: String,
    /// The version of the client's library.
    pub version: String,
    /// User name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    /// Authentication token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_token: Option<String>,
    /// The user's public key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nkey: Option<String>,
    /// The nonce of INFO, signed with that key, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sig: Option<String>,
    /// A user JWT, with an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<String>,
    /// An account of the server. Clients may not choose one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Whether the account is to be created. Clients may not do that.
    #[serde(skip_serializing_if = "is_false")]
    pub new_account: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(truth: &bool) -> bool {
    !truth
}

impl Default for ConnectOptions {
    /// What nats-server assumes for a CONNECT without fields.
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
            new_account: false,
        }
    }
}

impl ConnectOptions {
    /// Parses the JSON of a client's first CONNECT line.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn parse(json: &[u8]) -> Result<Self, ConnectError> {
        Self::default().merged(json)
    }

    /// Merges the JSON of a CONNECT line into these options. Missing and null fields stay unchanged.
    ///
    /// Parses like Go's decoder: field names match in any case, strings may contain invalid Unicode, and the
    /// whole value may be null.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn merged(mut self, json: &[u8]) -> Result<Self, ConnectError> {
        check(json)?;
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        Fields(&mut self).deserialize(&mut deserializer)?;
        Ok(self)
    }

    /// Removes the secrets, which only the server must know.
    pub fn forget_secrets(&mut self) {
        (self.pass, self.auth_token, self.sig, self.jwt) = (None, None, None, None);
    }
}

struct Fields<'a>(&'a mut ConnectOptions);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let options = self.0;
        while let Some(Text(name)) = map.next_key()? {
            match folded(&name).as_str() {
                "verbose" => set(&mut map, &mut options.verbose)?,
                "pedantic" => set(&mut map, &mut options.pedantic)?,
                "tls_required" => set(&mut map, &mut options.tls_required)?,
                "echo" => set(&mut map, &mut options.echo)?,
                "headers" => set(&mut map, &mut options.headers)?,
                "no_responders" => set(&mut map, &mut options.no_responders)?,
                "protocol" => set(&mut map, &mut options.protocol)?,
                "name" => set_text(&mut map, &mut options.name)?,
                "lang" => set_text(&mut map, &mut options.lang)?,
                "version" => set_text(&mut map, &mut options.version)?,
                "user" => set_secret(&mut map, &mut options.user)?,
                "pass" => set_secret(&mut map, &mut options.pass)?,
                "auth_token" => set_secret(&mut map, &mut options.auth_token)?,
                "nkey" => set_secret(&mut map, &mut options.nkey)?,
                "sig" => set_secret(&mut map, &mut options.sig)?,
                "jwt" => set_secret(&mut map, &mut options.jwt)?,
                "account" => set_secret(&mut map, &mut options.account)?,
                "new_account" => set(&mut map, &mut options.new_account)?,
                "remote_account" | "proxy_sig" => skip::<Text, _>(&mut map)?,
                "import" | "export" => skip::<SubjectLists, _>(&mut map)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

fn set_text<'de, M: MapAccess<'de>>(map: &mut M, field: &mut String) -> Result<(), M::Error> {
    if let Some(Text(value)) = map.next_value()? {
        *field = value;
    }
    Ok(())
}

/// Sets a secret, or another optional text.
fn set_secret<'de, M: MapAccess<'de>>(map: &mut M, field: &mut Option<String>) -> Result<(), M::Error> {
    if let Some(Text(value)) = map.next_value()? {
        *field = Some(value);
    }
    Ok(())
}

impl fmt::Debug for ConnectOptions {
    /// Leaves the secrets out.
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

    /// Verified against nats-server 2.15.2, line by line.
    #[test]
    fn json_is_read_as_go_reads_it() {
        for (json, expected) in [
            (&b"{\"name\":\"Andr\xe9\"}"[..], Some("Andr\u{fffd}")),
            (b"{\"name\":\"a\\ud800b\"}", Some("a\u{fffd}b")),
            (b"{\"name\":\"\\ud83d\\ude00\"}", Some("\u{1f600}")),
            (b"{\"name\":\"\xe2\x82\"}", Some("\u{fffd}\u{fffd}")),
            (b"{\"NAME\":\"x\"}", Some("x")),
            (b"{\"name\":\"x\",\"name\":null}", Some("x")),
            (b"{\"\xe9\":1,\"name\":\"x\",\"y\":\"\xe9\\udc00\"}", Some("x")),
            (b"null", Some("")),
            (b" {} ", Some("")),
            (b"{\"import\":null,\"export\":{\"allow\":[\"a\",null],\"more\":1}}", Some("")),
            (b"{\"import\":1}", None),
            (b"{\"export\":{\"deny\":\"a\"}}", None),
            (b"{\"remote_account\":1}", None),
            (b"{\"name\":\"a\tb\"}", None),
            (b"{\"name\":1}", None),
            (b"{\"protocol\":1.0}", None),
            (b"{\"echo\":\"true\"}", None),
            (b"[]", None),
            (b"\"\"", None),
            (b"1", None),
            (b"", None),
            (b"{} {}", None),
        ] {
            let name = ConnectOptions::parse(json).ok().map(|options| options.name);
            assert_eq!(name.as_deref(), expected, "{}", json.escape_ascii());
        }
    }

    #[test]
    fn a_second_connect_changes_what_it_names() {
        let first =
            ConnectOptions::parse(br#"{"verbose":false,"echo":false,"headers":true,"user":"a"}"#).unwrap();
        let second = first.clone().merged(br#"{"echo":true,"headers":null,"user":null,"lang":"x"}"#).unwrap();
        assert_eq!(second, ConnectOptions { echo: true, lang: "x".to_owned(), ..first });
    }

    #[test]
    fn errors_show_no_secret() {
        for (json, expected) in [
            (&br#"{"user":"a","pass":12345}"#[..], "CONNECT: a field of the wrong type at column 24"),
            (br#"{"pass":"12345"#, "CONNECT: the JSON is incomplete at column 14"),
            (br#"{"pass":"12345"]"#, "CONNECT: invalid JSON at column 16"),
        ] {
            let error = ConnectOptions::parse(json).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(!format!("{error:?}").contains("12345"));
        }
    }
}
