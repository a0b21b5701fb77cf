//! Messages that ask to be traced (`nats trace`): headers `Nats-Trace-Dest` and `Nats-Trace-Only`.
//!
//! tailrace tells nobody the way of a message. But what is only to be traced must not be taken for one: it is dropped. And who may not
//! publish where the trace is to go may not publish the message either, as in nats-server.

use tailrace_nats_wire::mentions;

/// Where the trace is to be sent.
const DESTINATION: &[u8] = b"Nats-Trace-Dest";
/// In its place where tracing has been switched off on the way.
const DISABLED: &[u8] = b"trace disabled";
/// `1`, `true` or `on`: nothing is to be delivered.
const ONLY: &[u8] = b"Nats-Trace-Only";
/// Of servers that are long gone. nats-server gives up tracing.
const ORIGIN: &[u8] = b"Nats-Trace-Origin-Account";

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trace<'a> {
    /// No trace, or one that nats-server would not send either.
    None,
    /// Its way is to be told there. With `only` it is not to be delivered.
    To { destination: &'a [u8], only: bool },
    /// It is not to be delivered, and there is no place to send the trace to: nats-server drops it without a word.
    Nowhere,
}

impl<'a> Trace<'a> {
    /// What a header block says about it. A block with a status is none that nats-server looks into.
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

/// Names and values as nats-server looks for these headers: a line without a colon belongs to the name in the next one, and a line
/// without an end is none.
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

/// True if a message may be published there.
fn is_subject(subject: &[u8]) -> bool {
    subject
        .split(|&byte| byte == b'.')
        .all(|word| !matches!(word, b"" | b"*" | b">") && !word.iter().any(u8::is_ascii_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Played against nats-server 2.15.2.
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
