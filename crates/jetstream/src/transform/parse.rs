//! The words of a destination: text, `$1`, and functions in double braces.

use super::error::TransformError;
use crate::go::parse_int;

/// One word of a destination.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// This word. `>` ends the written words.
    Text(String),
    /// The word of the source at this place.
    Word(usize),
    /// A hash of these words, or of the whole subject, modulo buckets.
    Partition { buckets: i32, words: Vec<usize> },
    /// A random number below this one.
    Random(i32),
    /// A piece or several of the word at this place.
    Cut { kind: Cut, word: usize, length: i32 },
    /// The word, parted where this text is.
    Split { word: usize, separator: String },
}

/// How a word is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    SplitFromLeft,
    SplitFromRight,
    SliceFromLeft,
    SliceFromRight,
    Left,
    Right,
}

const ENOUGH: &str = "not enough arguments passed to the function";
const TOO_MANY: &str = "too many arguments passed to the function";
const INVALID: &str = "function argument is invalid or in the wrong format";
const RANGE: &str = "wildcard index out of range";
const UNKNOWN: &str = "unknown function";

fn error<T>(reason: &str, word: &str) -> Result<T, TransformError> {
    Err(TransformError(format!("invalid mapping destination: {reason} in {word}")))
}

/// What a word calls, with the numbers of wildcards that it names.
enum Call {
    Text,
    Word(i64),
    Partition { buckets: i32, words: Vec<i64> },
    Random(i32),
    Cut { kind: Cut, word: i64, length: i32 },
    Split { word: i64, separator: String },
}

/// Reads a word of a destination. The source has wildcards at these places.
pub(super) fn part(word: &str, wildcards: &[usize], takes_rest: bool) -> Result<Part, TransformError> {
    let call = call(word)?;
    if wildcards.is_empty() && !takes_rest {
        return match call {
            Call::Text => Ok(Part::Text(word.to_owned())),
            Call::Random(below) => Ok(Part::Random(below)),
            // Whichever words it names: there are none, so the whole subject is hashed.
            Call::Partition { buckets, .. } => Ok(Part::Partition { buckets, words: Vec::new() }),
            _ => error(RANGE, word),
        };
    }
    let place = |index: i64| match usize::try_from(index) {
        Ok(at) if at > wildcards.len() => error(RANGE, &format!("{word}: [{index}]")),
        // nats-server takes 0 and less for the first word of the subject.
        Ok(0) | Err(_) => Ok(0),
        Ok(at) => Ok(wildcards[at - 1]),
    };
    Ok(match call {
        Call::Text => Part::Text(word.to_owned()),
        Call::Random(below) => Part::Random(below),
        Call::Word(index) => Part::Word(place(index)?),
        Call::Partition { buckets, words } => {
            let words = words.into_iter().map(place).collect::<Result<_, _>>()?;
            Part::Partition { buckets, words }
        }
        Call::Cut { kind, word, length } => Part::Cut { kind, word: place(word)?, length },
        Call::Split { word, separator } => Part::Split { word: place(word)?, separator },
    })
}

/// Reports whether the word looks like a function.
pub(super) fn is_mustache(word: &str) -> bool {
    word.len() > 4 && word.starts_with("{{") && word.ends_with("}}")
}

/// The functions, in the order in which nats-server tries them.
const FUNCTIONS: [(&str, Function); 10] = [
    ("wildcard", Function::Wildcard),
    ("partition", Function::Partition),
    ("splitfromleft", Function::Cut(Cut::SplitFromLeft)),
    ("splitfromright", Function::Cut(Cut::SplitFromRight)),
    ("slicefromleft", Function::Cut(Cut::SliceFromLeft)),
    ("slicefromright", Function::Cut(Cut::SliceFromRight)),
    ("right", Function::Cut(Cut::Right)),
    ("left", Function::Cut(Cut::Left)),
    ("split", Function::Split),
    ("random", Function::Random),
];

#[derive(Clone, Copy)]
enum Function {
    Wildcard,
    Partition,
    Cut(Cut),
    Split,
    Random,
}

/// Reports whether the word calls a function that there is.
pub(super) fn is_known_function(word: &str) -> bool {
    FUNCTIONS.iter().any(|(name, _)| arguments(name, word).is_some())
}

