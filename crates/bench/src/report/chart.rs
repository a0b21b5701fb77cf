//! Line charts: latency by percentile on logarithmic axes, the course of a run over time, throughput by load.
//!
//! Laid out by hand: three kinds of axes and a legend need no plotting library, and nothing is loaded from anywhere.

use std::path::Path;

use super::drawing::{self, Anchor, Colour, GREY, HEIGHT, Shape, WIDTH};
use super::png;
use crate::error::BenchError;
use crate::recorder::Distribution;

const LEFT: f64 = 80.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Colours that people with the usual kinds of colour blindness can tell apart (Okabe and Ito), in turn.
const COLOURS: [Colour; 7] =
    [(0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233), (0, 0, 0)];

/// What lies along the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizontal {
    /// Shares from 0 to 1, spread out towards 1: each nine takes the same room.
    Percentile,
    /// Seconds.
    Seconds,
    /// Numbers, from 0.
    Number,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// As a curve.
    Solid,
    /// As a broken curve.
    Dashed,
    /// As single points.
    Dots,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Horizontal and vertical values.
    pub points: Vec<(f64, f64)>,
    /// Number of its colour; colours repeat after seven.
    pub colour: usize,
    /// How it is drawn.
    pub stroke: Stroke,
}

/// A chart with a logarithmic or linear vertical axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What is shown.
    pub title: String,
    /// What the vertical axis measures, with its unit.
    pub vertical: String,
    /// Whether the vertical axis is logarithmic. Values of 0 are then left out.
    pub logarithmic: bool,
    /// What lies along the horizontal axis.
    pub horizontal: Horizontal,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Latency in milliseconds by share, as points of a line. Empty if nothing was recorded.
pub fn latency_points(distribution: &Distribution) -> Vec<(f64, f64)> {
    let Some(histogram) = distribution.histogram() else { return Vec::new() };
    histogram
        .iter_quantiles(5)
        .map(|row| (row.quantile_iterated_to(), row.value_iterated_to() as f64 / 1e6))
        .filter(|(quantile, _)| *quantile < 1.0)
        .collect()
}

/// An axis: the values at its ends, as they are placed.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn place(self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE)
    }
}

impl Chart {
    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        drawing::svg(&self.title, &self.shapes())
    }

    /// Draws the chart into a PNG file, two pixels for each of the SVG.
    ///
    /// # Errors
    /// The name does not end in `.png`, or the file cannot be written.
    pub fn write_png(&self, path: &Path) -> Result<(), BenchError> {
        png::write(path, &self.shapes())
    }

    pub(super) fn shapes(&self) -> Vec<Shape> {
        let mut shapes = vec![text((LEFT, 24.0), self.title.clone(), Anchor::Start)];
        if let Some(Shape::Text { size, .. }) = shapes.first_mut() {
            *size = 15.0;
        }
        let placed: Vec<Vec<(f64, f64)>> = self.lines.iter().map(|line| self.placed(line)).collect();
        let all = || placed.iter().flatten();
        if all().next().is_none() {
            shapes.push(text((LEFT, 80.0), "no data".to_owned(), Anchor::Start));
            return shapes;
        }
        let across = Axis { from: 0.0, to: all().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max) };
        let up = self.vertical_axis(all().map(|(_, y)| *y));
        self.draw_horizontal(&mut shapes, across);
        self.draw_vertical(&mut shapes, up);
        for (number, (line, points)) in self.lines.iter().zip(&placed).enumerate() {
            let points = points.iter().map(|(x, y)| (horizontal(across, *x), vertical(up, *y))).collect();
            draw_line(&mut shapes, number, line, points);
        }
        shapes
    }

    /// Where points lie before the axes are scaled.
    fn placed(&self, line: &Line) -> Vec<(f64, f64)> {
        let usable = line.points.iter().filter(|(_, y)| y.is_finite() && (!self.logarithmic || *y > 0.0));
        usable
            .map(|(x, y)| {
                let x = match self.horizontal {
                    Horizontal::Percentile => nines(*x),
                    Horizontal::Seconds | Horizontal::Number => *x,
                };
                (x, if self.logarithmic { y.log10() } else { *y })
            })
            .collect()
    }

    fn vertical_axis(&self, values: impl Iterator<Item = f64> + Clone) -> Axis {
        let greatest = values.clone().fold(f64::NEG_INFINITY, f64::max);
        if !self.logarithmic {
            return Axis { from: 0.0, to: if greatest > 0.0 { greatest * 1.05 } else { 1.0 } };
        }
        let (from, to) = (values.fold(f64::INFINITY, f64::min).floor(), greatest.ceil());
        Axis { from, to: if to > from { to } else { from + 1.0 } }
    }

    fn draw_horizontal(&self, shapes: &mut Vec<Shape>, axis: Axis) {
        let ticks: Vec<(f64, String)> = match self.horizontal {
            Horizontal::Percentile => {
                (0..=axis.to.floor() as i32).map(|count| (f64::from(count), percent(count))).collect()
            }
            Horizontal::Seconds => {
                linear_ticks(axis.to).into_iter().map(|at| (at, format!("{at} s"))).collect()
            }
            Horizontal::Number => linear_ticks(axis.to).into_iter().map(|at| (at, at.to_string())).collect(),
        };
        let bottom = HEIGHT - BOTTOM;
        for (at, label) in ticks {
            let x = horizontal(axis, at);
            shapes.push(Shape::Straight { from: (x, TOP), to: (x, bottom), colour: GREY, width: 1.0 });
            shapes.push(text((x, bottom + 18.0), label, Anchor::Middle));
        }
    }

    fn draw_vertical(&self, shapes: &mut Vec<Shape>, axis: Axis) {
        let ticks: Vec<(f64, String)> = if self.logarithmic {
            (axis.from as i32..=axis.to as i32).map(|power| (f64::from(power), power_of_ten(power))).collect()
        } else {
            linear_ticks(axis.to).into_iter().map(|at| (at, at.to_string())).collect()
        };
        for (at, label) in ticks {
            let y = vertical(axis, at);
            let (from, to) = ((LEFT, y), (WIDTH - RIGHT, y));
            shapes.push(Shape::Straight { from, to, colour: GREY, width: 1.0 });
            shapes.push(text((LEFT - 6.0, y + 4.0), label, Anchor::End));
        }
        let mut unit = text((18.0, HEIGHT / 2.0), self.vertical.clone(), Anchor::Middle);
        if let Shape::Text { upwards, .. } = &mut unit {
            *upwards = true;
        }
        shapes.push(unit);
    }
}

