//! The lines of a chart, and the frame around them.

use super::axis::Axis;

/// Height of a line of text.
pub(super) const LINE: f64 = 17.0;

/// How a line is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// As a curve.
    #[default]
    Solid,
    /// As a broken curve.
    Dashed,
    /// As single points.
    Dots,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    /// Its label in the legend.
    pub label: String,
    /// Horizontal and vertical values. A value that is not finite, or 0 on a logarithmic axis, breaks the
    /// line.
    pub points: Vec<(f64, f64)>,
    /// Index of its color; colors repeat after seven.
    pub colour: usize,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Range in which the line may be: horizontal value, lowest and highest vertical values.
    pub band: Vec<(f64, f64, f64)>,
    /// Horizontal value beyond which the line is not well known; it is dotted there. `None` if it is known
    /// everywhere.
    pub known_to: Option<f64>,
    /// A word along the line, so that the line cannot be shown without it.
    pub word: Option<String>,
}

/// The plot's place in the picture, and its axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) across: Axis,
    pub(super) up: Axis,
}

impl Frame {
    pub(super) fn at(&self, point: (f64, f64)) -> (f64, f64) {
        (self.x(point.0), self.y(point.1))
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.across.place(value) * (self.right - self.left)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.bottom - self.up.place(value) * (self.bottom - self.top)
    }
}
