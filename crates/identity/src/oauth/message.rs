//! The messages of OAUTHBEARER (RFC 7628, section 3).
//!
//! The client begins with `n,[a=AUTHZID],\x01auth=Bearer TOKEN\x01[KEY=VALUE\x01]*\x01`. If the token is
//! valid, the answer is empty. Otherwise the answer is a [`Failure`] as JSON, the client sends a single byte
//! 0x01, and then the login fails.

use std::fmt;

use serde::Serialize;

/// Maximum length of a token, in bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Maximum length of the client's first message, in bytes. The token must fit, and the extensions, which few
/// clients send.
const MESSAGE_BYTES_MAX: usize = TOKEN_BYTES_MAX + (16 << 10);

/// Maximum length of an authorization identity, in bytes: the longest name of a user.
const AUTHZID_BYTES_MAX: usize = crate::names::USER_NAME_BYTES_MAX;

/// Ends each pair of a message.
const END: char = '\x01';

/// What is wrong with the client's first message. The token is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Too many bytes.
    #[error("the message has {found} bytes, and {MESSAGE_BYTES_MAX} are the most")]
    TooLong {
        /// The length, in bytes.
        found: usize,
    },
    /// It is not UTF-8.
    #[error("the message is not UTF-8")]
    NotUtf8,
    /// The client asks for channel binding, or says that it would like to.
    #[error("channel binding is not supported: the message must start with n,")]
    ChannelBinding,
    /// The header before the pairs is malformed.
    #[error("the message must start with n,, or n,a=NAME, and then have a byte 0x01")]
    Header,
    /// The authorization identity is empty or malformed, or has a control character.
    #[error("the authorization identity is malformed")]
    AuthzId,
    /// A key or a value has a character that it must not have, or something is missing.
    #[error("expected pairs KEY=VALUE that end with a byte 0x01, and one more such byte at the end")]
    Pair,
    /// There is no `auth`.
    #[error("the message has no pair auth")]
    NoAuth,
    /// There is a second `auth`.
    #[error("the message has the pair auth twice")]
    TwoAuths,
    /// Another scheme, or a malformed token.
    #[error("the value of auth must be Bearer, a blank and the token")]
    Auth,
    /// Too many bytes in the token.
    #[error("the token has {found} bytes, and {TOKEN_BYTES_MAX} are the most")]
    TokenTooLong {
        /// The length, in bytes.
        found: usize,
    },
}

/// The client's first message. The token is a secret. It stays in the buffer of the caller, who erases it.
#[derive(Clone, PartialEq, Eq)]
pub struct InitialResponse<'a> {
    authzid: Option<String>,
    token: &'a str,
}

impl<'a> InitialResponse<'a> {
    /// Reads a message. Extensions must be well-formed, and are ignored: nobody vouches for what they say.
    ///
    /// # Errors
    /// The message or the token is malformed or too long.
    pub fn parse(message: &'a [u8]) -> Result<Self, MessageError> {
        let found = message.len();
        if found > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong { found });
        }
        let message = str::from_utf8(message).map_err(|_| MessageError::NotUtf8)?;
        let (authzid, pairs) = header(message)?;
        Ok(Self { authzid, token: bearer(auth(pairs)?)? })
    }

    /// Returns the token, a secret.
    pub fn token(&self) -> &'a str {
        self.token
    }

    /// Reports whether a client whose token has this name may log in: the authorization identity must be
    /// missing, or be the same name (CVE-2017-12610).
    pub fn allows(&self, name: &str) -> bool {
        self.authzid.as_deref().is_none_or(|authzid| authzid == name)
    }
}

impl fmt::Debug for InitialResponse<'_> {
    /// Omits the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitialResponse").field("authzid", &self.authzid).finish_non_exhaustive()
    }
}

/// Splits the header (RFC 5801, section 4) off, and returns the authorization identity and the pairs.
fn header(message: &str) -> Result<(Option<String>, &str), MessageError> {
    let rest = match message.split_once(',') {
        Some(("n", rest)) => rest,
        Some((flag, _)) if flag == "y" || flag.starts_with("p=") => return Err(MessageError::ChannelBinding),
        _ => return Err(MessageError::Header),
    };
    let (authzid, rest) = rest.split_once(',').ok_or(MessageError::Header)?;
    let pairs = rest.strip_prefix(END).ok_or(MessageError::Header)?;
    let authzid = match authzid {
        "" => None,
        _ => Some(unescaped(authzid.strip_prefix("a=").ok_or(MessageError::Header)?)?),
    };
    Ok((authzid, pairs))
}

