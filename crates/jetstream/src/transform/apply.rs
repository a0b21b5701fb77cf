//! Writing the subject that a transform makes of another one.

use super::Transform;
use super::parse::{Cut, Part};

impl Transform {
    /// Writes the words of the destination. The subject matches the source.
    pub(super) fn write(&self, words: &[&str], random: u32) -> String {
        let mut text = String::new();
        for (at, part) in self.parts.iter().enumerate() {
            if matches!(part, Part::Text(word) if word == ">") {
                break;
            }
            part.write(words, random, &mut text);
            if at + 1 < self.parts.len() {
                text.push('.');
            }
        }
        if self.takes_rest {
            let rest = words.get(self.source_words - 1..).unwrap_or_default();
            text.push_str(&rest.join("."));
        }
        text
    }
}

impl Part {
    fn write(&self, words: &[&str], random: u32, text: &mut String) {
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        match self {
            Self::Text(word) => text.push_str(word),
            Self::Word(at) => text.push_str(word(*at)),
            Self::Partition { buckets, words: places } => {
                let key: Vec<u8> = match places.as_slice() {
                    [] => words.join(".").into_bytes(),
                    places => places.iter().flat_map(|at| word(*at).bytes()).collect(),
                };
                text.push_str(&partition(&key, *buckets).to_string());
            }
            Self::Random(0) => text.push('0'),
            Self::Random(below) => {
                let random = i64::from(random & 0x7fff_ffff);
                text.push_str(&(random % i64::from(*below)).to_string());
            }
            Self::Cut { kind, word: at, length } => cut(*kind, word(*at), *length, text),
            Self::Split { word: at, separator } => split(word(*at), separator, text),
        }
    }
}

/// The bucket of a key: FNV-1a of 32 bits.
pub(crate) fn partition(key: &[u8], buckets: i32) -> u32 {
    if buckets == 0 {
        return 0;
    }
    let hash =
        key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash % buckets.cast_unsigned()
}

/// A word that is too short for the cut stays as it is. Lengths are in bytes. A cut within a character
/// would make a subject that is no text: it stays whole, too.
fn cut(kind: Cut, word: &str, length: i32, text: &mut String) {
    let length = usize::try_from(length).unwrap_or(0);
    if length == 0 || length >= word.len() {
        return text.push_str(word);
    }
    let pieces = match kind {
        Cut::SplitFromLeft => vec![(0, length), (length, word.len())],
        Cut::SplitFromRight => vec![(0, word.len() - length), (word.len() - length, word.len())],
        Cut::Left => vec![(0, length)],
        Cut::Right => vec![(word.len() - length, word.len())],
        Cut::SliceFromLeft => slices(0, length, word.len()),
        Cut::SliceFromRight => {
            let first = word.len() % length;
            let head = (first > 0).then_some((0, first));
            head.into_iter().chain(slices(first, length, word.len())).collect()
        }
    };
    let pieces: Option<Vec<&str>> = pieces.into_iter().map(|(start, end)| word.get(start..end)).collect();
    match pieces {
        Some(pieces) => text.push_str(&pieces.join(".")),
        None => text.push_str(word),
    }
}

fn slices(start: usize, length: usize, end: usize) -> Vec<(usize, usize)> {
    (start..end).step_by(length).map(|at| (at, (at + length).min(end))).collect()
}

/// Empty pieces are left out, but a separator may stay behind one, as in nats-server.
fn split(word: &str, separator: &str, text: &mut String) {
    let pieces: Vec<&str> = match separator {
        // Go parts a text at nothing into its characters.
        "" => word.char_indices().map(|(at, letter)| &word[at..at + letter.len_utf8()]).collect(),
        _ => word.split(separator).collect(),
    };
    for (at, piece) in pieces.iter().enumerate() {
        text.push_str(piece);
        let more = pieces.get(at + 1).is_some_and(|next| !next.is_empty());
        if more && !(at == 0 && piece.is_empty()) {
            text.push('.');
        }
    }
}