fn text(at: (f64, f64), text: String, anchor: Anchor) -> Shape {
    Shape::Text { at, text, size: 12.0, anchor, upwards: false }
}

fn draw_line(shapes: &mut Vec<Shape>, number: usize, line: &Line, points: Vec<(f64, f64)>) {
    let colour = COLOURS[line.colour % COLOURS.len()];
    let (x, y) = (WIDTH - RIGHT + 12.0, TOP + 8.0 + 20.0 * number as f64);
    let label = line.label.clone();
    let sample =
        |from: f64, to: f64| Shape::Straight { from: (x + from, y), to: (x + to, y), colour, width: 3.0 };
    match line.stroke {
        Stroke::Solid => {
            shapes.push(Shape::Curve { label, points, colour, dashed: false });
            shapes.push(sample(0.0, 18.0));
        }
        Stroke::Dashed => {
            shapes.push(Shape::Curve { label, points, colour, dashed: true });
            shapes.extend([sample(0.0, 7.0), sample(11.0, 18.0)]);
        }
        Stroke::Dots => {
            shapes.push(Shape::Dots { label, points, colour });
            shapes.push(sample(6.0, 12.0));
        }
    }
    shapes.push(text((x + 24.0, y + 4.0), line.label.clone(), Anchor::Start));
}

fn horizontal(axis: Axis, value: f64) -> f64 {
    LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT)
}

fn vertical(axis: Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - TOP - BOTTOM)
}

/// How many nines a share has: 0.9 has one, 0.99 two. A share of 1 is left at seven.
fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-7).log10()
}

fn percent(count: i32) -> String {
    match count {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{} %", "9".repeat(more as usize - 2)),
    }
}

fn power_of_ten(power: i32) -> String {
    if power >= 0 {
        format!("1{}", "0".repeat(power as usize))
    } else {
        format!("0.{}1", "0".repeat((-power) as usize - 1))
    }
}

/// Round numbers from 0 to `greatest`, about six.
fn linear_ticks(greatest: f64) -> Vec<f64> {
    let rough = greatest / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
    let step = step.unwrap_or(power * 10.0);
    let count = (greatest / step).floor().clamp(0.0, 100.0) as u32;
    // Rounded to what the step can mean, so that labels stay short.
    (0..=count).map(|n| (f64::from(n) * step * 1e6).round() / 1e6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn() {
        let line = |label: &str, factor: f64| Line {
            label: label.to_owned(),
            points: vec![(0.5, factor), (0.99, 10.0 * factor), (1.0, 100.0 * factor)],
            colour: 0,
            stroke: Stroke::Solid,
        };
        let chart = Chart {
            title: "a < b".to_owned(),
            vertical: "milliseconds".to_owned(),
            logarithmic: true,
            horizontal: Horizontal::Percentile,
            lines: vec![line("one", 0.1), line("two & three", 3.0)],
        };
        let svg = chart.svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains("two &amp; three") && svg.contains("99.999 %"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn strokes_differ() {
        let line =
            |stroke| Line { label: "x".to_owned(), points: vec![(1.0, 2.0), (2.0, 3.0)], colour: 8, stroke };
        let chart = Chart {
            title: String::new(),
            vertical: "MiB".to_owned(),
            logarithmic: false,
            horizontal: Horizontal::Number,
            lines: vec![line(Stroke::Solid), line(Stroke::Dashed), line(Stroke::Dots)],
        };
        let svg = chart.svg();
        assert_eq!((svg.matches("<polyline").count(), svg.matches("stroke-dasharray").count()), (2, 1));
        assert_eq!(svg.matches("<circle").count(), 2);
        // The eighth colour is the second.
        assert!(svg.contains("#d55e00") && !svg.contains("#0072b2"), "{svg}");
    }

    #[test]
    fn nothing_is_no_reason_to_fail() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(1.0, f64::NAN)]] {
            for logarithmic in [true, false] {
                let (label, points) = (String::new(), points.clone());
                let lines = vec![Line { label, points, colour: 0, stroke: Stroke::Solid }];
                let (title, vertical) = (String::new(), String::new());
                let chart = Chart { title, vertical, logarithmic, horizontal: Horizontal::Seconds, lines };
                let svg = chart.svg();
                assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(linear_ticks(30.0), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(linear_ticks(0.7), [0.0, 0.2, 0.4, 0.6]);
        assert_eq!((power_of_ten(-2), power_of_ten(3)), ("0.01".to_owned(), "1000".to_owned()));
    }
}
