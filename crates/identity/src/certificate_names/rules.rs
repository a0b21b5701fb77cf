//! The rules that make a name of a subject: `ssl.principal.mapping.rules`, read as Kafka's
//! `SslPrincipalMapper` reads it.
//!
//! A rule must match the whole subject, and its replacement becomes the name. In Kafka the pattern must match
//! the whole subject, too, but the name is the subject with *every* match of the pattern replaced. So `.*`
//! with the replacement `x` gives `xx` there, because `.*` matches once more at the end. No useful rule
//! depends on that. Nor should one depend on a repeated group that can match nothing, such as `(.*)*`: in
//! Java it is empty in the end.

use std::str::Chars;

use super::pattern::{Pattern, PatternError};
use crate::names::{UserName, UserNameError};

/// Maximum length of all rules together, in bytes.
const RULES_BYTES_MAX: usize = 16 << 10;

/// Maximum number of rules. Compiled, they take at most 16 MiB, and their caches 8 MiB per thread.
const RULES_MAX: usize = 64;

/// Maximum length of a subject's text, in bytes: enough for every subject that
/// [`distinguished_name`](super::distinguished_name) accepts.
const DN_BYTES_MAX: usize = 16 << 10;

/// Why rules cannot be used. Rules are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Too many bytes.
    #[error("the rules have {found} bytes, and {RULES_BYTES_MAX} are the most")]
    TooLong {
        /// The length, in bytes.
        found: usize,
    },
    /// Too many rules.
    #[error("there are more than {RULES_MAX} rules")]
    TooMany,
    /// No rule, so no certificate would have a name.
    #[error("there is no rule: DEFAULT takes the whole subject as the name")]
    NoRule,
    /// It is not a rule.
    #[error("rule {rule} is neither DEFAULT nor RULE:pattern/replacement/ with an L or U at its end")]
    Form {
        /// Which rule.
        rule: usize,
    },
    /// The pattern cannot be used.
    #[error("rule {rule}: {error}")]
    Pattern {
        /// Which rule.
        rule: usize,
        /// What is wrong.
        error: PatternError,
    },
    /// The replacement has a `$` that refers to no group.
    #[error("rule {rule} has a $ in its replacement that refers to no group: \\$ is a dollar sign")]
    Replacement {
        /// Which rule.
        rule: usize,
    },
}

/// Why a certificate has no name. This is for the log; the client is told less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateNameError {
    /// The subject is too long.
    #[error("the certificate's subject has {found} bytes, and {DN_BYTES_MAX} are the most")]
    TooLong {
        /// The length of its text, in bytes.
        found: usize,
    },
    /// The subject could forge lines of a log. Patterns, too, treat ends of lines in their own way.
    #[error("the certificate's subject has control characters or line separators")]
    Character,
    /// No rule matches.
    #[error("no rule matches the certificate's subject")]
    NoRule,
    /// A letter outside ASCII would become one of ASCII, so two subjects could have the same name.
    #[error("a letter of the name outside ASCII becomes one of ASCII in the case that the rule demands")]
    Case,
    /// No user may have this name.
    #[error("the certificate names a user who must not exist: {0}")]
    Name(#[from] UserNameError),
}

/// Rules that make a user's name of a certificate's subject.
#[derive(Clone, Debug)]
pub struct CertificateNames {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
enum Rule {
    /// The whole subject is the name.
    Whole,
    Replace {
        pattern: Pattern,
        replacement: Vec<Piece>,
        case: Case,
    },
}

/// A piece of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Text(char),
    /// A group of the pattern, or 0 for all.
    Group(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    AsIs,
    Lower,
    Upper,
}

impl Default for CertificateNames {
    /// Takes the whole subject as the name.
    fn default() -> Self {
        Self { rules: vec![Rule::Whole] }
    }
}

impl CertificateNames {
    /// Reads rules, separated by commas. Empty ones are ignored.
    ///
    /// # Errors
    /// A rule is malformed, its pattern uses syntax that Java has and this does not, there are too many
    /// rules, or there is none.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        if text.len() > RULES_BYTES_MAX {
            return Err(RuleError::TooLong { found: text.len() });
        }
        let mut rules = Vec::new();
        let mut rest = text.trim_matches(is_blank);
        while !rest.is_empty() {
            let number = rules.len() + 1;
            if number > RULES_MAX {
                return Err(RuleError::TooMany);
            }
            let (rule, after) = rule(rest, number)?;
            rules.extend(rule);
            let after = after.trim_start_matches(is_blank);
            rest = match after.strip_prefix(',') {
                Some(next) => next.trim_start_matches(is_blank),
                None if after.is_empty() => after,
                None => return Err(RuleError::Form { rule: number }),
            };
        }
        if rules.is_empty() { Err(RuleError::NoRule) } else { Ok(Self { rules }) }
    }

    /// Returns the name of the user whose certificate has this subject, as
    /// [`distinguished_name`](super::distinguished_name) writes it. The first rule that matches makes the
    /// name. Takes time proportional to the length of the subject times that of the rules.
    ///
    /// # Errors
    /// No rule matches, or no user may have the name.
    pub fn name(&self, distinguished_name: &str) -> Result<UserName, CertificateNameError> {
        let found = distinguished_name.len();
        if found > DN_BYTES_MAX {
            return Err(CertificateNameError::TooLong { found });
        }
        if distinguished_name.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
            return Err(CertificateNameError::Character);
        }
        let name = self.rules.iter().find_map(|rule| rule.apply(distinguished_name));
        Ok(UserName::new(&name.ok_or(CertificateNameError::NoRule)??)?)
    }
}

