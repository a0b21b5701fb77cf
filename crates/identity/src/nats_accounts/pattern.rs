//! Small operations on patterns, word by word.

/// Maximum length of a subject in an account's definition, in bytes.
pub(super) const SUBJECT_BYTES_MAX: usize = 1_024;

/// Maximum number of words of a subject in an account's definition.
pub(super) const WORDS_MAX: usize = 64;

/// Reports whether a text is a pattern or a subject: no empty word, no space, and `>` only at the end.
pub(super) fn is_valid(text: &str) -> bool {
    let has_bad_byte = text.bytes().any(|byte| byte <= b' ' || byte == 0x7f);
    text.len() <= SUBJECT_BYTES_MAX
        && !has_bad_byte
        && text.split('.').count() <= WORDS_MAX
        && crate::rules::is_pattern(text)
}

/// Reports whether a pattern has wildcards.
pub(super) fn has_wildcards(text: &str) -> bool {
    text.split('.').any(|word| word == "*" || word == ">")
}

/// Returns the pattern of the subjects that both patterns match. `None` if there are none.
pub(super) fn meet(left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
    let (mut left, mut right) = (words(left), words(right));
    let mut met: Vec<&[u8]> = Vec::new();
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Some(met.join(&b'.')),
            (Some(b">"), Some(word)) => {
                met.push(word);
                met.extend(right);
                return Some(met.join(&b'.'));
            }
            (Some(word), Some(b">")) => {
                met.push(word);
                met.extend(left);
                return Some(met.join(&b'.'));
            }
            (Some(b"*"), Some(word)) | (Some(word), Some(b"*")) => met.push(word),
            (Some(a), Some(b)) if a == b => met.push(a),
            _ => return None,
        }
    }
}

/// Returns the words of a subject or pattern.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'.')
}
