//! The query of a monitoring URL, its bounds, and the account it may name. What cannot be read is refused in Go's words,
//! as nats-server refuses it.

/// Entries of a list, if the query does not say.
pub(super) const LIMIT_DEFAULT: usize = 1024;

/// Entries of a list at most. About half a kilobyte each.
pub(super) const LIMIT_MAX: usize = 65_536;

/// nats-server's account for everybody, where there are no others.
pub(super) const ACCOUNT: &str = "$G";

/// Names and values, decoded.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

/// What is answered to a query that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadQuery(pub(super) String);

impl Query {
    /// Takes the part behind the question mark apart. Nothing in it is refused here.
    pub(super) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(decoded.collect())
    }

    /// The first value of that name; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(super) fn truth(&self, name: &str) -> Result<bool, BadQuery> {
        match self.text(name) {
            "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            other => Err(BadQuery(format!(
                "Error decoding boolean for '{name}': strconv.ParseBool: parsing {other:?}: invalid syntax"
            ))),
        }
    }

    /// A count; below zero is zero, as nothing is.
    pub(super) fn count(&self, name: &str) -> Result<usize, BadQuery> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(0);
        }
        let bad = |reason| {
            BadQuery(format!("Error decoding int for '{name}': strconv.Atoi: parsing {text:?}: {reason}"))
        };
        match text.parse::<i64>() {
            Ok(count) => Ok(usize::try_from(count).unwrap_or(0)),
            Err(error) if is_out_of_range(&error) => Err(bad("value out of range")),
            Err(_) => Err(bad("invalid syntax")),
        }
    }

    /// The number of a connection; 0 for none.
    pub(super) fn cid(&self) -> Result<u64, BadQuery> {
        let text = self.text("cid");
        if text.is_empty() {
            return Ok(0);
        }
        text.parse().map_err(|error| {
            let reason = if is_out_of_range(&error) { "value out of range" } else { "invalid syntax" };
            BadQuery(format!(
                "Error decoding uint64 for 'cid': strconv.ParseUint: parsing {text:?}: {reason}"
            ))
        })
    }
}

fn is_out_of_range(error: &std::num::ParseIntError) -> bool {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    matches!(error.kind(), PosOverflow | NegOverflow)
}

/// Percent escapes, and plus signs for blanks. What is no escape stays as it is; what is not UTF-8 is replaced.
fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let escaped = match (first, after) {
            (b'%', [a, b, ..]) => hex(*a).zip(hex(*b)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                out.push(high << 4 | low);
                rest = &after[2..];
            }
            None => out.push(if *first == b'+' { b' ' } else { *first }),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    // A hexadecimal digit fits into four bits.
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query::parse("test=a.%3E+b&limit=7&subs=1&empty&limit=8&%zz=%");
        assert_eq!(query.text("test"), "a.> b");
        assert_eq!(query.count("limit"), Ok(7));
        assert_eq!(query.truth("subs"), Ok(true));
        assert_eq!((query.text("empty"), query.text("%zz"), query.text("none")), ("", "%", ""));
        assert_eq!(Query::parse("offset=-1").count("offset"), Ok(0));
    }

    #[test]
    fn bad_values_are_refused_in_the_words_of_go() {
        let query = Query::parse("limit=x&subs=maybe&cid=-1&offset=99999999999999999999");
        let text = |result: Result<usize, BadQuery>| result.unwrap_err().0;
        assert_eq!(
            text(query.count("limit")),
            r#"Error decoding int for 'limit': strconv.Atoi: parsing "x": invalid syntax"#
        );
        assert!(text(query.count("offset")).ends_with("value out of range"));
        assert_eq!(
            query.truth("subs").unwrap_err().0,
            r#"Error decoding boolean for 'subs': strconv.ParseBool: parsing "maybe": invalid syntax"#
        );
        assert_eq!(
            query.cid().unwrap_err().0,
            r#"Error decoding uint64 for 'cid': strconv.ParseUint: parsing "-1": invalid syntax"#
        );
    }
}
