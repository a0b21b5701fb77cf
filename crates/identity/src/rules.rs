//! Rules: the subjects a user may publish and subscribe to, as lists of allowed and denied patterns, as in
//! nats-server.
//!
//! One deliberate difference: in nats-server a permission for `foo.*` also allows a subscription to `foo.>`,
//! and so everything below, because it compares tokens as literals. Here only `>` allows `>`.

/// Maximum number of patterns in one list. Each check of a subject that is not cached compares all of them.
const PATTERNS_MAX: usize = 1024;

/// Maximum length of a pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// Limits on a user's replies to a delivered message. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Maximum number of messages for each reply subject.
    pub max: Option<u32>,
    /// Milliseconds after the delivery.
    pub expires_ms: Option<u64>,
}

/// The default of nats-server: one reply within two minutes.
impl Default for ResponseLimits {
    fn default() -> Self {
        Self { max: Some(1), expires_ms: Some(120_000) }
    }
}

/// What is wrong with a list entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    #[error("a list has at most {patterns_max} subjects")]
    TooMany { patterns_max: usize },
    #[error("{text:?}: only subscriptions have queue groups")]
    Queue { text: String },
    #[error("{text:?} is not a valid subject")]
    Subject { text: String },
}

/// A pattern, and for subscriptions optionally the pattern of a queue group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    pattern: Box<[u8]>,
    queue: Option<Box<[u8]>>,
}

/// A list of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries(Vec<Entry>);

impl Entries {
    /// Adds `PATTERN`, or `PATTERN QUEUE` if `queues` allows that.
    ///
    /// # Errors
    /// Describes what is wrong with the entry.
    pub(crate) fn push(&mut self, text: &str, queues: bool) -> Result<(), RuleError> {
        self.push_up_to(PATTERNS_MAX, text, queues)
    }

    /// The same for a list of at most `patterns_max` patterns.
    ///
    /// # Errors
    /// Describes what is wrong with the entry.
    pub(crate) fn push_up_to(
        &mut self,
        patterns_max: usize,
        text: &str,
        queues: bool,
    ) -> Result<(), RuleError> {
        if self.0.len() >= patterns_max {
            return Err(RuleError::TooMany { patterns_max });
        }
        let mut words = text.split_ascii_whitespace();
        let (pattern, queue) = (words.next().unwrap_or_default(), words.next());
        if queue.is_some() && !queues {
            return Err(RuleError::Queue { text: text.to_owned() });
        }
        for part in [Some(pattern), queue].into_iter().flatten() {
            if !is_pattern(part) {
                return Err(RuleError::Subject { text: part.to_owned() });
            }
        }
        if words.next().is_some() || text.len() > PATTERN_BYTES_MAX {
            return Err(RuleError::Subject { text: text.to_owned() });
        }
        let queue = queue.map(|queue| queue.as_bytes().into());
        self.0.push(Entry { pattern: pattern.as_bytes().into(), queue });
        Ok(())
    }

    /// Finds the matching entries, those with and those without a queue, separated as in nats-server.
    fn find<'a>(&'a self, subject: &'a [u8], wild: Wild) -> MatchingEntries<'a> {
        let mut found = MatchingEntries::default();
        for entry in self.0.iter().filter(|entry| matches(&entry.pattern, subject, wild)) {
            match &entry.queue {
                None => found.plain = true,
                Some(queue) => found.queues.push(queue),
            }
        }
        found
    }
}

#[derive(Default)]
struct MatchingEntries<'a> {
    plain: bool,
    queues: Vec<&'a [u8]>,
}

impl MatchingEntries<'_> {
    fn has_queue(&self, queue: &[u8]) -> bool {
        self.queues.iter().any(|pattern| matches(pattern, queue, Wild::Literal))
    }
}

/// The meaning of `>` in the text that a pattern is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wild {
    /// A token like any other: for subjects, and for patterns that are checked against denied entries.
    Literal,
    /// Everything below. Only `>` covers it.
    Everything,
}

