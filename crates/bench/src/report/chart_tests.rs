//! Charts as they are drawn.

use super::chart::{Chart, Horizontal, Note};
use super::drawing::{Ink, Shape, Words};
use super::lines::{Line, Stroke};

fn line(label: &str, factor: f64) -> Line {
    let points = vec![(0.5, factor), (0.99, 10.0 * factor), (1.0, 100.0 * factor)];
    Line { label: label.to_owned(), points, ..Line::default() }
}

fn latency(lines: Vec<Line>) -> Chart {
    let (title, vertical) = ("a < b".to_owned(), "milliseconds".to_owned());
    Chart {
        title,
        vertical,
        logarithmic: true,
        horizontal: Horizontal::Percentile,
        lines,
        ..Chart::default()
    }
}

fn over_time(points: &[(f64, f64)], logarithmic: bool) -> Chart {
    let lines = vec![Line { points: points.to_vec(), ..Line::default() }];
    Chart { logarithmic, horizontal: Horizontal::Seconds, lines, ..Chart::default() }
}

#[test]
fn every_line_is_drawn() {
    let svg = latency(vec![line("one", 0.1), line("two & three", 3.0)]).svg();
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert!(svg.contains("a &lt; b") && svg.contains("two &amp; three") && svg.contains("99.999 %"));
    assert!(svg.contains(">share of messages that waited no longer<") && svg.contains(">milliseconds<"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn strokes_differ() {
    let line = |stroke| Line { points: vec![(1.0, 2.0), (2.0, 3.0)], colour: 8, stroke, ..Line::default() };
    let lines = vec![line(Stroke::Solid), line(Stroke::Dashed), line(Stroke::Dots)];
    let chart =
        Chart { horizontal: Horizontal::Number, across: "load".to_owned(), lines, ..Chart::default() };
    let svg = chart.svg();
    assert_eq!((svg.matches("<polyline").count(), svg.matches("stroke-dasharray").count()), (2, 1));
    assert_eq!(svg.matches("<circle").count(), 2);
    // The eighth color is the second.
    assert!(svg.contains("#d55e00") && !svg.contains("#0072b2") && svg.contains(">load<"), "{svg}");
}

#[test]
fn nothing_is_no_reason_to_fail() {
    for points in [vec![], vec![(0.0, 0.0)], vec![(1.0, f64::NAN)]] {
        for logarithmic in [true, false] {
            let chart = over_time(&points, logarithmic);
            let svg = chart.svg();
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(chart.is_empty(), logarithmic || points.iter().all(|(_, y)| y.is_nan()), "{points:?}");
        }
    }
    assert!(over_time(&[(0.0, 0.0)], false).is_zero() && !over_time(&[(0.0, 1.0)], false).is_zero());
}

#[test]
fn what_cannot_be_shown_breaks_the_line() {
    let points = [(0.0, 1.0), (1.0, 1.0), (2.0, 0.0), (3.0, 1.0), (4.0, 1.0)];
    assert_eq!(over_time(&points, true).svg().matches("<polyline").count(), 2);
    // A zero is drawn if the axis has one.
    assert_eq!(over_time(&points, false).svg().matches("<polyline").count(), 1);
    assert_eq!(
        over_time(&[(0.0, 1.0), (1.0, f64::NAN), (2.0, 1.0)], false).svg().matches("<circle").count(),
        2
    );
}

#[test]
fn what_is_not_known_is_dotted() {
    let points = (0..9).map(|n| (f64::from(n) / 10.0, f64::from(n + 1)));
    let known = Line { points: points.collect(), known_to: Some(0.55), ..line("x", 1.0) };
    let svg = latency(vec![known.clone()]).svg();
    let curves: Vec<&str> = svg.lines().filter(|text| text.starts_with("<polyline")).collect();
    assert_eq!(curves.len(), 2, "{svg}");
    assert!(!curves[0].contains("dasharray") && curves[1].contains("stroke-dasharray=\"2 4\""), "{svg}");
    let points = |curve: &str| curve.split("points=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let (first, second) = (points(curves[0]), points(curves[1]));
    // One continues where the other ends.
    assert_eq!(first.split(' ').next_back(), second.split(' ').next());
    assert_eq!((first.split(' ').count(), second.split(' ').count()), (6, 4));
    let nothing_known = Line { known_to: Some(-1.0), ..known };
    assert_eq!(latency(vec![nothing_known]).svg().matches("<polyline").count(), 1);
}

#[test]
fn a_word_is_repeated_along_the_curve() {
    let marked = Line { word: Some("INVALID".to_owned()), ..line("x", 1.0) };
    let mut chart = latency(vec![marked, line("y", 2.0)]);
    chart.notes = vec![Note::alarm("x: INVALID: it was late"), Note::plain("quiet words")];
    for size in [Chart::WIDE, Chart::HALF, Chart::NARROW] {
        let picture = chart.picture(size);
        let words = picture.shapes.iter().filter_map(|shape| match shape {
            Shape::Words(words) => Some(words),
            _ => None,
        });
        let along: Vec<&Words> = words.clone().filter(|words| words.text == "INVALID").collect();
        assert!(along.len() >= 2, "{along:?}");
        assert!(
            along.iter().all(|words| words.ink == Ink::Alarm && words.halo && words.at.0 < picture.width)
        );
        let alarms =
            words.clone().filter(|words| words.ink == Ink::Alarm && words.text.starts_with("x: ")).count();
        assert_eq!(alarms, 1);
        assert!(words.clone().all(|words| words.at.1 < picture.height), "everything is within the picture");
    }
}

#[test]
fn a_band_surrounds_its_line() {
    let band = vec![(0.5, 0.5, 2.0), (0.9, 0.5, 4.0), (0.99, 1.0, 90.0)];
    let svg = latency(vec![Line { band: band.clone(), ..line("x", 1.0) }]).svg();
    assert_eq!(svg.matches("<polygon").count(), 1);
    // Where the line is not known there is no band, either.
    let svg = latency(vec![Line { band, known_to: Some(0.6), ..line("x", 1.0) }]).svg();
    assert_eq!(svg.matches("<polygon").count(), 0);
}

#[test]
fn long_legends_go_on_below() {
    let long = "a system with a name that is much too long for the screen of any telephone: receipt, INVALID";
    let chart = latency(vec![line(long, 1.0), line("short", 2.0)]);
    let (wide, narrow) = (chart.picture(Chart::WIDE), chart.picture(Chart::NARROW));
    assert!(narrow.svg().contains("INVALID<") && wide.svg().contains(long), "{}", narrow.svg());
}
