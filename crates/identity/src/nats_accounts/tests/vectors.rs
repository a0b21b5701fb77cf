//! The vectors, and keys made of the same seeds.

use std::sync::Arc;

use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::super::jwt::*;

/// The parsed file.
pub(super) fn all() -> Value {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

/// The text at a path such as `user/plain`.
pub(super) fn text(path: &str) -> String {
    let all = all();
    let value = path.split('/').fold(&all, |value, key| &value[key]);
    value.as_str().unwrap_or_else(|| panic!("no vector {path}")).to_owned()
}

/// The time at which the vectors were made, in seconds since 1970.
pub(super) fn now() -> i64 {
    all()["now"].as_i64().unwrap()
}

pub(super) fn key(name: &str) -> String {
    text(&format!("keys/{name}"))
}

pub(super) fn seed(name: &str) -> [u8; 32] {
    digest(&SHA256, name.as_bytes()).as_ref().try_into().unwrap()
}

pub(super) fn signing_key(kind: KeyKind, name: &str) -> SigningKey {
    SigningKey::new(kind, &seed(name)).unwrap()
}

pub(super) fn trust() -> OperatorTrust {
    OperatorTrust::read([text("operator/plain").as_str()]).unwrap()
}

pub(super) fn account(name: &str) -> Arc<AccountClaims> {
    AccountClaims::read(&text(&format!("account/{name}"))).unwrap()
}

pub(super) fn user(name: &str) -> Arc<UserClaims> {
    UserClaims::read(&text(&format!("user/{name}"))).unwrap()
}

pub(super) fn tcp(address: &str) -> Connection {
    Connection {
        kind: ConnectionKind::Standard,
        address: Some(address.parse().unwrap()),
        has_trusted_proxy: false,
    }
}

/// Admits a user to an account, with the right signature.
pub(super) fn admit(account_name: &str, user_name: &str, now_s: i64) -> Result<AccountUser, UserDenied> {
    admit_over(account_name, user_name, tcp("10.0.0.1"), now_s)
}

pub(super) fn admit_over(
    account_name: &str,
    user_name: &str,
    connection: Connection,
    now_s: i64,
) -> Result<AccountUser, UserDenied> {
    let (nonce, signature) = (text("nonce"), raw_signature());
    let presented = Presented { nonce: &nonce, signature: Some(&signature) };
    account(account_name).admit(&user(user_name), presented, connection, now_s)
}

/// The user's signature of the nonce, in base64 without padding as clients send it.
pub(super) fn raw_signature() -> String {
    text("signature").trim_end_matches('=').replace('+', "-").replace('/', "_")
}

/// Signs claims that the Go library would not make.
pub(super) fn forge(signer: &SigningKey, claims: &Value) -> String {
    signer.token(claims).unwrap()
}
