//! Names of users, principals and clients in text. Unlike topics, they may contain any character, and a
//! terminal obeys some of them.

use std::borrow::Cow;

/// The name with its control characters escaped.
pub(crate) fn shown(name: &str) -> Cow<'_, str> {
    if !name.chars().any(char::is_control) {
        return Cow::Borrowed(name);
    }
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(name.chars().map(escaped).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        for (name, expected) in [
            ("alice", "alice"),
            ("Zoë \\ 'x'", "Zoë \\ 'x'"),
            ("a\nb", "a\\nb"),
            ("\x1b[2J", "\\u{1b}[2J"),
            ("\u{9b}2J", "\\u{9b}2J"),
        ] {
            assert_eq!(shown(name), expected);
        }
    }
}
