//! Who may see the pages. Where rules decide, that is a user of the cluster with DESCRIBE on the cluster. A
//! user without it sees `/metrics` without names. `/healthz` is open to everybody.
//!
//! Users log in with a password (basic authentication, RFC 7617), a token (bearer, RFC 6750; the tokens of
//! OAUTHBEARER), or the certificate of the connection. What a request presents counts before the certificate.
//!
//! A failed login is delayed as on the other doors. Meanwhile the connection gives way to others, so that
//! probes of `/healthz` do not wait. The checks of passwords at the same time are bounded
//! (`tailrace_node::access`).

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use tailrace_env::time::Duration;
use tailrace_identity::UserName;
use tailrace_identity::acl::Operation;
use tailrace_node::access::LoggedIn;
use tailrace_node::{Caller, Door, Node};
use zeroize::Zeroizing;

/// The names of the ways to log in, for the metrics and the audit log.
const BASIC: &str = "HTTP-BASIC";
const BEARER: &str = "HTTP-BEARER";
const CERTIFICATE: &str = "HTTP-CERTIFICATE";
const UNKNOWN: &str = "HTTP";

/// Most bytes of the encoded name and password: room for the longest name and a long password.
const ENCODED_BYTES_MAX: usize = 2048;

/// The connection that a request came by.
pub(crate) struct Origin {
    pub(crate) peer: SocketAddr,
    /// The client's certificate as DER, which TLS has verified.
    pub(crate) certificate: Option<Vec<u8>>,
}

/// What the sender of a request may see.
pub(crate) enum View {
    /// All pages.
    All,
    /// The metrics, without names that this user may not describe.
    Metrics(Caller),
    /// Nothing, because it is nobody's request, or the login failed. Comes with the delay of the answer.
    NotLoggedIn(Duration),
    /// Nothing, because the user may not.
    Forbidden,
}

/// A login that failed.
struct Failed {
    mechanism: &'static str,
    reason: String,
}

/// Returns what the sender of a request for this path may see.
pub(crate) async fn view(node: &Arc<Node>, path: &str, headers: &HeaderMap, origin: &Origin) -> View {
    if !node.has_authorizer() {
        return View::All;
    }
    let client = Caller::client(Door::Http, origin.peer);
    let (mechanism, login) = match log_in(node, headers, origin).await {
        Ok(Some(login)) => login,
        // The rules may be only tried, or allow everybody.
        Ok(None) if node.rights(&client).may_to_cluster(Operation::Describe) => return View::All,
        Ok(None) => return View::NotLoggedIn(Duration::ZERO),
        Err(Failed { mechanism, reason }) => {
            return View::NotLoggedIn(node.login_failed(&client, mechanism, &reason));
        }
    };
    let caller = client.as_user(login.user().as_str().into());
    node.login_succeeded(&caller, mechanism);
    let rights = node.rights(&caller);
    let is_for_all_users = path == "/metrics";
    let sees_all = match is_for_all_users {
        true => rights.sees_cluster(Operation::Describe),
        false => rights.may_to_cluster(Operation::Describe),
    };
    match (sees_all, is_for_all_users) {
        (true, _) => View::All,
        (false, true) => View::Metrics(caller),
        (false, false) => View::Forbidden,
    }
}

