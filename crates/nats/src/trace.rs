//! Messages to be traced (`nats trace`): headers `Nats-Trace-Dest` and `Nats-Trace-Only`.
//!
//! tailrace does not send traces. But a message that is only to be traced must not be delivered, so it is
//! dropped. As in nats-server, a client that may not publish to the trace's destination may not publish the
//! message either.

use tailrace_nats_wire::mentions;

/// The subject to which the trace is sent.
const DESTINATION: &[u8] = b"Nats-Trace-Dest";
/// The value of that header if a server on the way has switched tracing off.
const DISABLED: &[u8] = b"trace disabled";
/// `1`, `true` or `on`: the message must not be delivered.
const ONLY: &[u8] = b"Nats-Trace-Only";
/// A header of very old servers. nats-server does not trace such a message.
const ORIGIN: &[u8] = b"Nats-Trace-Origin-Account";

/// The trace that a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trace<'a> {
    /// No trace, or one that nats-server would not send either.
    None,
    /// The trace goes to `destination`. With `only`, the message must not be delivered.
    To { destination: &'a [u8], only: bool },
    /// The message must not be delivered, and the trace has no destination. nats-server drops it silently.
    Nowhere,
}

impl<'a> Trace<'a> {
    /// Parses a header block. Like nats-server, ignores a block with a status.
    #[inline]
    pub(super) fn of(block: &'a [u8]) -> Self {
        let looked_into = mentions(block, DESTINATION) && block.starts_with(b"NATS/1.0\r\n");
        if looked_into { Self::read(block) } else { Self::None }
    }

    fn read(block: &'a [u8]) -> Self {
        let (mut destination, mut only, mut origin) = (None, None, None);
        for (name, value) in lines(block) {
            let place = match name {
                DESTINATION => &mut destination,
                ONLY => &mut only,
                ORIGIN => &mut origin,
                _ => continue,
            };
            if !value.is_empty() {
                place.get_or_insert(value);
            }
        }
        let Some(destination) = destination.filter(|value| *value != DISABLED) else { return Self::None };
        let says_yes =
            |value: &[u8]| [&b"1"[..], b"true", b"on"].iter().any(|yes| value.eq_ignore_ascii_case(yes));
        let only = only.is_some_and(says_yes);
        match origin.is_none() && is_subject(destination) {
            true => Self::To { destination, only },
            false if only => Self::Nowhere,
            false => Self::None,
        }
    }
}

/// Returns names and values as nats-server does when it looks for these headers. A line without a colon
/// becomes part of the next line's name, and a line without an end is ignored.
fn lines(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let (mut rest, mut is_whole) = (block, true);
    let lines = std::iter::from_fn(move || {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        Some(line)
    });
    lines.skip(1).filter_map(move |line| {
        let colon = line.iter().position(|&byte| byte == b':');
        let begins = std::mem::replace(&mut is_whole, colon.is_some());
        let (name, value) = line.split_at(colon.filter(|_| begins)?);
        Some((name, value[1..].trim_ascii()))
    })
}

/// Reports whether messages can be published to the subject.
fn is_subject(subject: &[u8]) -> bool {
    subject
        .split(|&byte| byte == b'.')
        .all(|word| !matches!(word, b"" | b"*" | b">") && !word.iter().any(u8::is_ascii_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verified against nats-server 2.15.2.
    #[test]
    fn only_what_says_so_is_dropped() {
        let to = |destination: &'static str, only| Trace::To { destination: destination.as_bytes(), only };
        for (lines, expected) in [
            ("Nats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\n", to("t", true)),
            ("Nats-Trace-Only:ON\r\nNats-Trace-Dest: a.b\r\n", to("a.b", true)),
            ("Nats-Trace-Dest: t\r\nNats-Trace-Only: True\r\nNats-Trace-Only: no\r\n", to("t", true)),
            ("Nats-Trace-Dest: t\r\nNats-Trace-Only: yes\r\n", to("t", false)),
            ("Nats-Trace-Dest: t\r\nNats-Trace-Only: \r\n", to("t", false)),
            ("Nats-Trace-Dest: t\r\nnats-trace-only: 1\r\n", to("t", false)),
            ("Nats-Trace-Only: 1\r\n", Trace::None),
            ("Nats-Trace-Dest: trace disabled\r\nNats-Trace-Only: 1\r\n", Trace::None),
            ("Nats-Trace-Dest: t..x\r\nNats-Trace-Only: 1\r\n", Trace::Nowhere),
            ("Nats-Trace-Dest: t..x\r\n", Trace::None),
            ("Nats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\nNats-Trace-Origin-Account: A\r\n", Trace::Nowhere),
        ] {
            assert_eq!(Trace::of(format!("NATS/1.0\r\n{lines}\r\n").as_bytes()), expected, "{lines}");
        }
        let without_end = b"NATS/1.0\r\nNats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\n";
        assert_eq!(Trace::of(without_end), to("t", true));
        assert_eq!(Trace::of(&without_end[..without_end.len() - 1]), to("t", false));
        let glued = b"NATS/1.0\r\nno colon\r\nNats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\n\r\n";
        assert_eq!(Trace::of(glued), Trace::None);
        let with_status = b"NATS/1.0 100 Idle\r\nNats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\n\r\n";
        assert_eq!(Trace::of(with_status), Trace::None);
        assert_eq!(Trace::of(b"Nats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\n\r\n"), Trace::None);
    }
}
