//! What a chart is made of, and how it becomes SVG.

use std::fmt::Write as _;

use super::escape;

/// Width of a chart, in pixels.
pub(super) const WIDTH: f64 = 960.0;
/// Height of a chart, in pixels.
pub(super) const HEIGHT: f64 = 440.0;

/// Red, green, blue.
pub(super) type Colour = (u8, u8, u8);

/// Lines of the grid.
pub(super) const GREY: Colour = (221, 221, 221);

/// Which point of a text lies where it is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A part of a chart, in pixels from the upper left corner.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Straight { from: (f64, f64), to: (f64, f64), colour: Colour, width: f64 },
    Curve { label: String, points: Vec<(f64, f64)>, colour: Colour, dashed: bool },
    Dots { label: String, points: Vec<(f64, f64)>, colour: Colour },
    Text { at: (f64, f64), text: String, size: f64, anchor: Anchor, upwards: bool },
}

/// An SVG element that holds them.
pub(super) fn svg(title: &str, shapes: &[Shape]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" data-title=\"{}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n",
        escape(title)
    );
    for shape in shapes {
        draw(&mut svg, shape);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, shape: &Shape) {
    // Writing to a string does not fail.
    let _ = match shape {
        Shape::Straight { from, to, colour, width } => writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{}\" stroke-width=\"{width}\"/>",
            from.0,
            from.1,
            to.0,
            to.1,
            hex(*colour)
        ),
        Shape::Curve { label, points, colour, dashed } => {
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            writeln!(
                svg,
                "<polyline data-label=\"{}\" points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>",
                escape(label),
                path.join(" "),
                hex(*colour),
                if *dashed { " stroke-dasharray=\"6 4\"" } else { "" }
            )
        }
        Shape::Dots { label, points, colour } => {
            let _ = writeln!(svg, "<g data-label=\"{}\" fill=\"{}\">", escape(label), hex(*colour));
            for (x, y) in points {
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
            }
            writeln!(svg, "</g>")
        }
        Shape::Text { at: (x, y), text, size, anchor, upwards } => {
            let place = if *upwards {
                format!("transform=\"translate({x:.1} {y:.1}) rotate(-90)\"")
            } else {
                format!("x=\"{x:.1}\" y=\"{y:.1}\"")
            };
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let text = escape(text);
            writeln!(svg, "<text {place} font-size=\"{size}\" text-anchor=\"{anchor}\">{text}</text>")
        }
    };
}

fn hex((red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
