//! Names of clients that show a certificate: the subject of the certificate as text, and Kafka's rules that
//! make a user's name of it (`ssl.principal.mapping.rules`, KIP-371).
//!
//! [`distinguished_name`] writes the subject as Java does, so that rules and names can be taken over from
//! Kafka. [`CertificateNames`] has the rules. [`NatsNames`] are the names among which nats-server looks for a
//! user. Deliberately not here: whether the certificate is valid and who signed it, which TLS checks before.

mod der;
mod distinguished;
mod nats;
mod pattern;
mod rules;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use distinguished::DistinguishedName;
pub use nats::{NatsNames, NatsNamesError};
pub use pattern::PatternError;
pub use rules::{CertificateNameError, CertificateNames, RuleError};
pub use subject::{DnError, distinguished_name};
