//! Validates subjects from the command line. Servers ignore some mistakes silently, so they are caught here.

/// Validates a subject to publish to: words between dots, without blanks or wildcards.
pub(crate) fn literal(text: &str) -> Result<String, String> {
    pattern(text)?;
    if text.split('.').any(|word| word == "*" || word == ">") {
        return Err("a message is published to one subject: the wildcards `*` and `>` are for subscriptions"
            .to_owned());
    }
    Ok(text.to_owned())
}

/// Validates a subject to subscribe to: as above, but any word may be `*`, and the last one `>`.
pub(crate) fn pattern(text: &str) -> Result<String, String> {
    if text.bytes().any(|byte| byte.is_ascii_whitespace() || byte == 0) {
        return Err("a subject has no blanks".to_owned());
    }
    if text.split('.').any(str::is_empty) {
        return Err("a subject is words with dots between them, such as orders.eu.new".to_owned());
    }
    match text.split('.').rev().skip(1).any(|word| word == ">") {
        true => Err("`>` matches the rest of a subject: nothing can follow it".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Validates the name of a queue group.
pub(crate) fn queue(text: &str) -> Result<String, String> {
    match text.is_empty() || text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        true => Err("a queue group is one word without blanks".to_owned()),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_found() {
        for good in ["a", "a.b-c.ü", "a.b*", "$JS.API.INFO"] {
            literal(good).unwrap();
            pattern(good).unwrap();
        }
        for good in ["*", ">", "a.*.b", "a.>"] {
            pattern(good).unwrap();
            literal(good).unwrap_err();
        }
        for wrong in ["", ".", "a..b", "a.", ".a", "a b", "a\t", ">.a", "a.>.b"] {
            pattern(wrong).unwrap_err();
            literal(wrong).unwrap_err();
        }
    }
}
