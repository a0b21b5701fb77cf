//! Redis's protocol, RESP2, as far as a load generator needs it.

use super::nats_wire::push_number;
use super::wire::line;

/// A value from the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Integer(&'a [u8]),
    Bulk(&'a [u8]),
    Null,
    Array(Vec<Value<'a>>),
}

impl<'a> Value<'a> {
    /// The bytes of a bulk string.
    pub(super) fn bulk(&self) -> Option<&'a [u8]> {
        if let Self::Bulk(bytes) = self { Some(bytes) } else { None }
    }

    /// The elements of an array.
    pub(super) fn items(&self) -> Option<&[Value<'a>]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }
}

/// Deepest nesting of arrays.
const DEPTH_MAX: u32 = 8;

/// Parses one value. Also returns its size. `None` if it is not complete.
pub(super) fn parse(data: &[u8]) -> Result<Option<(Value<'_>, usize)>, &'static str> {
    value(data, DEPTH_MAX)
}

fn value(data: &[u8], depth: u32) -> Result<Option<(Value<'_>, usize)>, &'static str> {
    let Some((line, used)) = line(data) else { return Ok(None) };
    let (kind, rest) = line.split_first().ok_or("a value of RESP")?;
    let value = match kind {
        b'+' => Value::Simple(rest),
        b'-' => Value::Error(rest),
        b':' => Value::Integer(rest),
        b'$' => return bulk(data, rest, used),
        b'*' if depth > 0 => return array(data, rest, used, depth - 1),
        _ => return Err("a value of RESP"),
    };
    Ok(Some((value, used)))
}

fn bulk<'a>(data: &'a [u8], length: &[u8], used: usize) -> Result<Option<(Value<'a>, usize)>, &'static str> {
    let Some(length) = count(length)? else { return Ok(Some((Value::Null, used))) };
    let Some(bytes) = data.get(used..used + length + 2) else { return Ok(None) };
    let bytes = bytes.strip_suffix(b"\r\n").ok_or("a line end after a bulk string")?;
    Ok(Some((Value::Bulk(bytes), used + length + 2)))
}

fn array<'a>(
    data: &'a [u8],
    length: &[u8],
    mut used: usize,
    depth: u32,
) -> Result<Option<(Value<'a>, usize)>, &'static str> {
    let Some(length) = count(length)? else { return Ok(Some((Value::Null, used))) };
    let mut items = Vec::with_capacity(length.min(64));
    for _ in 0..length {
        let Some((item, bytes)) = value(&data[used..], depth)? else { return Ok(None) };
        items.push(item);
        used += bytes;
    }
    Ok(Some((Value::Array(items), used)))
}

/// A length; `None` for the -1 of null.
fn count(digits: &[u8]) -> Result<Option<usize>, &'static str> {
    if digits == b"-1" {
        return Ok(None);
    }
    let number: u32 =
        std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).ok_or("a length")?;
    Ok(Some(number as usize))
}

/// Appends a command.
pub(super) fn push_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.push(b'*');
    push_number(out, words.len() as u64);
    out.extend_from_slice(b"\r\n");
    for word in words {
        out.push(b'$');
        push_number(out, word.len() as u64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let text = b"*3\r\n$7\r\nmessage\r\n$-1\r\n*2\r\n:12\r\n+OK\r\n-ERR no\r\n";
        let (first, used) = parse(text).unwrap().unwrap();
        let inner = Value::Array(vec![Value::Integer(b"12"), Value::Simple(b"OK")]);
        assert_eq!(first, Value::Array(vec![Value::Bulk(b"message"), Value::Null, inner]));
        assert_eq!(parse(&text[used..]).unwrap().unwrap().0, Value::Error(b"ERR no"));
        for cut in 0..used {
            assert_eq!(parse(&text[..cut]), Ok(None));
        }
        for wrong in [&b"hello\r\n"[..], b"$x\r\n", b"*9999999999999\r\n", b"$1\r\nabc", b"\r\n"] {
            parse(wrong).unwrap_err();
        }
        parse(&b"*1\r\n".repeat(1000)).unwrap_err();
    }

    #[test]
    fn commands() {
        let mut out = Vec::new();
        push_command(&mut out, &[b"PING", b"a b"]);
        assert_eq!(out, b"*2\r\n$4\r\nPING\r\n$3\r\na b\r\n");
    }
}
