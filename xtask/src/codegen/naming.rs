//! Converts names in the definitions to Rust names.

/// Converts `UpperCamel` to `snake_case`. A run of capitals counts as one word.
pub(super) fn snake(camel: &str) -> String {
    let characters: Vec<char> = camel.chars().collect();
    let mut snake = String::new();
    for (index, &character) in characters.iter().enumerate() {
        let after_small = index > 0 && !characters[index - 1].is_uppercase();
        let before_small = characters.get(index + 1).is_some_and(|next| next.is_lowercase());
        if character.is_uppercase() && index > 0 && (after_small || before_small) {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

/// Converts the name of a field, and escapes it if it is a Rust keyword.
pub(super) fn field(camel: &str) -> String {
    let snake = snake(camel);
    match snake.as_str() {
        "type" | "match" | "ref" | "self" | "move" | "use" | "where" | "mod" => format!("r#{snake}"),
        _ => snake,
    }
}

#[cfg(test)]
mod tests {
    use super::{field, snake};

    #[test]
    fn camel_case_becomes_snake_case() {
        for (camel, expected) in [
            ("TopicId", "topic_id"),
            ("LastKnownElr", "last_known_elr"),
            ("ISRNodes", "isr_nodes"),
            ("A", "a"),
        ] {
            assert_eq!(snake(camel), expected);
        }
        assert_eq!(field("Match"), "r#match");
    }
}
