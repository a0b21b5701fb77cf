//! Subjects as JetStream's API judges them: nats-server's functions, on texts that may be anything.

const BLANKS: [char; 5] = ['\t', '\n', '\x0c', '\r', ' '];

/// Reports whether the text is a subject or a pattern.
pub(crate) fn is_valid(subject: &str) -> bool {
    let mut ended = false;
    for word in subject.split('.') {
        if word.is_empty() || ended || word.contains(BLANKS) {
            return false;
        }
        ended = word == ">";
    }
    true
}

/// Reports whether no word is a wildcard.
pub(crate) fn is_literal(subject: &str) -> bool {
    !subject.split('.').any(is_wildcard)
}

/// Reports whether a message may be published there.
pub(crate) fn is_publishable(subject: &str) -> bool {
    is_valid(subject) && is_literal(subject)
}

fn is_wildcard(word: &str) -> bool {
    matches!(word, "*" | ">")
}

/// Reports whether some subject matches both patterns.
pub(crate) fn collide(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (is_literal(one), is_literal(other)) {
        (true, true) => false,
        (true, false) => is_subset(one, other),
        (false, true) => is_subset(other, one),
        (false, false) => patterns_collide(one, other),
    }
}

fn patterns_collide(one: &str, other: &str) -> bool {
    let words = |text: &str| (text.split('.').count(), text.split('.').any(|word| word == ">"));
    let ((one_words, one_ends), (other_words, other_ends)) = (words(one), words(other));
    let too_short = match one_words.cmp(&other_words) {
        std::cmp::Ordering::Less => !one_ends,
        std::cmp::Ordering::Equal => false,
        std::cmp::Ordering::Greater => !other_ends,
    };
    !too_short && one.split('.').zip(other.split('.')).all(|(one, other)| can_match(one, other))
}

/// nats-server looks at the first letters only.
fn can_match(one: &str, other: &str) -> bool {
    let wild = |word: &str| word.starts_with(['*', '>']);
    !one.is_empty() && !other.is_empty() && (wild(one) || wild(other) || one == other)
}

/// Reports whether the pattern matches everything that the subject, which may be a pattern, matches.
pub(crate) fn is_subset(subject: &str, pattern: &str) -> bool {
    let mut words = subject.split('.');
    for test in pattern.split('.') {
        let Some(word) = words.next() else { return false };
        match (word, test) {
            (_, "") => return false,
            (_, ">") => return true,
            ("" | ">", _) => return false,
            ("*", "*") => {}
            ("*", _) => return false,
            // nats-server looks at the first letter of the pattern's word only.
            (word, test) if !test.starts_with('*') && word != test => return false,
            _ => {}
        }
    }
    words.next().is_none()
}

/// Reports whether a stream or consumer may be named so. Lengths are looked at elsewhere.
pub(crate) fn is_valid_name(name: &str) -> bool {
    !name.is_empty() && !name.contains([' ', '\t', '\r', '\n', '\x0c', '.', '*', '>', '\\', '/'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_subjects_are_told_from_others() {
        for legal in ["a", "a.b", "*", ">", "a.*.>", "a*b", "a>", "**", "\u{e9}"] {
            assert!(is_valid(legal), "{legal}");
        }
        for other in ["", ".", "a.", ".a", "a..b", ">.a", "a b", "a.\t", " ", "a.b\n"] {
            assert!(!is_valid(other), "{other}");
        }
        assert!(is_publishable("a*.b>") && !is_publishable("a.*") && !is_publishable("a..b"));
    }

    #[test]
    fn collisions_are_found() {
        for (one, other) in
            [("a", "a"), ("a.*", "a.b"), ("a.>", "a.*"), ("*.b", "a.*"), (">", "x"), ("a.>", "*.>")]
        {
            assert!(collide(one, other) && collide(other, one), "{one} {other}");
        }
        for (one, other) in [("a", "b"), ("a.*", "a"), ("a.>", "a"), ("a.*", "*.b.c"), ("a.*", "b.>")] {
            assert!(!collide(one, other) && !collide(other, one), "{one} {other}");
        }
    }

    #[test]
    fn subsets_are_found() {
        for (subject, pattern) in [("a.b", "a.*"), ("a.*", "a.>"), ("a.*", "a.*"), ("a", ">"), ("a.b", "a.b")]
        {
            assert!(is_subset(subject, pattern), "{subject} {pattern}");
        }
        for (subject, pattern) in [("a.>", "a.*"), ("a", "a.*"), ("a.b.c", "a.*"), ("a.*", "a.b"), ("a", "b")]
        {
            assert!(!is_subset(subject, pattern), "{subject} {pattern}");
        }
    }
}
