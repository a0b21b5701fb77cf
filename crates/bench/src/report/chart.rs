//! Line charts: latency by percentile on logarithmic axes, the course of a run over time, throughput by load.
//!
//! The layout is done by hand: three kinds of axes and a legend need no plotting library, and nothing is
//! loaded from elsewhere. Anything that must not be cropped away is inside the picture: under the title, in
//! the legend, and along the curve itself.

use std::path::Path;

use super::axis::{Axis, linear_ticks, nines, percentile_ticks};
use super::drawing::{Anchor, Dash, Ink, Picture, Shape, Words};
use super::letters::{letters_width, wrapped};
use super::lines::{Frame, LINE, Line, Stroke};
use super::{labels, png};
use crate::error::BenchError;
use crate::recorder::Distribution;

/// The size of a picture. Its height depends on the text above and below the plot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    width: f64,
    plot_height: f64,
    left: f64,
}

const RIGHT: f64 = 24.0;
/// Space between the plot and the legend: numbers and name of the horizontal axis.
const BELOW: f64 = 58.0;
const TITLE: f64 = 15.0;

/// The unit of the horizontal axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Horizontal {
    /// Shares from 0 to 1, spread out towards 1: each nine takes the same width.
    #[default]
    Percentile,
    /// Seconds.
    Seconds,
    /// Numbers, from 0.
    Number,
}

/// A sentence under a chart's title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// The sentence.
    pub text: String,
    /// Whether the reader must not miss it.
    pub alarm: bool,
}

impl Note {
    /// A note that the reader must not miss.
    pub(crate) fn alarm(text: impl Into<String>) -> Self {
        Self { text: text.into(), alarm: true }
    }

    /// A note for information.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), alarm: false }
    }
}

/// A chart with a logarithmic or linear vertical axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chart {
    /// The title.
    pub title: String,
    /// Sentences under the title.
    pub notes: Vec<Note>,
    /// The label of the horizontal axis; empty for the default of [`Chart::horizontal`].
    pub across: String,
    /// The label of the vertical axis, with its unit.
    pub vertical: String,
    /// Whether the vertical axis is logarithmic. It cannot show values of 0 then.
    pub logarithmic: bool,
    /// The unit of the horizontal axis.
    pub horizontal: Horizontal,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Latency in milliseconds by share, as points of a line. Empty if nothing was recorded.
pub(crate) fn latency_points(distribution: &Distribution) -> Vec<(f64, f64)> {
    let Some(histogram) = distribution.histogram() else { return Vec::new() };
    histogram
        .iter_quantiles(5)
        .map(|row| (row.quantile_iterated_to(), row.value_iterated_to() as f64 / 1e6))
        .filter(|(quantile, _)| *quantile < 1.0)
        .collect()
}

impl Chart {
    /// As wide as a page.
    pub(super) const WIDE: Size = Size { width: 980.0, plot_height: 340.0, left: 78.0 };
    /// For two side by side.
    pub(super) const HALF: Size = Size { width: 520.0, plot_height: 220.0, left: 70.0 };
    /// For the screen of a phone.
    pub(super) const NARROW: Size = Size { width: 380.0, plot_height: 240.0, left: 62.0 };

    /// The chart as an SVG element.
    pub(crate) fn svg(&self) -> String {
        self.picture(Self::WIDE).svg()
    }

    /// Draws the chart into a PNG file, two pixels for each of the SVG.
    ///
    /// # Errors
    /// The name does not end in `.png`, or the file cannot be written.
    pub(crate) fn write_png(&self, path: &Path) -> Result<(), BenchError> {
        png::write(path, &self.picture(Self::WIDE))
    }

    /// Reports whether there is no value to show.
    pub(crate) fn is_empty(&self) -> bool {
        !self.lines.iter().flat_map(|line| &line.points).any(|(_, y)| self.can_show(*y))
    }

    /// Reports whether all values are 0.
    pub(super) fn is_zero(&self) -> bool {
        !self.logarithmic && !self.lines.iter().flat_map(|line| &line.points).any(|(_, y)| *y > 0.0)
    }

    fn can_show(&self, value: f64) -> bool {
        value.is_finite() && (!self.logarithmic || value > 0.0)
    }

