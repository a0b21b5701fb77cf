//! Messages that only ask which way they would go (`nats trace`): headers `Nats-Trace-Dest` and `Nats-Trace-Only`.
//!
//! tailrace tells nobody the way. But what is only to be traced must not be taken for a message: it is dropped.

use tailrace_nats_wire::{header_lines, mentions};

/// Where the trace is to be sent.
const DESTINATION: &[u8] = b"Nats-Trace-Dest";
/// In its place where tracing has been switched off on the way.
const DISABLED: &[u8] = b"trace disabled";
/// `1`, `true` or `on`: nothing is to be delivered.
const ONLY: &[u8] = b"Nats-Trace-Only";
/// Of servers that are long gone. nats-server gives up tracing.
const ORIGIN: &[u8] = b"Nats-Trace-Origin-Account";

/// Whether a message is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DryRun {
    /// It is to be delivered.
    No,
    /// It is to be dropped.
    Yes,
    /// It is to be dropped, and nats-server would not even say `+OK`: there is no place to send the trace to.
    Malformed,
}

/// What a header block says about it.
#[inline]
pub(super) fn dry_run(block: &[u8]) -> DryRun {
    if mentions(block, ONLY) { read(block) } else { DryRun::No }
}

fn read(block: &[u8]) -> DryRun {
    let (mut destination, mut only, mut origin) = (None, None, None);
    // What is wrong with a block ends the reading of it.
    for (name, value) in header_lines(block).into_iter().flatten().map_while(Result::ok) {
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
    let Some(destination) = destination.filter(|value| *value != DISABLED) else { return DryRun::No };
    let is_only =
        |value: &[u8]| [&b"1"[..], b"true", b"on"].iter().any(|yes| value.eq_ignore_ascii_case(yes));
    if !only.is_some_and(is_only) {
        DryRun::No
    } else if origin.is_some() || !is_subject(destination) {
        DryRun::Malformed
    } else {
        DryRun::Yes
    }
}

/// True if a message may be published there.
fn is_subject(subject: &[u8]) -> bool {
    let is_word = |word: &[u8]| {
        !matches!(word, b"" | b"*" | b">")
            && !word.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
    };
    subject.split(|&byte| byte == b'.').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Played against nats-server 2.15.2.
    #[test]
    fn only_what_says_so_is_dropped() {
        for (lines, expected) in [
            ("Nats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\n", DryRun::Yes),
            ("Nats-Trace-Only:ON\r\nNats-Trace-Dest: a.b\r\n", DryRun::Yes),
            ("Nats-Trace-Dest: t\r\nNats-Trace-Only: True\r\nNats-Trace-Only: no\r\n", DryRun::Yes),
            ("Nats-Trace-Dest: t\r\nNats-Trace-Only: yes\r\n", DryRun::No),
            ("Nats-Trace-Dest: t\r\nNats-Trace-Only: \r\n", DryRun::No),
            ("Nats-Trace-Dest: t\r\nnats-trace-only: 1\r\n", DryRun::No),
            ("Nats-Trace-Only: 1\r\n", DryRun::No),
            ("Nats-Trace-Dest: trace disabled\r\nNats-Trace-Only: 1\r\n", DryRun::No),
            ("Nats-Trace-Dest: t..x\r\nNats-Trace-Only: 1\r\n", DryRun::Malformed),
            (
                "Nats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\nNats-Trace-Origin-Account: A\r\n",
                DryRun::Malformed,
            ),
        ] {
            assert_eq!(dry_run(format!("NATS/1.0\r\n{lines}\r\n").as_bytes()), expected, "{lines}");
        }
        assert_eq!(dry_run(b"Nats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\n\r\n"), DryRun::No);
    }
}
