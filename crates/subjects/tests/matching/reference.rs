//! A reference that is simple enough to be verified by reading it.

use tailrace_subjects::Dialect;

/// The words of a valid text; the empty text has none.
pub(crate) fn words(dialect: Dialect, text: &str) -> Vec<String> {
    let separator = if dialect == Dialect::Mqtt { '/' } else { '.' };
    if text.is_empty() { Vec::new() } else { text.split(separator).map(str::to_owned).collect() }
}

/// Reports whether the pattern matches the subject, both valid, by the letter of the rules.
///
/// `so_far[i]` tells whether the pattern's words so far match the first `i` words of the subject.
pub(crate) fn matches(dialect: Dialect, pattern: &str, subject: &str) -> bool {
    let pattern = words(dialect, pattern);
    let subject = words(dialect, subject);
    let starts_wild = pattern.first().is_some_and(|word| word == "#" || word == "+");
    let hidden = subject.first().is_some_and(|word| word.starts_with('$'));
    if dialect == Dialect::Mqtt && starts_wild && hidden {
        return false;
    }
    let mut so_far: Vec<bool> = (0..=subject.len()).map(|length| length == 0).collect();
    for word in &pattern {
        let after = |end: usize| match (dialect, word.as_str()) {
            (Dialect::Nats, ">") => (0..end).any(|start| so_far[start]),
            (Dialect::Amqp | Dialect::Mqtt, "#") => (0..=end).any(|start| so_far[start]),
            (Dialect::Nats | Dialect::Amqp, "*") | (Dialect::Mqtt, "+") => end > 0 && so_far[end - 1],
            (_, literal) => end > 0 && so_far[end - 1] && subject[end - 1] == literal,
        };
        so_far = (0..=subject.len()).map(after).collect();
    }
    so_far[subject.len()]
}
