//! Labels of a picture's curves: the legend below the plot, and words along the curves.

use super::drawing::{Anchor, Ink, Shape, Words};
use super::letters::{letters_width, spread_along, wrapped};
use super::lines::{Frame, LINE, Line, Stroke};

/// Font size of a word along a curve.
const LETTERS: f64 = 12.0;
/// The vertical distance at which two words are both readable.
const APART: f64 = 13.0;
/// Space between two words side by side: bold letters are wider than others.
const BESIDE: f64 = 14.0;

/// Points of a part of a curve without gaps, in the picture.
pub(super) type Piece = Vec<(f64, f64)>;

/// Repeats a word along its curve, so that no crop of the curve is without it.
///
/// If two curves with the same word lie together, they share it. A different word goes below.
pub(super) fn along(frame: &Frame, curves: &[(&str, Vec<Piece>)]) -> Vec<Shape> {
    let mut placed: Vec<Words> = Vec::new();
    for (word, pieces) in curves {
        let width = letters_width(word, LETTERS);
        for (x, y) in pieces.iter().flat_map(|piece| spread_along(piece, width + 50.0)) {
            let least = frame.left + width / 2.0;
            let x = x.clamp(least, (frame.right - width / 2.0).max(least));
            let at = (x, (y + 4.0).max(frame.top + 10.0));
            let words = Words::new(at, *word, Anchor::Middle, Ink::Alarm);
            placed.extend(beside(&placed, Words { bold: true, halo: true, ..words }, frame.bottom));
        }
    }
    placed.into_iter().map(Shape::Words).collect()
}

/// The word at a place where nothing covers it. `None` if the same word is there already. If there is no room
/// below, it stays where it is.
fn beside(placed: &[Words], wanted: Words, bottom: f64) -> Option<Words> {
    let mut words = wanted.clone();
    while let Some(other) = placed.iter().find(|other| is_covered(other, &words)) {
        if other.text == words.text {
            return None;
        }
        words.at.1 = other.at.1 + APART;
        if words.at.1 > bottom {
            return Some(wanted);
        }
    }
    Some(words)
}

fn is_covered(one: &Words, other: &Words) -> bool {
    let room = (letters_width(&one.text, LETTERS) + letters_width(&other.text, LETTERS)) / 2.0;
    (one.at.0 - other.at.0).abs() < room + BESIDE && (one.at.1 - other.at.1).abs() < APART
}

/// Samples and labels of lines from `top` on, in as many columns as fit. Also returns where they end.
pub(super) fn legend(frame: &Frame, top: f64, lines: &[Line]) -> (Vec<Shape>, f64) {
    let (left, room) = (12.0, frame.right - 12.0);
    let widest = lines.iter().map(|line| letters_width(&line.label, LETTERS)).fold(0.0, f64::max);
    let column = (widest + 52.0).min(room);
    let columns = ((room / column) as usize).max(1);
    let (mut shapes, mut y, mut bottom) = (Vec::new(), top, top);
    for (number, line) in lines.iter().enumerate() {
        let place = number % columns;
        if place == 0 {
            y = bottom;
        }
        let x = left + column * place as f64;
        shapes.extend(sample(x, y + 8.0, line));
        for (row, text) in wrapped(&line.label, LETTERS, room - 30.0).into_iter().enumerate() {
            let at = (x + 30.0, y + 12.0 + LINE * row as f64);
            let ink = if line.word.is_some() { Ink::Alarm } else { Ink::Strong };
            shapes.push(Shape::Words(Words::new(at, text, Anchor::Start, ink)));
            bottom = bottom.max(y + LINE * (row + 1) as f64 + 3.0);
        }
    }
    (shapes, bottom)
}

/// A sample of a line, from `x` on at the height `y`.
fn sample(x: f64, y: f64, line: &Line) -> impl Iterator<Item = Shape> {
    let ink = Ink::Curve(line.colour);
    let pieces: &[(f64, f64)] = match line.stroke {
        Stroke::Solid => &[(0.0, 22.0)],
        Stroke::Dashed => &[(0.0, 9.0), (13.0, 22.0)],
        Stroke::Dots => &[(8.0, 14.0)],
    };
    pieces.iter().map(move |(from, to)| Shape::Straight {
        from: (x + from, y),
        to: (x + to, y),
        ink,
        width: 3.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, at: (f64, f64)) -> Words {
        Words::new(at, text, Anchor::Middle, Ink::Alarm)
    }

    #[test]
    fn words_do_not_cover_each_other() {
        let placed = [word("INVALID", (100.0, 50.0))];
        let at = |text, at| beside(&placed, word(text, at), 60.0).map(|words| words.at);
        assert_eq!(at("INVALID", (300.0, 50.0)), Some((300.0, 50.0)));
        assert_eq!(at("INVALID", (100.0, 70.0)), Some((100.0, 70.0)));
        // Words of two curves that lie together; side by side they would look like one word.
        assert_eq!(at("INVALID", (110.0, 52.0)), None);
        assert_eq!((at("INVALID", (155.0, 50.0)), at("INVALID", (170.0, 50.0))), (None, Some((170.0, 50.0))));
        let other = at("doubtful", (110.0, 45.0));
        assert_eq!(other, Some((110.0, 45.0)), "no room below 60");
        let below = beside(&placed, word("doubtful", (110.0, 45.0)), 200.0).map(|words| words.at);
        assert_eq!(below, Some((110.0, 63.0)));
    }
}
