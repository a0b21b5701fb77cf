//! The syntax of JSON, with Go's errors.

use std::fmt;

use crate::go::quote_char;
use crate::limits::JSON_DEPTH_MAX;

/// A text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyntaxError {
    /// It ends too early.
    End,
    /// A byte that may not stand there.
    Byte {
        /// The byte.
        byte: u8,
        /// What the parser was doing.
        context: &'static str,
        /// How many bytes were read, this one included.
        offset: usize,
    },
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str("unexpected end of JSON input"),
            Self::Byte { byte, context, .. } => {
                write!(f, "invalid character {} {context}", quote_char(*byte))
            }
        }
    }
}

/// Finds values in a text and checks their syntax.
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Begins at the start of the text.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next value, without the blanks around it; none at the end of the text.
    pub(crate) fn next_value(&mut self) -> Result<Option<&'a [u8]>, SyntaxError> {
        self.blanks();
        if self.at == self.text.len() {
            return Ok(None);
        }
        let start = self.at;
        self.value(0)?;
        Ok(Some(&self.text[start..self.at]))
    }

    /// The value that is the whole text.
    pub(crate) fn only_value(&mut self) -> Result<&'a [u8], SyntaxError> {
        let value = self.next_value()?.ok_or(SyntaxError::End)?;
        self.blanks();
        match self.text.get(self.at) {
            None => Ok(value),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), SyntaxError> {
        match self.peek()? {
            b'{' | b'[' if depth == JSON_DEPTH_MAX => Err(self.unexpected("exceeded max depth")),
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.string(),
            b't' => self.word(b"true", &TRUE),
            b'f' => self.word(b"false", &FALSE),
            b'n' => self.word(b"null", &NULL),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), SyntaxError> {
        self.at += 1;
        self.blanks();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blanks();
            if self.peek()? != b'"' {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            self.string()?;
            self.blanks();
            if self.peek()? != b':' {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.blanks();
            self.value(depth + 1)?;
            if self.ends(b'}', "after object key:value pair")? {
                return Ok(());
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<(), SyntaxError> {
        self.at += 1;
        self.blanks();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blanks();
            self.value(depth + 1)?;
            if self.ends(b']', "after array element")? {
                return Ok(());
            }
        }
    }

    /// Takes the comma before another element, or the end.
    fn ends(&mut self, end: u8, context: &'static str) -> Result<bool, SyntaxError> {
        self.blanks();
        let found = self.peek()?;
        if found != end && found != b',' {
            return Err(self.unexpected(context));
        }
        self.at += 1;
        Ok(found == end)
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                0..0x20 => return Err(self.unexpected("in string literal")),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        match self.peek()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => self.at += 1,
            b'u' => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek()?.is_ascii_hexdigit() {
                        return Err(self.unexpected("in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.unexpected("in string escape code")),
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8], contexts: &[&'static str]) -> Result<(), SyntaxError> {
        self.at += 1;
        for (expected, context) in word[1..].iter().zip(contexts) {
            if self.peek()? != *expected {
                return Err(self.unexpected(context));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.is_at(|byte| byte == b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if self.is_at(|byte| matches!(byte, b'e' | b'E')) {
            self.at += 1;
            if self.is_at(|byte| matches!(byte, b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn some_digits(&mut self, context: &'static str) -> Result<(), SyntaxError> {
        if !self.peek()?.is_ascii_digit() {
            return Err(self.unexpected(context));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.is_at(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn is_at(&self, wanted: impl Fn(u8) -> bool) -> bool {
        self.text.get(self.at).is_some_and(|byte| wanted(*byte))
    }

    fn blanks(&mut self) {
        while self.is_at(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, SyntaxError> {
        self.text.get(self.at).copied().ok_or(SyntaxError::End)
    }

    fn unexpected(&self, context: &'static str) -> SyntaxError {
        match self.text.get(self.at) {
            Some(byte) => SyntaxError::Byte { byte: *byte, context, offset: self.at + 1 },
            None => SyntaxError::End,
        }
    }
}

const TRUE: [&str; 3] =
    ["in literal true (expecting 'r')", "in literal true (expecting 'u')", "in literal true (expecting 'e')"];
const FALSE: [&str; 4] = [
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const NULL: [&str; 3] =
    ["in literal null (expecting 'u')", "in literal null (expecting 'l')", "in literal null (expecting 'l')"];

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Scanner::new(text.as_bytes()).only_value().expect_err(text).to_string()
    }

    #[test]
    fn errors_are_those_of_go() {
        let known = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{]", "invalid character ']' looking for beginning of object key string"),
            ("{\"a\"]", "invalid character ']' after object key"),
            ("{\"a\":1]", "invalid character ']' after object key:value pair"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("[1}", "invalid character '}' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("\"\n\"", r"invalid character '\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1e+x", "invalid character 'x' in exponent of numeric literal"),
            ("truth", "invalid character 't' in literal true (expecting 'e')"),
            ("{} {}", "invalid character '{' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
        ];
        for (text, wanted) in known {
            assert_eq!(error(text), wanted, "{text}");
        }
    }

    #[test]
    fn values_follow_each_other() {
        let mut scanner = Scanner::new(b" {\"a\":[1,{}]} null\n\"x\" ");
        let mut found = Vec::new();
        while let Some(value) = scanner.next_value().unwrap() {
            found.push(value);
        }
        assert_eq!(found, [b"{\"a\":[1,{}]}".as_slice(), b"null", b"\"x\""]);
    }

    #[test]
    fn the_depth_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Scanner::new(nested(JSON_DEPTH_MAX).as_bytes()).only_value().is_ok());
        assert_eq!(error(&nested(JSON_DEPTH_MAX + 1)), "invalid character '[' exceeded max depth");
    }
}
