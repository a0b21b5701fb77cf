//! Who may see the pages. Where rules decide, that is a user of the cluster with DESCRIBE on the cluster, by
//! basic authentication (RFC 7617). `/healthz` is open to everybody.
//!
//! A failed login is not delayed here: the connection would keep its place, and probes of `/healthz` would
//! wait. The checks of passwords at the same time are bounded (`tailrace_node::access`).

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use tailrace_identity::UserName;
use tailrace_identity::acl::Operation;
use tailrace_node::{Caller, Door, Node};
use zeroize::Zeroizing;

/// The name of this way to log in, for the metrics and the audit log.
const MECHANISM: &str = "HTTP";

/// Most bytes of the encoded name and password: room for the longest name and a long password.
const ENCODED_BYTES_MAX: usize = 2048;

/// Reports whether the sender of a request may see the pages.
pub(crate) async fn may_see_pages(node: &Arc<Node>, headers: &HeaderMap, peer: SocketAddr) -> bool {
    if !node.has_authorizer() {
        return true;
    }
    let client = Caller::client(Door::Http, peer);
    let Some(login) = basic(headers) else {
        // The rules may be only tried, or allow everybody.
        return node.rights(&client).may_to_cluster(Operation::Describe);
    };
    let failure = match login {
        Ok(Basic { user, password }) => match node.check_password(user.clone(), &password).await {
            Ok(login) => {
                let caller = client.as_user(login.user().as_str().into());
                node.login_succeeded(&caller, MECHANISM);
                return node.rights(&caller).may_to_cluster(Operation::Describe);
            }
            Err(error) => format!("user {}: {error}", user.as_str().escape_debug()),
        },
        Err(reason) => reason.to_owned(),
    };
    let _ = node.login_failed(&client, MECHANISM, &failure);
    false
}

/// A name and a password, which is erased when it is dropped.
struct Basic {
    user: UserName,
    password: Zeroizing<String>,
}

/// Returns the credentials in the headers. `None` if there are none.
fn basic(headers: &HeaderMap) -> Option<Result<Basic, &'static str>> {
    Some(parse(headers.get(AUTHORIZATION)?.as_bytes()))
}

fn parse(header: &[u8]) -> Result<Basic, &'static str> {
    const SCHEME: &[u8] = b"Basic ";
    let has_scheme = header.get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME));
    let encoded = header.get(SCHEME.len()..).filter(|_| has_scheme).ok_or("only basic authentication")?;
    if encoded.len() > ENCODED_BYTES_MAX {
        return Err("the credentials are too long");
    }
    let decoded = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| "the credentials are not base64")?);
    let text = std::str::from_utf8(&decoded).map_err(|_| "the credentials are not UTF-8")?;
    let (user, password) = text.split_once(':').ok_or("the credentials have no colon")?;
    let user = UserName::new(user).map_err(|_| "no user may have this name")?;
    Ok(Basic { user, password: Zeroizing::new(password.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> Result<(String, String), &'static str> {
        parse(header.as_bytes()).map(|login| (login.user.as_str().to_owned(), login.password.to_string()))
    }

    #[test]
    fn a_name_ends_at_the_first_colon() {
        let encode = |text: &str| format!("Basic {}", STANDARD.encode(text));
        for (text, user, password) in [("a:b", "a", "b"), ("a:b:c", "a", "b:c"), ("a:", "a", "")] {
            assert_eq!(read(&encode(text)), Ok((user.to_owned(), password.to_owned())), "{text}");
        }
        assert_eq!(read(&encode("a:b").replace("Basic", "bAsIc")), Ok(("a".to_owned(), "b".to_owned())));
        for text in ["", "a", ":b", "ANONYMOUS:b", "*:b"] {
            assert!(read(&encode(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_basic_authentication_is_refused() {
        let long = format!("Basic {}", "A".repeat(ENCODED_BYTES_MAX + 4));
        for header in ["", "Basic", "Basic ", "Bearer YTpi", "Basic YTpi=", "Basic /w==", "Basic:YTpi", &long]
        {
            assert!(read(header).is_err(), "{header}");
        }
    }
}
