//! A few words with a system before a run, on a connection of their own.

use std::time::Duration;

use super::resp::push_command;
use super::site::Site;
use super::wire::wrong;
use super::{Target, redis};
use crate::error::RequesterError;

/// Sends `question` to the target's system at `address`, over TLS and with a password where those are needed to be heard, and reads until
/// `answer` finds something, there are `bytes_max`, or `patience` ends.
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
    // NATS says what it is before the handshake, unless that comes first.
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
