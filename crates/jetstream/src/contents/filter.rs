//! Which subjects a filter means.

use tailrace_subjects::{Pattern, PatternWord};

enum Word {
    Literal(Box<[u8]>),
    /// `*`
    Any,
    /// `>`, which is the last.
    Rest,
}

/// A pattern, prepared to be compared with many subjects.
pub struct Filter {
    /// All subjects that it matches start like this.
    prefix: Box<[u8]>,
    /// What follows the words of the prefix. Empty if the prefix is the subject.
    words: Vec<Word>,
    is_literal: bool,
}

impl Filter {
    /// A filter for the subjects that `pattern` matches.
    pub fn new(pattern: &Pattern) -> Self {
        let (mut prefix, mut words) = (Vec::new(), Vec::new());
        for word in pattern.words() {
            match word {
                PatternWord::Literal(literal) if words.is_empty() => {
                    prefix.extend_from_slice(literal);
                    prefix.push(b'.');
                }
                PatternWord::Literal(literal) => words.push(Word::Literal(literal.into())),
                PatternWord::One => words.push(Word::Any),
                PatternWord::Many => words.push(Word::Rest),
            }
        }
        let is_literal = words.is_empty();
        if is_literal {
            prefix.pop();
        }
        Self { prefix: prefix.into(), words, is_literal }
    }

    /// The subject, if it means one only.
    pub(super) fn literal(&self) -> Option<&[u8]> {
        self.is_literal.then_some(&*self.prefix)
    }

    /// Reports whether it means every subject.
    pub(super) fn is_everything(&self) -> bool {
        self.prefix.is_empty() && matches!(self.words[..], [Word::Rest])
    }

    /// Reports whether it means `subject`.
    pub fn matches(&self, subject: &[u8]) -> bool {
        let Some(rest) = subject.strip_prefix(&*self.prefix) else { return false };
        if self.is_literal {
            return rest.is_empty();
        }
        let mut left = rest.split(|byte| *byte == b'.');
        for word in &self.words {
            match (word, left.next()) {
                (Word::Rest, Some(_)) => return true,
                (Word::Any, Some(_)) => {}
                (Word::Literal(literal), Some(found)) if **literal == *found => {}
                _ => return false,
            }
        }
        left.next().is_none()
    }
}