    pub(super) fn picture(&self, size: Size) -> Picture {
        let (title, width) = (self.title.clone(), size.width);
        let mut shapes = Vec::new();
        let top = self.draw_head(&mut shapes, size);
        if self.is_empty() {
            shapes.push(Shape::Words(Words::new(
                (size.left, top + 30.0),
                "no data",
                Anchor::Start,
                Ink::Quiet,
            )));
            return Picture { title, width, height: top + 60.0, shapes };
        }
        let (left, right, bottom) = (size.left, width - RIGHT, top + size.plot_height);
        let (across, up) = (self.horizontal_axis(), self.vertical_axis());
        let frame = Frame { left, right, top, bottom, across, up };
        self.draw_horizontal(&mut shapes, &frame);
        self.draw_vertical(&mut shapes, &frame);
        for line in &self.lines {
            self.draw_band(&mut shapes, &frame, line);
        }
        for line in &self.lines {
            self.draw_line(&mut shapes, &frame, line);
        }
        shapes.extend(labels::along(&frame, &self.words(&frame)));
        let (legend, end) = labels::legend(&frame, bottom + BELOW, &self.lines);
        shapes.extend(legend);
        let height = end + 8.0;
        Picture { title, width, height, shapes }
    }

    /// Draws title and notes. Returns where the plot starts.
    fn draw_head(&self, shapes: &mut Vec<Shape>, size: Size) -> f64 {
        let (mut y, room) = (8.0, size.width - 24.0);
        for text in wrapped(&self.title, TITLE, room) {
            y += 19.0;
            let words = Words::new((12.0, y), text, Anchor::Start, Ink::Strong);
            shapes.push(Shape::Words(Words { size: TITLE, bold: true, ..words }));
        }
        for note in &self.notes {
            let ink = if note.alarm { Ink::Alarm } else { Ink::Quiet };
            for text in wrapped(&note.text, 12.0, room) {
                y += LINE;
                let words = Words::new((12.0, y), text, Anchor::Start, ink);
                shapes.push(Shape::Words(Words { bold: note.alarm, ..words }));
            }
        }
        y + 18.0
    }

    fn place_x(&self, x: f64) -> f64 {
        match self.horizontal {
            Horizontal::Percentile => nines(x),
            Horizontal::Seconds | Horizontal::Number => x,
        }
    }

    fn place_y(&self, y: f64) -> f64 {
        if self.logarithmic { y.log10() } else { y }
    }

    /// The pieces of a line in axis coordinates, before scaling.
    fn pieces(&self, line: &Line) -> Vec<Vec<(f64, f64)>> {
        let split = line.points.split(|(_, y)| !self.can_show(*y));
        split
            .filter(|piece| !piece.is_empty())
            .map(|piece| piece.iter().map(|(x, y)| (self.place_x(*x), self.place_y(*y))).collect())
            .collect()
    }

    /// The words along lines, each with the pieces of its line in the picture.
    fn words(&self, frame: &Frame) -> Vec<(&str, Vec<labels::Piece>)> {
        let with_word = self.lines.iter().filter_map(|line| Some((line.word.as_deref()?, line)));
        let placed = with_word.map(|(word, line)| {
            let pieces = self.pieces(line).into_iter();
            (word, pieces.map(|piece| piece.into_iter().map(|point| frame.at(point)).collect()).collect())
        });
        placed.collect()
    }

    fn horizontal_axis(&self) -> Axis {
        let all = self.lines.iter().flat_map(|line| &line.points);
        let shown = all.filter(|(_, y)| self.can_show(*y)).map(|(x, _)| self.place_x(*x));
        Axis { from: 0.0, to: shown.fold(f64::MIN_POSITIVE, f64::max) }
    }

    fn vertical_axis(&self) -> Axis {
        let values = self.lines.iter().flat_map(|line| line.points.iter().map(|(_, y)| *y));
        let bands =
            self.lines.iter().flat_map(|line| line.band.iter().flat_map(|(_, low, high)| [*low, *high]));
        let shown =
            || values.clone().chain(bands.clone()).filter(|y| self.can_show(*y)).map(|y| self.place_y(y));
        let greatest = shown().fold(f64::NEG_INFINITY, f64::max);
        if self.logarithmic {
            Axis::logarithmic(shown().fold(f64::INFINITY, f64::min), greatest)
        } else {
            Axis::linear(greatest)
        }
    }

    fn across_name(&self) -> &str {
        match self.horizontal {
            _ if !self.across.is_empty() => &self.across,
            Horizontal::Percentile => "share of messages that waited no longer",
            Horizontal::Seconds => "seconds since the first message was due",
            Horizontal::Number => "",
        }
    }

