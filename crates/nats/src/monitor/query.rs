//! The query of a monitoring URL, its and its limits. Invalid queries are refused with Go's
//! texts, as in nats-server.

/// Default number of entries in a list.
pub(super) const LIMIT_DEFAULT: usize = 1024;

/// Most entries in a list. One takes about half a kilobyte.
pub(super) const LIMIT_MAX: usize = 65_536;

/// Decoded names and values.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

/// The answer to an invalid query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadQuery(pub(super) String);

impl Query {
    /// Parses the part after the question mark. Refuses nothing: invalid escapes stay unchanged, and invalid
    /// UTF-8 is replaced.
    pub(super) fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Returns the first value of that name, or an empty text.
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

    /// Parses a count. Missing and negative values are zero.
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

    /// Parses the number of a connection. 0 if there is none.
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