/// Returns the ways to log in, for the answer to who has not.
pub(crate) fn challenges(node: &Node) -> Vec<&'static str> {
    let mut ways = vec![r#"Basic realm="tailrace", charset="UTF-8""#];
    if node.config().accepts_tokens() {
        ways.push(r#"Bearer realm="tailrace""#);
    }
    ways
}

/// Returns the login of a request, and how it was made. `None` if it presents nothing.
async fn log_in(
    node: &Arc<Node>,
    headers: &HeaderMap,
    origin: &Origin,
) -> Result<Option<(&'static str, LoggedIn)>, Failed> {
    let mut presented = headers.get_all(AUTHORIZATION).iter();
    let (Some(header), more) = (presented.next(), presented.next()) else {
        return certificate(node, origin).transpose();
    };
    if more.is_some() {
        let reason = "the request has two Authorization headers".to_owned();
        return Err(Failed { mechanism: UNKNOWN, reason });
    }
    match parse(header.as_bytes()) {
        Err((mechanism, reason)) => Err(Failed { mechanism, reason: reason.to_owned() }),
        Ok(Credentials::Basic { user, password }) => {
            let checked = node.check_password(user.clone(), &password).await;
            let reason = |error| format!("user {}: {error}", user.as_str().escape_debug());
            let checked = checked.map_err(|error| Failed { mechanism: BASIC, reason: reason(error) });
            Ok(Some((BASIC, checked?)))
        }
        Ok(Credentials::Bearer(token)) => {
            let checked = node.check_bearer(&token).await;
            let checked = checked.map_err(|error| Failed { mechanism: BEARER, reason: error.to_string() });
            Ok(Some((BEARER, checked?)))
        }
    }
}

fn certificate(node: &Node, origin: &Origin) -> Option<Result<(&'static str, LoggedIn), Failed>> {
    let login = node.certificate_login(origin.certificate.as_deref()?);
    let failed = |reason: String| Failed { mechanism: CERTIFICATE, reason };
    Some(login.map(|login| (CERTIFICATE, login)).map_err(|error| failed(error.to_string())))
}

/// What a request presents. The secrets are erased when they are dropped.
enum Credentials {
    Basic { user: UserName, password: Zeroizing<String> },
    Bearer(Zeroizing<String>),
}

/// Reads an Authorization header. The error has the mechanism and the reason.
fn parse(header: &[u8]) -> Result<Credentials, (&'static str, &'static str)> {
    if let Some(token) = after_scheme(header, b"Bearer ") {
        let token = std::str::from_utf8(token).map_err(|_| (BEARER, "the token is not UTF-8"))?;
        return Ok(Credentials::Bearer(Zeroizing::new(token.trim_start_matches(' ').to_owned())));
    }
    match after_scheme(header, b"Basic ") {
        Some(encoded) => parse_basic(encoded).map_err(|reason| (BASIC, reason)),
        None => Err((UNKNOWN, "neither basic nor bearer authentication")),
    }
}

/// Returns what follows the name of a scheme, which is not case sensitive.
fn after_scheme<'a>(header: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = header.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn parse_basic(encoded: &[u8]) -> Result<Credentials, &'static str> {
    if encoded.len() > ENCODED_BYTES_MAX {
        return Err("the credentials are too long");
    }
    let decoded = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| "the credentials are not base64")?);
    let text = std::str::from_utf8(&decoded).map_err(|_| "the credentials are not UTF-8")?;
    let (user, password) = text.split_once(':').ok_or("the credentials have no colon")?;
    let user = UserName::new(user).map_err(|_| "no user may have this name")?;
    Ok(Credentials::Basic { user, password: Zeroizing::new(password.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(header: &str) -> Option<(String, String)> {
        match parse(header.as_bytes()) {
            Ok(Credentials::Basic { user, password }) => {
                Some((user.as_str().to_owned(), password.to_string()))
            }
            _ => None,
        }
    }

    #[test]
    fn a_name_ends_at_the_first_colon() {
        let encode = |text: &str| format!("Basic {}", STANDARD.encode(text));
        for (text, user, password) in [("a:b", "a", "b"), ("a:b:c", "a", "b:c"), ("a:", "a", "")] {
            assert_eq!(basic(&encode(text)), Some((user.to_owned(), password.to_owned())), "{text}");
        }
        assert!(basic(&encode("a:b").replace("Basic", "bAsIc")).is_some());
        for text in ["", "a", ":b", "ANONYMOUS:b", "*:b"] {
            assert!(parse(encode(text).as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_is_what_follows_bearer() {
        for (header, expected) in [("Bearer a.b.c", "a.b.c"), ("bEARER   a.b.c", "a.b.c"), ("Bearer ", "")] {
            let Ok(Credentials::Bearer(token)) = parse(header.as_bytes()) else { panic!("{header}") };
            assert_eq!(*token, expected);
        }
        assert_eq!(parse(b"Bearer \xff").err().map(|(mechanism, _)| mechanism), Some(BEARER));
    }

    #[test]
    fn everything_else_is_refused() {
        let long = format!("Basic {}", "A".repeat(ENCODED_BYTES_MAX + 4));
        for (header, mechanism) in [
            ("", UNKNOWN),
            ("Basic", UNKNOWN),
            ("Basic ", BASIC),
            ("Bearer", UNKNOWN),
            ("Digest YTpi", UNKNOWN),
            ("Basic YTpi=", BASIC),
            ("Basic /w==", BASIC),
            ("Basic:YTpi", UNKNOWN),
            (&long, BASIC),
        ] {
            assert_eq!(parse(header.as_bytes()).err().map(|(found, _)| found), Some(mechanism), "{header}");
        }
    }
}
