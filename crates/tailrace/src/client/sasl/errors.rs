//! Errors of passwords and logins. None of them shows a secret.

/// Longest list of a server's mechanisms in a message. Kafka has five.
const SHOWN_MAX: usize = 16;
/// Longest name of a mechanism in a message. SASL allows 20 characters (RFC 4422).
const NAME_CHARS_MAX: usize = 20;

/// Why a password cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PasswordError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(String),
    /// There is nothing in it.
    #[error("the password is empty")]
    Empty,
    /// The server would refuse it.
    #[error("the password is longer than {bytes_max} bytes")]
    TooLong {
        /// The maximum length.
        bytes_max: usize,
    },
    /// A password is text.
    #[error("the password is not UTF-8")]
    NotText,
    /// Probably the wrong file.
    #[error("expected one line with the password; there is more than one line, or a NUL")]
    NotOneLine,
    /// There is nobody to ask.
    #[error("there is no terminal to ask on; {instead}")]
    NoTerminal {
        /// What to do.
        instead: &'static str,
    },
    /// The end of input came before the end of the line.
    #[error("the input ended")]
    Ended,
    /// The password was typed twice, with different results.
    #[error("the two passwords differ")]
    Differ,
}

/// Why a SCRAM exchange failed on our side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScramError {
    /// The bytes are not the message that is due.
    #[error("the server's {message} is malformed")]
    Malformed {
        /// The message's name in RFC 5802.
        message: &'static str,
    },
    /// RFC 5802: `e=` instead of a signature.
    #[error("the server refuses it: {0}")]
    Refused(String),
    /// The nonce does not start with ours, or adds nothing to it.
    #[error("the server's nonce does not continue ours, so its answer is not for this login")]
    Nonce,
    /// So few iterations that an eavesdropper could guess the password from the exchange.
    #[error("the server asks for {found} iterations, which is unsafe ({min} at least)")]
    TooFewIterations {
        /// What the server asks for.
        found: u32,
        /// The minimum.
        min: u32,
    },
    /// So many iterations that this client would compute for minutes.
    #[error("the server asks for {found} iterations ({max} at most)")]
    TooManyIterations {
        /// What the server asks for.
        found: u32,
        /// The maximum.
        max: u32,
    },
    /// The server does not know the password's verifier.
    #[error("the server's signature is wrong: it does not know this user, so do not trust it")]
    Signature,
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    /// The listener has no SASL.
    #[error(
        "this listener has no logins (no SASL); leave out the user, or name another port with --bootstrap"
    )]
    NoSasl,
    /// A server from before Kafka 1.0.
    #[error("its SASL handshake is older than that of Kafka 1.0")]
    OldHandshake,
    /// The mechanism is not served.
    #[error(
        "the server does not offer this mechanism, only {}; choose with --sasl-mechanism",
        listed(offered)
    )]
    Mechanism {
        /// What the server offers.
        offered: Vec<String>,
    },
    /// The password would be readable on the network.
    #[error(
        "PLAIN would show the password to the network; use TLS (--tls-ca) or a scram mechanism, or accept that with \
         --plain-without-tls"
    )]
    InTheClear,
    /// The server's error.
    #[error("{0}")]
    Refused(String),
    /// The server's messages are not acceptable.
    #[error("{0}")]
    Scram(#[from] ScramError),
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomness,
}

/// Names that a server sent, as a list for a message.
pub(crate) fn listed(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN_MAX).map(|name| {
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        name.replace(char::is_control, " ")
    });
    let list = shown.collect::<Vec<_>>().join(", ");
    if list.is_empty() { "none".to_owned() } else { list }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_server_make_a_short_line() {
        let names = |names: &[&str]| listed(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&[]), "none");
        assert_eq!(names(&["PLAIN", "A\r\nB"]), "PLAIN, A  B");
        assert_eq!(names(&[&"x".repeat(1000)]), "x".repeat(NAME_CHARS_MAX));
        assert_eq!(names(&["x"; 1000]).len(), 3 * SHOWN_MAX - 2);
    }
}
