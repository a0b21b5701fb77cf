//! How text is split into words, and which words are wildcards.

use std::fmt;

/// The rules of one protocol.
///
/// | | separator | one word | any number of words | empty words | empty text |
/// |---|---|---|---|---|---|
/// | NATS | `.` | `*` | `>`, last, one word or more | rejected | rejected |
/// | AMQP 0.9.1 topics | `.` | `*` | `#`, anywhere, zero words or more | ordinary words | zero words |
/// | MQTT 3.1.1 and 5 | `/` | `+` | `#`, last, zero words or more | ordinary words | rejected |
///
/// Texts are UTF-8. NATS rejects spaces and control characters, MQTT control characters, AMQP the zero byte.
/// Comparison is byte for byte, case sensitive, without Unicode normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// Subjects as NATS defines them (docs.nats.io, "Subject-Based Messaging").
    Nats,
    /// Routing and binding keys of a topic exchange (AMQP 0.9.1, section 3.1.3.3; `#` and `*` as RabbitMQ
    /// interprets them).
    Amqp,
    /// Topic names and filters (MQTT 5, section 4.7), with the rule of `$` topics.
    Mqtt,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 3] = [Self::Nats, Self::Amqp, Self::Mqtt];

    /// The byte between two words.
    #[must_use]
    pub const fn separator(self) -> u8 {
        match self {
            Self::Nats | Self::Amqp => b'.',
            Self::Mqtt => b'/',
        }
    }

    /// The wildcard that matches exactly one word.
    #[must_use]
    pub const fn one(self) -> u8 {
        match self {
            Self::Nats | Self::Amqp => b'*',
            Self::Mqtt => b'+',
        }
    }

    /// The wildcard that matches any number of words; see [`Dialect::many_min`].
    #[must_use]
    pub const fn many(self) -> u8 {
        match self {
            Self::Nats => b'>',
            Self::Amqp | Self::Mqtt => b'#',
        }
    }

    /// The fewest words that [`Dialect::many`] matches.
    #[must_use]
    pub const fn many_min(self) -> usize {
        match self {
            Self::Nats => 1,
            Self::Amqp | Self::Mqtt => 0,
        }
    }

    /// Reports whether [`Dialect::many`] may come before the last word, and more than once.
    #[must_use]
    pub const fn many_anywhere(self) -> bool {
        matches!(self, Self::Amqp)
    }

    /// Reports whether words may be empty.
    #[must_use]
    pub(crate) const fn empty_words(self) -> bool {
        matches!(self, Self::Amqp | Self::Mqtt)
    }

    /// Reports whether the empty text is a subject (of zero words).
    #[must_use]
    pub(crate) const fn empty_text(self) -> bool {
        matches!(self, Self::Amqp)
    }

    /// Reports whether a wildcard inside a longer word is an error. Otherwise it is an ordinary byte.
    #[must_use]
    pub(crate) const fn wildcard_in_word_is_error(self) -> bool {
        matches!(self, Self::Mqtt)
    }

    /// Reports whether a wildcard as the first word excludes subjects whose first word starts with `$`.
    #[must_use]
    pub(crate) const fn dollar_rule(self) -> bool {
        matches!(self, Self::Mqtt)
    }

    /// Reports whether this byte must not occur in any text of this dialect.
    #[must_use]
    pub(crate) const fn forbids(self, byte: u8) -> bool {
        match self {
            Self::Nats => byte <= b' ' || byte == 0x7f,
            Self::Mqtt => byte < b' ' || byte == 0x7f,
            Self::Amqp => byte == 0,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nats => "NATS",
            Self::Amqp => "AMQP",
            Self::Mqtt => "MQTT",
        })
    }
}
