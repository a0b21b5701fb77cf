//! `--format`: a template, parsed once, written for every record.

use std::io::Write as _;

use tailrace_cli::text::escape::unescape;
use tailrace_cli::text::time::format_instant;
use tailrace_records::Record;

/// The place of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordOrigin<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
}

/// A piece of a template.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Value,
    ValueBytes,
    Key,
    KeyBytes,
    Headers,
    Offset,
    Partition,
    Topic,
    Timestamp,
    Date,
}

/// A parsed template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pieces: Vec<Piece>,
    null: Vec<u8>,
}

impl Format {
    /// Parses a template.
    pub(crate) fn parse(text: &str, null: &[u8]) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut parts = text.split('%');
        push_text(&mut pieces, parts.next().unwrap_or_default())?;
        while let Some(part) = parts.next() {
            let Some(directive) = part.chars().next() else {
                // Two percent signs in a row: one of them, and the text after it.
                let rest = parts.next().ok_or("a percent sign at the end of the format: write %% for one")?;
                push_bytes(&mut pieces, b"%");
                push_text(&mut pieces, rest)?;
                continue;
            };
            pieces.push(piece(directive)?);
            push_text(&mut pieces, &part[directive.len_utf8()..])?;
        }
        Ok(Self { pieces, null: null.to_vec() })
    }

    /// Writes a record.
    pub(crate) fn write(&self, place: RecordOrigin<'_>, record: &Record<'_>, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Value => out.extend_from_slice(record.value.unwrap_or(&self.null)),
                Piece::ValueBytes => number(length(record.value), out),
                Piece::Key => out.extend_from_slice(record.key.unwrap_or(&self.null)),
                Piece::KeyBytes => number(length(record.key), out),
                Piece::Headers => self.headers(record, out),
                Piece::Offset => number(record.offset.0, out),
                Piece::Partition => number(place.partition.into(), out),
                Piece::Topic => out.extend_from_slice(place.topic.as_bytes()),
                Piece::Timestamp => number(record.timestamp.0, out),
                Piece::Date => out.extend_from_slice(format_instant(record.timestamp.0).as_bytes()),
            }
        }
    }

    fn headers(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        for (index, header) in record.headers.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(header.key);
            out.push(b'=');
            out.extend_from_slice(header.value.unwrap_or(&self.null));
        }
    }
}

fn piece(directive: char) -> Result<Piece, String> {
    Ok(match directive {
        'v' | 's' => Piece::Value,
        'V' | 'S' => Piece::ValueBytes,
        'k' => Piece::Key,
        'K' => Piece::KeyBytes,
        'h' => Piece::Headers,
        'o' => Piece::Offset,
        'p' => Piece::Partition,
        't' => Piece::Topic,
        'T' => Piece::Timestamp,
        'D' => Piece::Date,
        other => {
            return Err(format!(
                "unknown %{other} in the format; `tailrace consume --help` lists all of them"
            ));
        }
    })
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) -> Result<(), String> {
    push_bytes(pieces, &unescape(text)?);
    Ok(())
}

fn push_bytes(pieces: &mut Vec<Piece>, text: &[u8]) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(last)) => last.extend(text),
        _ => pieces.push(Piece::Text(text.to_vec())),
    }
}

fn length(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

fn number(number: i64, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "{number}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read() {
        let text = |text: &str| Piece::Text(text.as_bytes().to_vec());
        let parse = |format| Format::parse(format, b"").map(|format| format.pieces);
        assert_eq!(parse(r"%v\n"), Ok(vec![Piece::Value, text("\n")]));
        assert_eq!(
            parse(r"%t[%p]@%o: %k\t%s"),
            Ok(vec![
                Piece::Topic,
                text("["),
                Piece::Partition,
                text("]@"),
                Piece::Offset,
                text(": "),
                Piece::Key,
                text("\t"),
                Piece::Value,
            ])
        );
        assert_eq!(parse("100%% %T"), Ok(vec![text("100% "), Piece::Timestamp]));
        assert_eq!(parse("%%%%"), Ok(vec![text("%%")]));
        for wrong in ["%", "%q", "a%", r"%v\", "%%%"] {
            parse(wrong).unwrap_err();
        }
    }
}
