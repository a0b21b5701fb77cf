//! How clients prove who they are, and why one was not let in, as metrics and the audit log tell it.

use std::fmt::{self, Display};

use tailrace_identity::nats_accounts::jwt::{KeyKind, Nkey};
use tailrace_nats_wire::ConnectOptions;

/// The mechanism of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// A user's name and password. Also of clients that present nothing.
    Password,
    /// The token that all clients share.
    Token,
    /// A signature of the nonce.
    Nkey,
    /// Claims, with an operator.
    Jwt,
    /// The certificate of the connection.
    Certificate,
    /// The service of an auth callout.
    Callout,
}

impl Mechanism {
    /// Its name in metrics and in the audit log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Password => "NATS",
            Self::Token => "NATS-TOKEN",
            Self::Nkey => "NATS-NKEY",
            Self::Jwt => "NATS-JWT",
            Self::Certificate => "NATS-CERTIFICATE",
            Self::Callout => "NATS-CALLOUT",
        }
    }
}

/// Why a client was not let in. For the log: the client is told less. It holds no secret.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(super) mechanism: Mechanism,
    reason: String,
}

impl Refused {
    pub(super) fn new(mechanism: Mechanism, reason: impl Display) -> Self {
        Self { mechanism, reason: reason.to_string() }
    }

    /// The same for a client that has said who it is.
    pub(super) fn of(connect: &ConnectOptions, mechanism: Mechanism, reason: impl Display) -> Self {
        match presented(connect) {
            Some(who) => Self::new(mechanism, format_args!("{who}: {reason}")),
            None => Self::new(mechanism, reason),
        }
    }

    /// A client that sends something before CONNECT, although it must log in.
    pub(crate) fn without_connect() -> Self {
        Self::new(Mechanism::Password, "it did not begin with CONNECT")
    }
}

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Treats an empty text like a missing one.
pub(super) fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Describes the user that a CONNECT names. A key is shown only if it is a public one: a client may send its
/// seed by mistake.
fn presented(connect: &ConnectOptions) -> Option<String> {
    if let Some(user) = given(&connect.user) {
        return Some(format!("user {}", user.escape_debug()));
    }
    let key = given(&connect.nkey)?;
    Nkey::parse_as(KeyKind::User, key).is_ok().then(|| format!("key {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_the_user_and_no_secret() {
        let of = |connect: &ConnectOptions| Refused::of(connect, Mechanism::Password, "no").to_string();
        let connect = ConnectOptions {
            user: Some("al\nice".to_owned()),
            pass: Some("secret".to_owned()),
            auth_token: Some("secret".to_owned()),
            ..ConnectOptions::default()
        };
        assert_eq!(of(&connect), "user al\\nice: no");
        let seed = "SUAAOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBZ5FE";
        let connect = |key: &str| ConnectOptions { nkey: Some(key.to_owned()), ..ConnectOptions::default() };
        assert_eq!(of(&connect(seed)), "no");
        let public = "UDVEU3DD4KOFECV66VIHWEZOYX4ZKR3WV27L464SIIPOU2IUI3JCYSJF";
        assert_eq!(of(&connect(public)), format!("key {public}: no"));
    }
}
