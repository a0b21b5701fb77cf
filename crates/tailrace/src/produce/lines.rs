//! Parses lines into key, value and headers.

use memchr::memmem;

/// How lines become records.
#[derive(Debug, Default)]
pub(super) struct LineFormat {
    pub(super) key_separator: Option<Vec<u8>>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) null: Option<Vec<u8>>,
    pub(super) headers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A [`LineFormat`], prepared: the separator for searching, the headers for sending.
pub(super) struct LineReader<'f> {
    format: &'f LineFormat,
    separator: Option<memmem::Finder<'f>>,
    pub(super) headers: Vec<(&'f [u8], Option<&'f [u8]>)>,
}

impl<'f> LineReader<'f> {
    pub(super) fn new(format: &'f LineFormat) -> Self {
        let separator = format.key_separator.as_deref().map(memmem::Finder::new);
        let headers = format.headers.iter().map(|(key, value)| (&key[..], Some(&value[..])));
        Self { format, separator, headers: headers.collect() }
    }

    /// Returns key and value of a line or file.
    pub(super) fn read<'l>(&'l self, line: &'l [u8]) -> (Option<&'l [u8]>, Option<&'l [u8]>) {
        let (key, value) = match &self.separator {
            None => (self.format.key.as_deref(), line),
            Some(separator) => match separator.find(line) {
                Some(at) => (Some(&line[..at]), &line[at + separator.needle().len()..]),
                None => (None, line),
            },
        };
        match &self.format.null {
            None => (key, Some(value)),
            Some(null) => (key.filter(|key| key != null), Some(value).filter(|value| value != null)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: &LineFormat, line: &str) -> (Option<String>, Option<String>) {
        let reader = LineReader::new(format);
        let (key, value) = reader.read(line.as_bytes());
        let text = |bytes: Option<&[u8]>| bytes.map(|b| String::from_utf8(b.to_vec()).unwrap());
        (text(key), text(value))
    }

    #[test]
    fn keys_end_at_the_first_separator() {
        let format = LineFormat {
            key_separator: Some(b"::".to_vec()),
            null: Some(b"NULL".to_vec()),
            ..LineFormat::default()
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read(&format, "k::v::w"), (some("k"), some("v::w")));
        assert_eq!(read(&format, "::v"), (some(""), some("v")));
        assert_eq!(read(&format, "k::"), (some("k"), some("")));
        assert_eq!(read(&format, "no separator"), (None, some("no separator")));
        assert_eq!(read(&format, "k::NULL"), (some("k"), None));
        assert_eq!(read(&format, "NULL::v"), (None, some("v")));
    }
}