    fn draw_horizontal(&self, shapes: &mut Vec<Shape>, frame: &Frame) {
        let ticks = match self.horizontal {
            Horizontal::Percentile => percentile_ticks(frame.across.to),
            Horizontal::Seconds | Horizontal::Number => linear_ticks(frame.across.to),
        };
        let mut free_from = f64::NEG_INFINITY;
        for (at, name) in ticks {
            let x = frame.x(at);
            let (from, to) = ((x, frame.top), (x, frame.bottom));
            shapes.push(Shape::Straight { from, to, ink: Ink::Grid, width: 1.0 });
            let half = letters_width(&name, 12.0) / 2.0;
            if x - half > free_from {
                free_from = x + half + 4.0;
                shapes.push(Shape::Words(Words::new(
                    (x, frame.bottom + 18.0),
                    name,
                    Anchor::Middle,
                    Ink::Quiet,
                )));
            }
        }
        let (from, to) = ((frame.left, frame.bottom), (frame.right, frame.bottom));
        shapes.push(Shape::Straight { from, to, ink: Ink::Edge, width: 1.0 });
        let at = ((frame.left + frame.right) / 2.0, frame.bottom + 37.0);
        shapes.push(Shape::Words(Words::new(at, self.across_name(), Anchor::Middle, Ink::Quiet)));
    }

    fn draw_vertical(&self, shapes: &mut Vec<Shape>, frame: &Frame) {
        let ticks = if self.logarithmic { frame.up.logarithmic_ticks() } else { linear_ticks(frame.up.to) };
        for (at, name) in ticks {
            let y = frame.y(at);
            let (from, to) = ((frame.left, y), (frame.right, y));
            shapes.push(Shape::Straight { from, to, ink: Ink::Grid, width: 1.0 });
            shapes.push(Shape::Words(Words::new((frame.left - 7.0, y + 4.0), name, Anchor::End, Ink::Quiet)));
        }
        let at = (18.0, (frame.top + frame.bottom) / 2.0);
        let unit = Words::new(at, self.vertical.as_str(), Anchor::Middle, Ink::Quiet);
        shapes.push(Shape::Words(Words { upwards: true, ..unit }));
    }

    fn draw_band(&self, shapes: &mut Vec<Shape>, frame: &Frame, line: &Line) {
        let known = line.band.iter().filter(|(x, ..)| line.known_to.is_none_or(|known| *x <= known));
        let shown = known.filter(|(_, low, high)| self.can_show(*low) && self.can_show(*high));
        let placed: Vec<(f64, f64, f64)> = shown
            .map(|(x, low, high)| {
                (frame.x(self.place_x(*x)), frame.y(self.place_y(*low)), frame.y(self.place_y(*high)))
            })
            .collect();
        if placed.len() < 2 {
            return;
        }
        let upper = placed.iter().map(|(x, _, high)| (*x, *high));
        let lower = placed.iter().rev().map(|(x, low, _)| (*x, *low));
        shapes.push(Shape::Area { points: upper.chain(lower).collect(), ink: Ink::Curve(line.colour) });
    }

    fn draw_line(&self, shapes: &mut Vec<Shape>, frame: &Frame, line: &Line) {
        let (ink, label) = (Ink::Curve(line.colour), &line.label);
        let known_to = line.known_to.map(|known| self.place_x(known));
        for piece in self.pieces(line) {
            if line.stroke == Stroke::Dots || piece.len() == 1 {
                let points = piece.iter().map(|point| frame.at(*point)).collect();
                shapes.push(Shape::Dots { label: label.clone(), points, ink });
                continue;
            }
            let dash = if line.stroke == Stroke::Dashed { Dash::Dashed } else { Dash::Whole };
            let known =
                known_to.map_or(piece.len(), |known| piece.iter().filter(|(x, _)| *x <= known).count());
            let parts =
                [(&piece[..known], 2.0, dash), (&piece[known.saturating_sub(1)..], 1.5, Dash::Dotted)];
            for (part, width, dash) in parts.into_iter().filter(|(part, ..)| part.len() > 1) {
                let points = part.iter().map(|point| frame.at(*point)).collect();
                shapes.push(Shape::Curve { label: label.clone(), points, ink, width, dash });
            }
        }
    }
}