/// All rules of one user. Without lists, everything is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `None` if there is no list. An empty list allows nothing but responses.
    pub(crate) publish_allow: Option<Entries>,
    pub(crate) publish_deny: Entries,
    pub(crate) subscribe_allow: Option<Entries>,
    pub(crate) subscribe_deny: Entries,
    pub(crate) responses: Option<ResponseLimits>,
}

impl Rules {
    /// Returns the limits on replies to delivered messages, beyond what the user may publish anyway. `None`
    /// if there is no such permission.
    pub fn responses(&self) -> Option<ResponseLimits> {
        self.responses
    }

    /// Reports whether there is a list for publishing.
    pub fn restricts_publishing(&self) -> bool {
        self.publish_allow.is_some() || !self.publish_deny.0.is_empty()
    }

    /// Reports whether the user may publish on `subject`, responses aside.
    pub fn may_publish(&self, subject: &[u8]) -> bool {
        let allowed = self.publish_allow.as_ref().is_none_or(|list| list.find(subject, Wild::Literal).plain);
        allowed && !self.publish_deny.find(subject, Wild::Literal).plain
    }

    /// Reports whether the user may subscribe to `pattern`, with or without a queue group.
    pub fn may_subscribe(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        let allowed = self.subscribe_allow.as_ref().is_none_or(|list| {
            let found = list.find(pattern, Wild::Everything);
            match queue {
                // If the matching entries name queue groups, the group must be one of those, even if the
                // pattern alone is allowed.
                Some(queue) if !found.queues.is_empty() => found.has_queue(queue),
                _ => found.plain,
            }
        });
        allowed && !self.denies(pattern, queue)
    }

    /// Reports whether nothing on `subject` may be delivered to a subscription of `queue`.
    pub fn denies(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        if self.subscribe_deny.0.is_empty() {
            return false;
        }
        let found = self.subscribe_deny.find(subject, Wild::Literal);
        found.plain || queue.is_some_and(|queue| found.has_queue(queue))
    }

    /// Reports whether deliveries to this subscription must be checked one by one, because it is wider than a
    /// denied entry.
    pub fn filters(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        let is_wild = pattern.split(|b| *b == b'.').any(|token| token == b"*" || token == b">");
        (is_wild || queue.is_some())
            && self.subscribe_deny.0.iter().any(|entry| collide(&entry.pattern, pattern))
    }
}

/// Reports whether no token is empty, and `>` appears only as the last token.
pub(crate) fn is_pattern(text: &str) -> bool {
    let mut tokens = text.split('.').peekable();
    while let Some(token) = tokens.next() {
        if token.is_empty() || (token == ">" && tokens.peek().is_some()) {
            return false;
        }
    }
    true
}

/// Reports whether `pattern` matches `text`. A text with an empty token matches nothing, as in nats-server's
/// subscription list.
pub(crate) fn matches(pattern: &[u8], text: &[u8], wild: Wild) -> bool {
    if text.split(|b| *b == b'.').any(<[u8]>::is_empty) {
        return false;
    }
    let mut tokens = text.split(|b| *b == b'.');
    for wanted in pattern.split(|b| *b == b'.') {
        match (wanted, tokens.next()) {
            (b">", found) => return found.is_some(),
            (b"*", Some(found)) if found != b">" || wild == Wild::Literal => {}
            (wanted, Some(found)) if wanted == found => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

/// Reports whether every subject that matches `narrow` also matches `wide`.
pub(crate) fn covers(wide: &[u8], narrow: &[u8]) -> bool {
    matches(wide, narrow, Wild::Everything)
}

/// Reports whether some subject matches both patterns.
pub(crate) fn collide(left: &[u8], right: &[u8]) -> bool {
    let (mut left, mut right) = (left.split(|b| *b == b'.'), right.split(|b| *b == b'.'));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(b">"), Some(_)) | (Some(_), Some(b">")) => return true,
            (Some(a), Some(b)) if a == b || a == b"*" || b == b"*" => {}
            _ => return false,
        }
    }
}
