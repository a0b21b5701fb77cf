//! A short exchange with a system before a run, on a connection of its own.

use std::time::Duration;

use super::resp::push_command;
use super::site::Site;
use super::wire::wrong;
use super::{Target, redis};
use crate::error::RequesterError;

/// Sends `question` to the target's system at `address`, with TLS and a password if they are required. Reads
/// until `answer` finds something, `bytes_max` have come, or `patience` has passed.
pub(crate) fn converse<T>(
    target: &Target,
    address: &str,
    question: &[u8],
    patience: Duration,
    bytes_max: usize,
    answer: impl Fn(&[u8]) -> Option<T>,
) -> Result<T, RequesterError> {
    let mut settings = target.settings.clone();
    let site = Site::new(address.to_owned(), &mut settings)?;
    // NATS sends its INFO before the TLS handshake, unless TLS comes first.
    let in_the_clear = question.is_empty() && settings.take("tls-first").is_none();
    let mut wire = if in_the_clear { site.connect_in_the_clear()? } else { site.connect()? };
    if target.system.starts_with("redis")
        && let Some(words) = redis::Login::take(&mut settings)?.words()
    {
        push_command(wire.out(), &words);
    }
    wire.out().extend_from_slice(question);
    wire.wait_within(patience, "telling its version", |data| match answer(data) {
        Some(found) => Ok(Some((found, 0))),
        None if data.len() >= bytes_max => Err(wrong(address, "a version", data)),
        None => Ok(None),
    })
}
