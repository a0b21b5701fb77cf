//! Text layout: the width of a text, its line breaks, and the positions of words along a curve.

/// Average width of a letter, relative to its size. Generous, since the reader's font is unknown.
const LETTER: f64 = 0.58;

/// The approximate width of a text, in pixels.
pub(super) fn letters_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// Wraps a text into lines no wider than `room`, between words. A longer word gets a line of its own.
pub(super) fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if letters_width(line, size) + letters_width(word, size) + size <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Points of a curve at equal distances along it, about `distance` apart, at least one. Empty for an empty
/// curve.
pub(super) fn spread_along(points: &[(f64, f64)], distance: f64) -> Vec<(f64, f64)> {
    let length = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1);
    let whole: f64 = points.windows(2).map(length).sum();
    let count = ((whole / distance) as usize).max(1);
    let step = whole / count as f64;
    let (mut found, mut passed) = (Vec::new(), 0.0);
    for pair in points.windows(2) {
        let (from, to, here) = (pair[0], pair[1], length(pair));
        while found.len() < count && step.mul_add(found.len() as f64 + 0.5, -passed) <= here {
            let share = if here > 0.0 { step.mul_add(found.len() as f64 + 0.5, -passed) / here } else { 0.0 };
            found.push((from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share));
        }
        passed += here;
    }
    if found.is_empty() {
        found.extend(points.first());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three", 10.0, 60.0), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensibilities a b", 10.0, 60.0), ["incomprehensibilities", "a b"]);
        assert!(wrapped("", 10.0, 60.0).is_empty());
    }

    #[test]
    fn words_are_spread_along_a_curve() {
        let corner = [(0.0, 0.0), (100.0, 0.0), (100.0, 100.0)];
        assert_eq!(spread_along(&corner, 100.0), [(50.0, 0.0), (100.0, 50.0)]);
        assert_eq!(spread_along(&corner, 1000.0), [(100.0, 0.0)]);
        assert_eq!(spread_along(&[(3.0, 4.0)], 10.0), [(3.0, 4.0)]);
        assert_eq!(spread_along(&[(3.0, 4.0), (3.0, 4.0)], 10.0), [(3.0, 4.0)]);
        assert!(spread_along(&[], 10.0).is_empty());
    }
}