fn call(word: &str) -> Result<Call, TransformError> {
    if word.len() > 1 && word.starts_with('$') {
        // Other words that begin with a dollar are texts: `$KV`.
        return Ok(parse_int(&word[1..]).map_or(Call::Text, Call::Word));
    }
    if !is_mustache(word) {
        return Ok(Call::Text);
    }
    let found = FUNCTIONS.iter().find_map(|(name, function)| Some((*function, arguments(name, word)?)));
    let Some((function, arguments)) = found else { return error(UNKNOWN, word) };
    match function {
        Function::Wildcard => wildcard(word, &arguments),
        Function::Partition => partition(word, &arguments),
        Function::Cut(kind) => cut(kind, word, &arguments),
        Function::Split => split(word, &arguments),
        Function::Random => random(word, &arguments),
    }
}

fn wildcard(word: &str, arguments: &[&str]) -> Result<Call, TransformError> {
    match arguments {
        [""] => error(ENOUGH, word),
        [index] => Ok(Call::Word(number(word, index)?)),
        _ => error(TOO_MANY, word),
    }
}

fn partition(word: &str, arguments: &[&str]) -> Result<Call, TransformError> {
    let Some((buckets, words)) = arguments.split_first() else { return error(ENOUGH, word) };
    let buckets = wrapped(word, buckets)?;
    let words = words.iter().map(|index| number(word, index)).collect::<Result<_, _>>()?;
    Ok(Call::Partition { buckets, words })
}

fn cut(kind: Cut, word: &str, arguments: &[&str]) -> Result<Call, TransformError> {
    let (index, length) = two(word, arguments)?;
    let index = number(word, index)?;
    let length = number(word, length)?;
    let Ok(length) = i32::try_from(length) else { return error(INVALID, word) };
    Ok(Call::Cut { kind, word: index, length })
}

fn split(word: &str, arguments: &[&str]) -> Result<Call, TransformError> {
    let (index, separator) = two(word, arguments)?;
    let index = number(word, index)?;
    if separator.contains([' ', '.']) {
        return error(INVALID, word);
    }
    Ok(Call::Split { word: index, separator: separator.to_owned() })
}

fn random(word: &str, arguments: &[&str]) -> Result<Call, TransformError> {
    match arguments {
        [below] => Ok(Call::Random(wrapped(word, below)?)),
        _ => error(ENOUGH, word),
    }
}

fn two<'a>(word: &str, arguments: &[&'a str]) -> Result<(&'a str, &'a str), TransformError> {
    match arguments {
        [] | [_] => error(ENOUGH, word),
        [one, two] => Ok((one, two)),
        _ => error(TOO_MANY, word),
    }
}

fn number(word: &str, argument: &str) -> Result<i64, TransformError> {
    parse_int(argument.trim_matches(' ')).map_or_else(|| error(INVALID, word), Ok)
}

/// A number that is at most the largest of 32 bits. Go cuts very negative ones off.
fn wrapped(word: &str, argument: &str) -> Result<i32, TransformError> {
    let value = number(word, argument)?;
    if value > i64::from(i32::MAX) { error(INVALID, word) } else { Ok(value as i32) }
}

/// The arguments of a call of this function; none if the word calls another one. nats-server looks for
/// `{{\s*name\s*\((.*)\)\s*}}` anywhere in the word, where only the first letters of the name's parts may
/// be in either case.
fn arguments<'a>(name: &str, word: &'a str) -> Option<Vec<&'a str>> {
    let inside = word.match_indices("{{").find_map(|(at, _)| call_at(name, &word[at + 2..]))?;
    // The expression is `,\s*`: blanks after a comma go with it.
    let mut arguments = inside.split(',');
    let first = arguments.next()?;
    let others = arguments.map(|argument| argument.trim_start_matches(blank));
    Some(std::iter::once(first).chain(others).collect())
}

fn blank(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\x0c' | '\r' | ' ')
}

fn call_at<'a>(name: &str, text: &'a str) -> Option<&'a str> {
    let text = text.trim_start_matches(blank);
    let called = text.get(..name.len()).filter(|called| is_name(name, called))?;
    let inside = text[called.len()..].trim_start_matches(blank).strip_prefix('(')?;
    let line = inside.split('\n').next().unwrap_or(inside);
    // The last bracket that the closing braces follow.
    let mut ends = inside.match_indices(')').filter(|(at, _)| *at <= line.len());
    let last = ends.rfind(|(at, _)| inside[at + 1..].trim_start_matches(blank).starts_with("}}"))?;
    Some(&inside[..last.0])
}

/// Capitals are allowed where a part of the name begins.
fn is_name(name: &str, called: &str) -> bool {
    let begins =
        |at: usize| at == 0 || ["from", "left", "right"].iter().any(|part| name[at..].starts_with(part));
    name.bytes()
        .zip(called.bytes())
        .enumerate()
        .all(|(at, (wanted, found))| found == wanted || (begins(at) && found == wanted.to_ascii_uppercase()))
}
