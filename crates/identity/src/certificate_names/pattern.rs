//! Patterns of rules. Kafka compiles them with Java's regular expressions, and we with the crate `regex`,
//! which takes linear time whatever the pattern and the certificate.
//!
//! The price is that some syntax is missing. Some other syntax would mean something else than in Java, and a
//! pattern that matches more than its author meant gives away names. Both are refused at the start:
//!
//! * missing: look-around `(?=`, `(?!`, `(?<=`, `(?<!`; back references `\1`, `\k<name>`; atomic groups
//!   `(?>`; `\Q...\E`, `\G`, `\Z`, `\h`, `\R`, `\X`, `\cX`, octal numbers;
//! * different: possessive repetitions `a*+`; `\v`, `\<`, `\>`, `\p{...}`; in classes `[:alpha:]`, `--` and
//!   `~~`; the flags `d`, `u`, `U` and `x`; the flag `i` together with letters outside ASCII, whose case Java
//!   does not ignore.
//!
//! `\d`, `\s` and `\w` are written out as what they mean in Java: characters of ASCII. `\b` and `\B` count
//! letters of every script, as Java 17 does. In Java 25 they count only ASCII.

use regex::{Captures, Regex, RegexBuilder};
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSetBinaryOp, ClassSetBinaryOpKind, ClassSetItem,
    Flag, Flags, FlagsItemKind, GroupKind, Literal, LiteralKind, Span, SpecialLiteralKind, Visitor,
};

/// Maximum nesting of groups and classes.
const DEPTH_MAX: u32 = 32;

/// Maximum size of a compiled pattern, in bytes. A usual one takes some 10 KiB.
const COMPILED_BYTES_MAX: usize = 256 << 10;

/// Maximum size of a cache for matching, in bytes. There are two for each pattern and thread.
const CACHE_BYTES_MAX: usize = 64 << 10;

/// Two letters outside ASCII that the crate takes for `S` and `K` if a pattern ignores case. Java does not. A
/// subject with one of them matches no such pattern.
const FOLDED_TO_ASCII: [char; 2] = ['\u{17f}', '\u{212a}'];

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is malformed, or uses syntax of Java that does not exist here.
    #[error("the pattern cannot be read: {reason}")]
    Syntax {
        /// What is wrong.
        reason: String,
    },
    /// It uses syntax that Java does not have, or that means something else there.
    #[error("the pattern has {found:?}, which does not mean here what it means in Java")]
    NotAsInJava {
        /// That part of the pattern.
        found: String,
    },
    /// It is too large.
    #[error("the pattern takes more than {COMPILED_BYTES_MAX} bytes when it is compiled")]
    TooLarge,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    ignores_case: bool,
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        let parsed = ParserBuilder::new().nest_limit(DEPTH_MAX).build().parse(pattern);
        let parsed = parsed.map_err(|error| PatternError::Syntax { reason: error.kind().to_string() })?;
        let found = ast::visit(&parsed, Differences::default());
        let found = found.map_err(|span| PatternError::NotAsInJava { found: text_at(pattern, span) })?;
        let whole = format!(r"\A(?:{})\z", with_ascii_classes(pattern, &found.classes));
        let mut builder = RegexBuilder::new(&whole);
        builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(CACHE_BYTES_MAX);
        let regex = builder.build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
            other => PatternError::Syntax { reason: last_line(&other.to_string()) },
        })?;
        Ok(Self { regex, ignores_case: found.ignores_case })
    }

    /// Returns the groups, if the pattern matches the whole text.
    pub(super) fn captures<'a>(&self, text: &'a str) -> Option<Captures<'a>> {
        if self.ignores_case && text.contains(FOLDED_TO_ASCII) {
            return None;
        }
        self.regex.captures(text)
    }

    /// Returns the number of groups, without the whole.
    pub(super) fn groups(&self) -> usize {
        self.regex.captures_len() - 1
    }

    /// Returns the number of a named group.
    pub(super) fn group(&self, name: &str) -> Option<usize> {
        self.regex.capture_names().position(|found| found == Some(name))
    }
}

fn text_at(pattern: &str, span: Span) -> String {
    let text = pattern.get(span.start.offset..span.end.offset).unwrap_or(pattern);
    text.chars().take(64).collect()
}

fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Replaces `\d`, `\s`, `\w` and their opposites. A class in brackets may stand in a class, too.
fn with_ascii_classes(pattern: &str, classes: &[ClassPerl]) -> String {
    let (mut text, mut copied) = (String::new(), 0);
    for class in classes {
        let not = if class.negated { "^" } else { "" };
        let members = match class.kind {
            ClassPerlKind::Digit => "0-9",
            ClassPerlKind::Space => r"\t-\r ",
            ClassPerlKind::Word => "0-9A-Z_a-z",
        };
        text.push_str(&pattern[copied..class.span.start.offset]);
        text.push_str(&format!("[{not}{members}]"));
        copied = class.span.end.offset;
    }
    text.push_str(&pattern[copied..]);
    text
}

/// Looks for what differs from Java. An error is the place of something that is refused.
#[derive(Default)]
struct Differences {
    /// In the order of the pattern.
    classes: Vec<ClassPerl>,
    ignores_case: bool,
    /// A character outside ASCII.
    outside_ascii: Option<Span>,
}

impl Differences {
    fn flags(&mut self, flags: &Flags) -> Result<(), Span> {
        for item in &flags.items {
            match item.kind {
                FlagsItemKind::Flag(Flag::CaseInsensitive) => self.ignores_case = true,
                FlagsItemKind::Negation | FlagsItemKind::Flag(Flag::MultiLine | Flag::DotMatchesNewLine) => {}
                FlagsItemKind::Flag(
                    Flag::SwapGreed | Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace,
                ) => return Err(item.span),
            }
        }
        Ok(())
    }

    /// Refuses `\v`: one character here, several in Java.
    fn literal(&mut self, found: &Literal) -> Result<(), Span> {
        if !found.c.is_ascii() {
            self.outside_ascii = Some(found.span);
        }
        match found.kind {
            LiteralKind::Special(SpecialLiteralKind::VerticalTab) => Err(found.span),
            _ => Ok(()),
        }
    }
}

impl Visitor for Differences {
    type Output = Self;
    type Err = Span;

    fn finish(self) -> Result<Self, Span> {
        match self.outside_ascii {
            Some(span) if self.ignores_case => Err(span),
            _ => Ok(self),
        }
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Span> {
        match ast {
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::Group(group) => match &group.kind {
                GroupKind::NonCapturing(flags) => self.flags(flags),
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => Ok(()),
            },
            Ast::Literal(found) => self.literal(found),
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::StartLine
                | AssertionKind::EndLine
                | AssertionKind::StartText
                | AssertionKind::EndText
                | AssertionKind::WordBoundary
                | AssertionKind::NotWordBoundary => Ok(()),
                _ => Err(assertion.span),
            },
            Ast::ClassUnicode(class) => Err(class.span),
            Ast::ClassPerl(class) => {
                self.classes.push((**class).clone());
                Ok(())
            }
            Ast::Repetition(outer) if matches!(*outer.ast, Ast::Repetition(_)) => Err(outer.span),
            Ast::Repetition(_)
            | Ast::Empty(_)
            | Ast::Dot(_)
            | Ast::ClassBracketed(_)
            | Ast::Alternation(_)
            | Ast::Concat(_) => Ok(()),
        }
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Span> {
        match item {
            ClassSetItem::Literal(found) => self.literal(found),
            ClassSetItem::Range(range) => self.literal(&range.start).and_then(|()| self.literal(&range.end)),
            ClassSetItem::Perl(class) => {
                self.classes.push(class.clone());
                Ok(())
            }
            ClassSetItem::Ascii(class) => Err(class.span),
            ClassSetItem::Unicode(class) => Err(class.span),
            ClassSetItem::Empty(_) | ClassSetItem::Bracketed(_) | ClassSetItem::Union(_) => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, operation: &ClassSetBinaryOp) -> Result<(), Span> {
        match operation.kind {
            ClassSetBinaryOpKind::Intersection => Ok(()),
            ClassSetBinaryOpKind::Difference | ClassSetBinaryOpKind::SymmetricDifference => {
                Err(operation.span)
            }
        }
    }
}