impl Rule {
    /// Returns the name, if the rule matches.
    fn apply(&self, subject: &str) -> Option<Result<String, CertificateNameError>> {
        let Self::Replace { pattern, replacement, case } = self else { return Some(Ok(subject.to_owned())) };
        let groups = pattern.captures(subject)?;
        let mut name = String::new();
        for piece in replacement {
            match piece {
                Piece::Text(c) => name.push(*c),
                Piece::Group(number) => name.push_str(groups.get(*number).map_or("", |group| group.as_str())),
            }
        }
        Some(case.of(&name))
    }
}

impl Case {
    fn of(self, name: &str) -> Result<String, CertificateNameError> {
        let becomes_ascii = |c: char| match self {
            Self::AsIs => false,
            Self::Lower => c.to_lowercase().any(|changed| changed.is_ascii()),
            Self::Upper => c.to_uppercase().any(|changed| changed.is_ascii()),
        };
        if name.chars().any(|c| !c.is_ascii() && becomes_ascii(c)) {
            return Err(CertificateNameError::Case);
        }
        Ok(match self {
            Self::AsIs => name.to_owned(),
            Self::Lower => name.to_lowercase(),
            Self::Upper => name.to_uppercase(),
        })
    }
}

/// Reads one rule, or none between two commas, and returns what follows it.
fn rule(text: &str, number: usize) -> Result<(Option<Rule>, &str), RuleError> {
    if text.starts_with(',') {
        return Ok((None, text));
    }
    if let Some(rest) = text.strip_prefix("DEFAULT") {
        return Ok((Some(Rule::Whole), rest));
    }
    let parts = || {
        let (pattern, rest) = until_slash(text.strip_prefix("RULE:")?)?;
        let (replacement, rest) = until_slash(rest)?;
        Some((pattern, replacement, rest))
    };
    let (pattern, replacement, rest) = parts().ok_or(RuleError::Form { rule: number })?;
    let (case, rest) = match rest.split_at_checked(1) {
        Some(("L", rest)) => (Case::Lower, rest),
        Some(("U", rest)) => (Case::Upper, rest),
        _ => (Case::AsIs, rest),
    };
    let pattern = Pattern::new(pattern).map_err(|error| RuleError::Pattern { rule: number, error })?;
    let replacement = pieces(replacement, &pattern).ok_or(RuleError::Replacement { rule: number })?;
    Ok((Some(Rule::Replace { pattern, replacement, case }), rest))
}

/// Splits at the first slash that no backslash precedes. Backslashes stay.
fn until_slash(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let slash = text.char_indices().find(|(_, c)| {
        let is_end = *c == '/' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    let (at, _) = slash?;
    Some((&text[..at], &text[at + 1..]))
}

/// Reads a replacement of Java: `$1` and `${name}` are groups, and a backslash takes the next character as it
/// is.
fn pieces(replacement: &str, pattern: &Pattern) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = replacement.chars();
    while let Some(c) = rest.next() {
        pieces.push(match c {
            '\\' => Piece::Text(rest.next()?),
            '$' => group(&mut rest, pattern)?,
            _ => Piece::Text(c),
        });
    }
    Some(pieces)
}

/// Reads what follows a `$`. As in Kafka, `$4` is text if there are groups, but no fourth.
fn group(rest: &mut Chars<'_>, pattern: &Pattern) -> Option<Piece> {
    if let Some(after) = rest.as_str().strip_prefix('{') {
        let (name, after) = after.split_once('}')?;
        *rest = after.chars();
        return pattern.group(name).map(Piece::Group);
    }
    let groups = pattern.groups();
    let mut number = first_digit(rest)?;
    if number > groups {
        return (groups > 0).then_some(Piece::Text('$'));
    }
    rest.next();
    // As many digits as there is a group for.
    while let Some(digit) = first_digit(rest) {
        let longer = number.saturating_mul(10).saturating_add(digit);
        if longer > groups {
            break;
        }
        number = longer;
        rest.next();
    }
    Some(Piece::Group(number))
}

fn first_digit(rest: &Chars<'_>) -> Option<usize> {
    rest.clone().next()?.to_digit(10).map(|digit| digit as usize)
}

/// Reports whether Java takes a character for a blank (`\s`).
fn is_blank(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ')
}
