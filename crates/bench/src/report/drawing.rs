//! The parts of a picture, and its conversion to SVG.
//!
//! Each part names its ink, not a color: a page may give inks other colors on a dark screen, through their
//! classes. The colors for paper are attributes, for a picture that is shown without a page.

use std::fmt::Write as _;

use super::escape;

/// Red, green, blue.
pub(super) type Colour = (u8, u8, u8);

/// Colors that people with the usual kinds of color blindness can tell apart (Okabe and Ito), used in turn.
pub(super) const COLOURS: [Colour; 7] =
    [(0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233), (0, 0, 0)];

/// The ink of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// Titles.
    Strong,
    /// Names of axes, their numbers, remarks.
    Quiet,
    /// Lines of the grid.
    Grid,
    /// The edge of the plot.
    Edge,
    /// What the reader must not miss.
    Alarm,
    /// One of [`COLOURS`], which repeat.
    Curve(usize),
}

impl Ink {
    pub(super) fn colour(self) -> Colour {
        match self {
            Self::Strong => (26, 26, 26),
            Self::Quiet => (90, 90, 90),
            Self::Grid => (228, 228, 228),
            Self::Edge => (150, 150, 150),
            Self::Alarm => (179, 0, 27),
            Self::Curve(number) => COLOURS[number % COLOURS.len()],
        }
    }

    fn class(self) -> String {
        match self {
            Self::Strong => "strong".to_owned(),
            Self::Quiet => "quiet".to_owned(),
            Self::Grid => "grid".to_owned(),
            Self::Edge => "edge".to_owned(),
            Self::Alarm => "alarm".to_owned(),
            Self::Curve(number) => format!("curve{}", number % COLOURS.len()),
        }
    }
}

/// The dash pattern of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dash {
    Whole,
    Dashed,
    Dotted,
}

impl Dash {
    /// Lengths of a dash and of the gap after it, in pixels.
    pub(super) fn lengths(self) -> Option<(f64, f64)> {
        match self {
            Self::Whole => None,
            Self::Dashed => Some((7.0, 4.0)),
            Self::Dotted => Some((2.0, 4.0)),
        }
    }
}

/// Which point of a text is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text in a picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Words {
    pub(super) at: (f64, f64),
    pub(super) text: String,
    pub(super) size: f64,
    pub(super) anchor: Anchor,
    pub(super) ink: Ink,
    pub(super) upwards: bool,
    pub(super) bold: bool,
    /// Whether the letters have a halo of paper, so that they can be read on a line.
    pub(super) halo: bool,
}

impl Words {
    pub(super) fn new(at: (f64, f64), text: impl Into<String>, anchor: Anchor, ink: Ink) -> Self {
        Self { at, text: text.into(), size: 12.0, anchor, ink, upwards: false, bold: false, halo: false }
    }
}

/// A part of a picture, in pixels from the upper left corner.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Straight {
        from: (f64, f64),
        to: (f64, f64),
        ink: Ink,
        width: f64,
    },
    Curve {
        label: String,
        points: Vec<(f64, f64)>,
        ink: Ink,
        width: f64,
        dash: Dash,
    },
    /// A translucent area.
    Area {
        points: Vec<(f64, f64)>,
        ink: Ink,
    },
    Dots {
        label: String,
        points: Vec<(f64, f64)>,
        ink: Ink,
    },
    Words(Words),
}

/// The opacity of areas.
pub(super) const AREA_OPACITY: f64 = 0.14;

/// A chart after layout.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    pub(super) title: String,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

impl Picture {
    /// An SVG element.
    pub(super) fn svg(&self) -> String {
        let (title, width, height) = (escape(&self.title), self.width, self.height);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{title}\" data-title=\"{title}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
             <rect class=\"f-paper\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        for shape in &self.shapes {
            draw(&mut svg, shape);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn draw(svg: &mut String, shape: &Shape) {
    // Writing to a string does not fail.
    let _ = match shape {
        Shape::Straight { from, to, ink, width } => writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" {} stroke-width=\"{width}\"/>",
            from.0,
            from.1,
            to.0,
            to.1,
            stroke(*ink)
        ),
        Shape::Curve { label, points, ink, width, dash } => writeln!(
            svg,
            "<polyline data-label=\"{}\" points=\"{}\" fill=\"none\" {} stroke-width=\"{width}\" stroke-linejoin=\"round\"{}/>",
            escape(label),
            path(points),
            stroke(*ink),
            dash.lengths().map_or_else(String::new, |(on, off)| format!(" stroke-dasharray=\"{on} {off}\""))
        ),
        Shape::Area { points, ink } => {
            writeln!(
                svg,
                "<polygon points=\"{}\" {} fill-opacity=\"{AREA_OPACITY}\"/>",
                path(points),
                fill(*ink)
            )
        }
        Shape::Dots { label, points, ink } => {
            let _ = writeln!(svg, "<g data-label=\"{}\" {}>", escape(label), fill(*ink));
            for (x, y) in points {
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
            }
            writeln!(svg, "</g>")
        }
        Shape::Words(words) => words_svg(svg, words),
    };
}

fn words_svg(svg: &mut String, words: &Words) -> std::fmt::Result {
    let (x, y) = words.at;
    let place = if words.upwards {
        format!("transform=\"translate({x:.1} {y:.1}) rotate(-90)\"")
    } else {
        format!("x=\"{x:.1}\" y=\"{y:.1}\"")
    };
    let anchor = match words.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let weight = if words.bold { " font-weight=\"600\"" } else { "" };
    let (halo, class) = if words.halo {
        (" stroke=\"#ffffff\" stroke-width=\"4\" paint-order=\"stroke\"", " s-paper")
    } else {
        ("", "")
    };
    writeln!(
        svg,
        "<text {place} font-size=\"{}\" text-anchor=\"{anchor}\"{weight} class=\"f-{}{class}\" fill=\"{}\"{halo}>{}</text>",
        words.size,
        words.ink.class(),
        hex(words.ink.colour()),
        escape(&words.text)
    )
}

fn path(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    points.join(" ")
}

fn stroke(ink: Ink) -> String {
    format!("class=\"s-{}\" stroke=\"{}\"", ink.class(), hex(ink.colour()))
}

fn fill(ink: Ink) -> String {
    format!("class=\"f-{}\" fill=\"{}\"", ink.class(), hex(ink.colour()))
}

fn hex((red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
