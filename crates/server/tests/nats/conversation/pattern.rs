//! Bytes to send and bytes to expect, as written in scripts.

use std::fmt;

/// A pattern for the next bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Bytes(Vec<u8>),
    /// Anything up to a blank or the end of the line.
    AnyWord,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`")?;
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) => f.write_str(&escaped(bytes))?,
                Part::AnyWord => f.write_str("\\*")?,
            }
        }
        f.write_str("`")
    }
}

/// The result of comparing received bytes with a pattern.
#[derive(Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The bytes start with the pattern, which took this many of them.
    Matches(usize),
    /// The bytes agree so far.
    TooShort,
    Differs,
}

/// Returns a line of a script without its escapes. The error says what is wrong.
pub fn bytes(text: &str) -> Result<Vec<u8>, String> {
    match Pattern::parse(text)?.0.as_slice() {
        [] => Ok(Vec::new()),
        [Part::Bytes(bytes)] => Ok(bytes.clone()),
        _ => Err("\\* cannot be sent".to_owned()),
    }
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut now, mut rest) = (Vec::new(), Vec::new(), text);
        while let Some(at) = rest.find('\\') {
            now.extend_from_slice(&rest.as_bytes()[..at]);
            let escape = &rest[at + 1..];
            let letter = escape.chars().next().ok_or("a \\ at the end")?;
            rest = &escape[letter.len_utf8()..];
            match letter {
                'r' => now.push(b'\r'),
                'n' => now.push(b'\n'),
                't' => now.push(b'\t'),
                's' => now.push(b' '),
                '\\' => now.push(b'\\'),
                'x' => {
                    let digits = rest.get(..2).ok_or("\\x needs two digits")?;
                    now.push(u8::from_str_radix(digits, 16).map_err(|error| error.to_string())?);
                    rest = &rest[2..];
                }
                '{' => {
                    let (repeat, after) = rest.split_once('}').ok_or("\\{ without }")?;
                    let (count, what) = repeat.split_once('*').ok_or("\\{COUNT*TEXT}")?;
                    let count = count.parse().map_err(|_| format!("{count} is not a count"))?;
                    now.extend(bytes(what)?.repeat(count));
                    rest = after;
                }
                '*' => {
                    parts.push(Part::Bytes(std::mem::take(&mut now)));
                    parts.push(Part::AnyWord);
                }
                other => return Err(format!("\\{other} is no escape")),
            }
        }
        now.extend_from_slice(rest.as_bytes());
        if !now.is_empty() {
            parts.push(Part::Bytes(now));
        }
        Ok(Self(parts))
    }

    pub fn compare(&self, received: &[u8]) -> Comparison {
        let mut at = 0;
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) => {
                    let there = &received[at..received.len().min(at + bytes.len())];
                    if *there != bytes[..there.len()] {
                        return Comparison::Differs;
                    } else if there.len() < bytes.len() {
                        return Comparison::TooShort;
                    }
                    at += bytes.len();
                }
                Part::AnyWord => {
                    match received[at..].iter().position(|byte| matches!(byte, b' ' | b'\r' | b'\n')) {
                        Some(length) => at += length,
                        None => return Comparison::TooShort,
                    }
                }
            }
        }
        Comparison::Matches(at)
    }
}

/// Returns bytes as a script would contain them, one line each.
pub fn escaped_lines(bytes: &[u8]) -> Vec<String> {
    bytes.split_inclusive(|&byte| byte == b'\n').map(escaped).collect()
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for run in bytes.chunk_by(|a, b| a == b) {
        let one = match run[0] {
            b'\r' => "\\r".to_owned(),
            b'\n' => "\\n".to_owned(),
            b'\t' => "\\t".to_owned(),
            b'\\' => "\\\\".to_owned(),
            byte @ b' '..=b'~' => char::from(byte).to_string(),
            byte => format!("\\x{byte:02x}"),
        };
        // Shorter runs are easier to read as they are.
        text += &if run.len() > 40 { format!("\\{{{}*{one}}}", run.len()) } else { one.repeat(run.len()) };
    }
    text
}
