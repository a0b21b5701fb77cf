//! Pairs of a key and a value, as options accept them.

/// Splits `KEY=VALUE`. The value may be empty and may contain further equals signs.
///
/// # Errors
/// There is no equals sign, or no key before it.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_equals_sign_divides() {
        let pair = |key: &str, value: &str| Ok((key.to_owned(), value.to_owned()));
        assert_eq!(key_value("a=b"), pair("a", "b"));
        assert_eq!(key_value("a="), pair("a", ""));
        assert_eq!(key_value("a=b=c"), pair("a", "b=c"));
        for wrong in ["", "a", "=b"] {
            key_value(wrong).unwrap_err();
        }
    }
}
