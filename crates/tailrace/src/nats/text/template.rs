//! `{{Name}}` in texts: values that change from one message to the next.

use std::time::{SystemTime, UNIX_EPOCH};

use tailrace_cli::text::time::format_instant;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Count,
    Unix,
    UnixNano,
    TimeStamp,
    Request,
}

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

impl Template {
    /// A text without placeholders.
    pub(crate) fn plain(text: &[u8]) -> Self {
        Self(vec![Piece::Text(text.to_vec())])
    }

    /// Parses `{{Count}}`, `{{Unix}}`, `{{UnixNano}}`, `{{TimeStamp}}` and, if `has_request`, `{{Request}}`,
    /// in any case.
    pub(crate) fn parse(text: &str, has_request: bool) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            pieces.push(Piece::Text(before.as_bytes().to_vec()));
            let (name, after) = after.split_once("}}").ok_or("'{{' without '}}' after it")?;
            pieces.push(match name.trim().to_ascii_lowercase().as_str() {
                "count" => Piece::Count,
                "unix" => Piece::Unix,
                "unixnano" => Piece::UnixNano,
                "timestamp" => Piece::TimeStamp,
                "request" if has_request => Piece::Request,
                other => return Err(format!("unknown {{{{{other}}}}} in a template; see --help")),
            });
            rest = after;
        }
        pieces.push(Piece::Text(rest.as_bytes().to_vec()));
        pieces.retain(|piece| *piece != Piece::Text(Vec::new()));
        Ok(Self(pieces))
    }

    /// Appends the text for message `count`, which answers `request`.
    pub(crate) fn write(&self, count: u64, request: &[u8], out: &mut Vec<u8>) {
        for piece in &self.0 {
            let since = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let text = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Request => {
                    out.extend_from_slice(request);
                    continue;
                }
                Piece::Count => count.to_string(),
                Piece::Unix => since().as_secs().to_string(),
                Piece::UnixNano => since().as_nanos().to_string(),
                Piece::TimeStamp => format_instant(i64::try_from(since().as_millis()).unwrap_or(i64::MAX)),
            };
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Returns the text for message `count`.
    pub(crate) fn render(&self, count: u64, request: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(count, request, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled() {
        let render =
            |text| String::from_utf8(Template::parse(text, true).unwrap().render(7, b"req")).unwrap();
        assert_eq!(render("a{{Count}}b{{ count }}"), "a7b7");
        assert_eq!(render("{{Request}}!"), "req!");
        assert_eq!(render("plain"), "plain");
        assert_eq!(render(""), "");
        assert!(render("{{UnixNano}}").parse::<u64>().unwrap() > 1 << 60);
        assert!(render("{{TimeStamp}}").ends_with('Z'));
        for wrong in ["{{", "{{Count", "{{Random}}"] {
            Template::parse(wrong, true).unwrap_err();
        }
        Template::parse("{{Request}}", false).unwrap_err();
    }
}