/// Decodes a `saslname`: `=2C` is a comma, and `=3D` an equals sign.
fn unescaped(text: &str) -> Result<String, MessageError> {
    let mut parts = text.split('=');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = if let Some(rest) = part.strip_prefix("2C") {
            (',', rest)
        } else {
            ('=', part.strip_prefix("3D").ok_or(MessageError::AuthzId)?)
        };
        name.push(sign);
        name.push_str(rest);
    }
    let is_name = (1..=AUTHZID_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control);
    if is_name { Ok(name) } else { Err(MessageError::AuthzId) }
}

/// Returns the value of `auth`, and checks the form of all pairs.
fn auth(pairs: &str) -> Result<&str, MessageError> {
    let pairs = pairs.strip_suffix(END).ok_or(MessageError::Pair)?;
    let mut auth = None;
    for pair in pairs.split_terminator(END) {
        let (key, value) = pair.split_once('=').ok_or(MessageError::Pair)?;
        let is_key = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphabetic());
        let is_legal = |b: u8| matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n');
        if !is_key || !value.bytes().all(is_legal) {
            return Err(MessageError::Pair);
        }
        if key == "auth" && auth.replace(value).is_some() {
            return Err(MessageError::TwoAuths);
        }
    }
    // Without this byte the last pair was cut off.
    if !pairs.is_empty() && !pairs.ends_with(END) {
        return Err(MessageError::Pair);
    }
    auth.ok_or(MessageError::NoAuth)
}

/// Returns the token in `Bearer TOKEN` (RFC 6750, section 2.1). Schemes ignore case (RFC 9110).
fn bearer(auth: &str) -> Result<&str, MessageError> {
    let (scheme, token) = auth.split_once(' ').ok_or(MessageError::Auth)?;
    let token = token.trim_start_matches(' ');
    let letters = token.trim_end_matches('=');
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b);
    if !scheme.eq_ignore_ascii_case("Bearer") || letters.is_empty() || !letters.bytes().all(is_legal) {
        return Err(MessageError::Auth);
    }
    let found = token.len();
    if found > TOKEN_BYTES_MAX { Err(MessageError::TokenTooLong { found }) } else { Ok(token) }
}

/// The server's answer to a token that it refuses. It does not say why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The scopes that a token needs, separated by blanks.
    pub scope: Option<&'a str>,
    /// The URL at which a client finds the identity provider's configuration.
    pub openid_configuration: Option<&'a str>,
}

impl Failure<'_> {
    /// Returns the answer, as Kafka writes it.
    pub fn to_json(self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "kebab-case")]
        struct Answer<'a> {
            status: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            scope: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            openid_configuration: Option<&'a str>,
        }
        let Self { scope, openid_configuration } = self;
        serde_json::to_string(&Answer { status: "invalid_token", scope, openid_configuration })
            .expect("texts can be written as JSON")
    }
}

