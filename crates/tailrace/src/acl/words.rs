//! The numbers of ACLs in Kafka's protocol (KIP-140), and the words for them.

use std::fmt;

use tailrace_cli::text::names::is_same_name;

/// Defines a number with words. Servers may send numbers without a word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($constant:ident = $code:literal, $word:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) struct $name(pub(super) i8);

        #[allow(dead_code, reason = "some numbers only come from servers")]
        impl $name {
            /// Matches everything, in a filter.
            pub(super) const ANY: Self = Self(1);
            $(pub(super) const $constant: Self = Self($code);)*
            const WORDS: &[(i8, &str)] = &[$(($code, $word),)*];

            /// Finds the number of a word, in any spelling.
            ///
            /// # Errors
            /// The list of words, if none matches.
            pub(super) fn parse(text: &str) -> Result<Self, String> {
                let found = Self::WORDS.iter().find(|(_, word)| is_same_name(word, text));
                let words = || Self::WORDS.iter().map(|(_, word)| *word).collect::<Vec<_>>().join(", ");
                found.map(|(code, _)| Self(*code)).ok_or_else(|| format!("expected one of {}", words()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match Self::WORDS.iter().find(|(code, _)| *code == self.0) {
                    Some((_, word)) => f.write_str(word),
                    None => write!(f, "unknown-{}", self.0),
                }
            }
        }
    };
}

words! {
    /// What a rule is about.
    Kind:
    TOPIC = 2, "topic";
    GROUP = 3, "group";
    CLUSTER = 4, "cluster";
    TRANSACTIONAL_ID = 5, "transactional-id";
    DELEGATION_TOKEN = 6, "delegation-token";
    USER = 7, "user";
    SUBJECT = 100, "subject";
}

words! {
    /// How a rule's name is compared.
    Pattern:
    MATCH = 2, "match";
    LITERAL = 3, "literal";
    PREFIXED = 4, "prefixed";
}

words! {
    /// Whether a rule allows or denies.
    Permission:
    DENY = 2, "deny";
    ALLOW = 3, "allow";
}

words! {
    /// What a rule allows or denies.
    Operation:
    ALL = 2, "all";
    READ = 3, "read";
    WRITE = 4, "write";
    CREATE = 5, "create";
    DELETE = 6, "delete";
    ALTER = 7, "alter";
    DESCRIBE = 8, "describe";
    CLUSTER_ACTION = 9, "cluster-action";
    DESCRIBE_CONFIGS = 10, "describe-configs";
    ALTER_CONFIGS = 11, "alter-configs";
    IDEMPOTENT_WRITE = 12, "idempotent-write";
    CREATE_TOKENS = 13, "create-tokens";
    DESCRIBE_TOKENS = 14, "describe-tokens";
    TWO_PHASE_COMMIT = 15, "two-phase-commit";
}

impl Kind {
    /// The operations that a resource of this kind has, without [`Operation::ALL`]. A server takes rules with
    /// others, too, and they match nothing.
    pub(super) fn operations(self) -> &'static [Operation] {
        match self {
            Self::TOPIC => &[
                Operation::READ,
                Operation::WRITE,
                Operation::CREATE,
                Operation::DESCRIBE,
                Operation::DELETE,
                Operation::ALTER,
                Operation::DESCRIBE_CONFIGS,
                Operation::ALTER_CONFIGS,
            ],
            Self::GROUP => &[
                Operation::READ,
                Operation::DESCRIBE,
                Operation::DELETE,
                Operation::DESCRIBE_CONFIGS,
                Operation::ALTER_CONFIGS,
            ],
            Self::CLUSTER => &[
                Operation::CREATE,
                Operation::CLUSTER_ACTION,
                Operation::DESCRIBE_CONFIGS,
                Operation::ALTER_CONFIGS,
                Operation::IDEMPOTENT_WRITE,
                Operation::ALTER,
                Operation::DESCRIBE,
            ],
            Self::TRANSACTIONAL_ID => &[Operation::DESCRIBE, Operation::WRITE, Operation::TWO_PHASE_COMMIT],
            Self::DELEGATION_TOKEN => &[Operation::DESCRIBE],
            Self::USER => &[Operation::CREATE_TOKENS, Operation::DESCRIBE_TOKENS],
            Self::SUBJECT => &[Operation::READ, Operation::WRITE],
            _ => &[],
        }
    }

    /// The words for [`Kind::operations`].
    pub(super) fn operation_words(self) -> String {
        let words: Vec<String> = self.operations().iter().map(ToString::to_string).collect();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_spelt_as_in_kafka() {
        for text in ["describe-configs", "DESCRIBE_CONFIGS", "DescribeConfigs"] {
            assert_eq!(Operation::parse(text), Ok(Operation::DESCRIBE_CONFIGS));
        }
        assert!(Operation::parse("nope").unwrap_err().starts_with("expected one of all, read, write, "));
        assert!(Operation::parse("any").is_err() && Operation::parse("").is_err());
    }

    #[test]
    fn numbers_without_a_word_are_shown_as_numbers() {
        assert_eq!(Kind(77).to_string(), "unknown-77");
        assert_eq!(Kind::TRANSACTIONAL_ID.to_string(), "transactional-id");
    }
}
