//! Header blocks from the command line.

use tailrace_nats_wire::{HEADER_LINE, write_header};

/// Parses `Name: value`. Blanks around the value are ignored.
pub(crate) fn name_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected 'Name: value'")?;
    if name.is_empty() || name.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err("a header's name is one word without blanks".to_owned());
    }
    if value.bytes().any(|byte| byte == b'\r' || byte == b'\n') {
        return Err("a header's value has no line ends".to_owned());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// Builds a block of these headers. `None` if there are none.
pub(crate) fn block(headers: &[(String, String)]) -> Option<Vec<u8>> {
    if headers.is_empty() {
        return None;
    }
    let mut out = [HEADER_LINE, b"\r\n"].concat();
    for (name, value) in headers {
        write_header(&mut out, name.as_bytes(), value.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_written() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(name_value("A: b:c "), Ok(header("A", "b:c")));
        assert_eq!(name_value("A:"), Ok(header("A", "")));
        for wrong in ["", "A", ": v", "A B: c", "A: b\r\nC: d"] {
            name_value(wrong).unwrap_err();
        }
        let block = block(&[header("A", "1"), header("A", "2")]);
        assert_eq!(block.as_deref(), Some(&b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"[..]));
        assert_eq!(super::block(&[]), None);
    }
}