/// Reports whether a message is the client's answer to a [`Failure`]: one byte 0x01.
pub fn is_failure_acknowledged(message: &[u8]) -> bool {
    message == b"\x01"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(message: &str) -> Result<&str, MessageError> {
        InitialResponse::parse(message.as_bytes()).map(|response| response.token())
    }

    #[test]
    fn what_clients_send_is_understood() {
        for message in [
            "n,,\x01auth=Bearer a.b-c_d.e\x01\x01",
            "n,,\x01auth=bearer   a.b-c_d.e\x01\x01",
            "n,a=alice,\x01auth=Bearer a.b-c_d.e\x01\x01",
            "n,,\x01auth=Bearer a.b-c_d.e\x01traceId=1 2\t\x01empty=\x01\x01",
            "n,,\x01host=x\x01port=9092\x01auth=BEARER a.b-c_d.e\x01\x01",
        ] {
            assert_eq!(token(message), Ok("a.b-c_d.e"), "{message:?}");
        }
        assert_eq!(token("n,,\x01auth=Bearer b64+/~==\x01\x01"), Ok("b64+/~=="));
    }

    #[test]
    fn everything_else_is_refused() {
        for (message, expected) in [
            ("", MessageError::Header),
            ("n", MessageError::Header),
            ("n,", MessageError::Header),
            ("n,,", MessageError::Header),
            ("n,,auth=Bearer a\x01\x01", MessageError::Header),
            ("N,,\x01auth=Bearer a\x01\x01", MessageError::Header),
            ("n,alice,\x01auth=Bearer a\x01\x01", MessageError::Header),
            ("y,,\x01auth=Bearer a\x01\x01", MessageError::ChannelBinding),
            ("p=tls-exporter,,\x01auth=Bearer a\x01\x01", MessageError::ChannelBinding),
            ("n,a=,\x01auth=Bearer a\x01\x01", MessageError::AuthzId),
            ("n,a=x=,\x01auth=Bearer a\x01\x01", MessageError::AuthzId),
            ("n,a=x=2c,\x01auth=Bearer a\x01\x01", MessageError::AuthzId),
            ("n,a=x\ny,\x01auth=Bearer a\x01\x01", MessageError::AuthzId),
            ("n,,\x01", MessageError::Pair),
            ("n,,\x01\x01", MessageError::NoAuth),
            ("\x01", MessageError::Header),
            ("n,,\x01auth=Bearer a", MessageError::Pair),
            ("n,,\x01auth=Bearer a\x01", MessageError::Pair),
            ("n,,\x01auth=Bearer a\x01\x01\x01", MessageError::Pair),
            ("n,,\x01\x01auth=Bearer a\x01\x01", MessageError::Pair),
            ("n,,\x01auth=Bearer a\x01\x01x", MessageError::Pair),
            ("n,,\x01auth=Bearer a\x01x\x01\x01", MessageError::Pair),
            ("n,,\x01auth=Bearer a\x01=x\x01\x01", MessageError::Pair),
            ("n,,\x01auth=Bearer a\x01x1=y\x01\x01", MessageError::Pair),
            ("n,,\x01auth=Bearer a\x01x=\u{e9}\x01\x01", MessageError::Pair),
            ("n,,\x01auth=Bearer a\x01x=\0\x01\x01", MessageError::Pair),
            ("n,,\x01x=y\x01\x01", MessageError::NoAuth),
            ("n,,\x01Auth=Bearer a\x01\x01", MessageError::NoAuth),
            ("n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01", MessageError::TwoAuths),
            ("n,,\x01auth=\x01\x01", MessageError::Auth),
            ("n,,\x01auth=Bearer\x01\x01", MessageError::Auth),
            ("n,,\x01auth=Bearer \x01\x01", MessageError::Auth),
            ("n,,\x01auth=Bearer =\x01\x01", MessageError::Auth),
            ("n,,\x01auth=Bearer a=b\x01\x01", MessageError::Auth),
            ("n,,\x01auth=Bearer a b\x01\x01", MessageError::Auth),
            ("n,,\x01auth=Bearer\ta\x01\x01", MessageError::Auth),
            ("n,,\x01auth=Basic a\x01\x01", MessageError::Auth),
        ] {
            assert_eq!(token(message), Err(expected), "{message:?}");
        }
        assert_eq!(InitialResponse::parse(b"n,a=\xff,\x01auth=Bearer a\x01\x01"), Err(MessageError::NotUtf8));
    }

    #[test]
    fn lengths_are_bounded() {
        let message = |len: usize| format!("n,,\x01auth=Bearer {}\x01\x01", "a".repeat(len));
        assert_eq!(token(&message(TOKEN_BYTES_MAX)).map(str::len), Ok(TOKEN_BYTES_MAX));
        let found = TOKEN_BYTES_MAX + 1;
        assert_eq!(token(&message(found)), Err(MessageError::TokenTooLong { found }));
        let long = message(MESSAGE_BYTES_MAX);
        assert_eq!(token(&long), Err(MessageError::TooLong { found: long.len() }));
        let named = |len: usize| format!("n,a={},\x01auth=Bearer a\x01\x01", "a".repeat(len));
        assert!(token(&named(AUTHZID_BYTES_MAX)).is_ok());
        assert_eq!(token(&named(AUTHZID_BYTES_MAX + 1)), Err(MessageError::AuthzId));
    }

    #[test]
    fn an_authorization_identity_must_be_the_name_in_the_token() {
        for (header, name, expected) in [
            ("n,,", "alice", true),
            ("n,a=alice,", "alice", true),
            ("n,a=alice,", "Alice", false),
            ("n,a=admin,", "alice", false),
            ("n,a=x=2Cy=3D,", "x,y=", true),
            ("n,a=x=2Cy=3D,", "x=2Cy=3D", false),
        ] {
            let message = format!("{header}\x01auth=Bearer t0ken\x01\x01");
            let response = InitialResponse::parse(message.as_bytes()).unwrap();
            assert_eq!(response.allows(name), expected, "{header} {name}");
            assert!(!format!("{response:?}").contains("t0ken"));
        }
    }

    #[test]
    fn a_failure_is_written_as_kafka_writes_it() {
        assert_eq!(Failure::default().to_json(), r#"{"status":"invalid_token"}"#);
        let failure = Failure { scope: Some("a \"b\""), openid_configuration: Some("https://idp/x") };
        let expected =
            r#"{"status":"invalid_token","scope":"a \"b\"","openid-configuration":"https://idp/x"}"#;
        assert_eq!(failure.to_json(), expected);
        assert!(is_failure_acknowledged(b"\x01"));
        assert!(!is_failure_acknowledged(b"") && !is_failure_acknowledged(b"\x01\x01"));
    }
}
