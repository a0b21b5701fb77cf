//! The fields of messages that hold secrets. Their text in `Debug` hides them, so that no log, panic or
//! failed test can show one (CVE-2026-33558: Kafka wrote requests with secrets into its log).

use super::layout::Message;

/// Structures, and their fields. Values of settings may be passwords.
const SECRETS: &[(&str, &str)] = &[
    ("SaslAuthenticateRequest", "AuthBytes"),
    ("SaslAuthenticateResponse", "AuthBytes"),
    ("ScramCredentialUpsertion", "Salt"),
    ("ScramCredentialUpsertion", "SaltedPassword"),
    ("CreateDelegationTokenResponse", "Hmac"),
    ("RenewDelegationTokenRequest", "Hmac"),
    ("ExpireDelegationTokenRequest", "Hmac"),
    ("DescribedDelegationToken", "Hmac"),
    ("AlterableConfig", "Value"),
];

/// Reports whether a field holds a secret.
pub(super) fn is_secret(structure: &str, field: &str) -> bool {
    SECRETS.contains(&(structure, field))
}

/// Checks that each field of the list exists, so that none is shown because its name has changed.
pub(super) fn check(messages: &[Message]) -> Result<(), String> {
    let structures = || messages.iter().flat_map(|message| &message.structures);
    let exists = |(structure, field): &(&str, &str)| {
        let mut same = structures().filter(|found| found.name == *structure);
        same.any(|found| found.fields.iter().any(|found| found.name == *field))
    };
    match SECRETS.iter().find(|secret| !exists(secret)) {
        Some((structure, field)) => Err(format!("no message has the secret field {structure}.{field}")),
        None => Ok(()),
    }
}
