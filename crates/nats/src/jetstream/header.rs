//! Headers that direct answers add, and the one that requests may carry.

use tailrace_nats_wire::{HEADER_LINE, loose_lines, mentions, write_header};

/// Returns the value of the first header of this name.
pub(super) fn value_of<'a>(block: &'a [u8], name: &str) -> Option<&'a str> {
    if !mentions(block, name.as_bytes()) {
        return None;
    }
    let (_, value) = loose_lines(block).find(|(found, _)| *found == name.as_bytes())?;
    std::str::from_utf8(value).ok().map(str::trim)
}

/// Returns a block with these headers behind those of `block`, which may be empty.
pub(super) fn added(block: &[u8], headers: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.len() + 256);
    match block.strip_suffix(b"\r\n") {
        Some(lines) => out.extend_from_slice(lines),
        None => {
            out.extend_from_slice(HEADER_LINE);
            out.extend_from_slice(b"\r\n");
        }
    }
    for (name, value) in headers {
        write_header(&mut out, name.as_bytes(), value);
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Returns a block that is a status, such as `404 Message Not Found`, with these headers.
pub(super) fn status(status: &str, headers: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = [HEADER_LINE, b" ", status.as_bytes(), b"\r\n"].concat();
    for (name, value) in headers {
        write_header(&mut out, name.as_bytes(), value);
    }
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_behind_those_that_are_there() {
        let block = added(b"NATS/1.0\r\nA: b\r\n\r\n", &[("Nats-Stream", b"S")]);
        assert_eq!(block, b"NATS/1.0\r\nA: b\r\nNats-Stream: S\r\n\r\n");
        assert_eq!(added(b"", &[("C", b"d")]), b"NATS/1.0\r\nC: d\r\n\r\n");
    }

    #[test]
    fn a_status_is_the_first_line() {
        assert_eq!(status("204 EOB", &[("N", b"1")]), b"NATS/1.0 204 EOB\r\nN: 1\r\n\r\n");
    }

    #[test]
    fn the_first_header_of_a_name_counts() {
        let block = b"NATS/1.0\r\nNats-Required-Api-Level: 9 \r\nNats-Required-Api-Level: 1\r\n\r\n";
        assert_eq!(value_of(block, "Nats-Required-Api-Level"), Some("9"));
        assert_eq!(value_of(block, "Nats-Other"), None);
    }
}
