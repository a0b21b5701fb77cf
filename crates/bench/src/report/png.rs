//! Charts as PNG, for documents that take no SVG. Drawn with `plotters`, with letters of its own: no library or font of the machine is needed.

use std::fmt::Display;
use std::path::Path;

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Text};
use plotters::prelude::{BitMapBackend, DrawingArea, IntoDrawingArea as _, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color as _, FontStyle, FontTransform, IntoFont as _, IntoTextStyle as _, ShapeStyle, WHITE, register_font,
};

use super::drawing::{Anchor, Colour, HEIGHT, Shape, WIDTH};
use crate::error::BenchError;

/// Pixels of the picture for one of the chart: documents are printed, and screens are fine.
const SCALE: f64 = 2.0;

const FONT: &str = "dejavu";

/// Lengths of dashes and of the gaps between them, as in the SVG.
const DASH: (f64, f64) = (6.0, 4.0);

type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

/// Writes a chart's parts to a file whose name must end in `.png`.
pub(super) fn write(path: &Path, shapes: &[Shape]) -> Result<(), BenchError> {
    let wrong = |reason: String| BenchError::Format { path: path.display().to_string(), reason };
    if path.extension().is_none_or(|extension| extension != "png") {
        return Err(wrong("the name of a PNG picture must end in .png".to_owned()));
    }
    let area = BitMapBackend::new(path, size()).into_drawing_area();
    draw(&area, shapes).map_err(wrong)
}

fn size() -> (u32, u32) {
    ((WIDTH * SCALE) as u32, (HEIGHT * SCALE) as u32)
}

fn draw(area: &Area<'_>, shapes: &[Shape]) -> Result<(), String> {
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).map_err(|_| "the font is damaged")?;
    area.fill(&WHITE).map_err(text_of)?;
    for shape in shapes {
        draw_shape(area, shape)?;
    }
    area.present().map_err(text_of)
}

fn draw_shape(area: &Area<'_>, shape: &Shape) -> Result<(), String> {
    match shape {
        Shape::Straight { from, to, colour, width } => path(area, &[*from, *to], stroke(*colour, *width)),
        Shape::Curve { points, colour, dashed: false, .. } => path(area, points, stroke(*colour, 2.0)),
        Shape::Curve { points, colour, dashed: true, .. } => {
            dashes(points).iter().try_for_each(|dash| path(area, dash, stroke(*colour, 2.0)))
        }
        Shape::Dots { points, colour, .. } => points.iter().try_for_each(|point| {
            let dot = Circle::new(pixel(*point), (4.0 * SCALE) as i32, rgb(*colour).filled());
            area.draw(&dot).map_err(text_of)
        }),
        Shape::Text { at, text, size, anchor, upwards } => {
            let across = match anchor {
                Anchor::Start => HPos::Left,
                Anchor::Middle => HPos::Center,
                Anchor::End => HPos::Right,
            };
            let mut font = (FONT, size * SCALE).into_font();
            // Letters stand on the line; their middle is a third of their size above it.
            let raised = size * 0.35;
            let at = if *upwards {
                font = font.transform(FontTransform::Rotate270);
                (at.0 - raised, at.1)
            } else {
                (at.0, at.1 - raised)
            };
            let style = font.into_text_style(area).pos(Pos::new(across, VPos::Center));
            area.draw(&Text::new(text.as_str(), pixel(at), style)).map_err(text_of)
        }
    }
}

fn path(area: &Area<'_>, points: &[(f64, f64)], style: ShapeStyle) -> Result<(), String> {
    let points: Vec<(i32, i32)> = points.iter().map(|point| pixel(*point)).collect();
    area.draw(&PathElement::new(points, style)).map_err(text_of)
}

/// The pieces of a broken line.
fn dashes(points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
    let (mut pieces, mut piece) = (Vec::new(), Vec::new());
    let (mut drawing, mut left) = (true, DASH.0);
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            if drawing && piece.is_empty() {
                piece.push(from);
            }
            let (across, up) = (to.0 - from.0, to.1 - from.1);
            let length = across.hypot(up);
            if length <= left {
                left -= length;
                if drawing {
                    piece.push(to);
                }
                break;
            }
            from = (from.0 + across * left / length, from.1 + up * left / length);
            if drawing {
                piece.push(from);
                pieces.push(std::mem::take(&mut piece));
            }
            drawing = !drawing;
            left = if drawing { DASH.0 } else { DASH.1 };
        }
    }
    pieces.extend((piece.len() > 1).then_some(piece));
    pieces
}

fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    ((x * SCALE).round() as i32, (y * SCALE).round() as i32)
}

fn stroke(colour: Colour, width: f64) -> ShapeStyle {
    rgb(colour).stroke_width((width * SCALE) as u32)
}

fn rgb((red, green, blue): Colour) -> RGBColor {
    RGBColor(red, green, blue)
}

fn text_of(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Chart, Horizontal, Line, Stroke};

    fn chart() -> Chart {
        let line = |colour, stroke, up: f64| Line {
            label: "system".to_owned(),
            points: vec![(0.0, up), (10.0, up + 1.0), (20.0, up + 2.0)],
            colour,
            stroke,
        };
        Chart {
            title: "a chart".to_owned(),
            vertical: "MiB".to_owned(),
            logarithmic: false,
            horizontal: Horizontal::Seconds,
            lines: vec![
                line(0, Stroke::Solid, 1.0),
                line(1, Stroke::Dashed, 2.0),
                line(2, Stroke::Dots, 3.0),
            ],
        }
    }

    #[test]
    fn every_line_has_its_pixels() {
        let (width, height) = size();
        let mut buffer = vec![0; (width * height * 3) as usize];
        draw(&BitMapBackend::with_buffer(&mut buffer, size()).into_drawing_area(), &chart().shapes())
            .unwrap();
        let count = |colour: [u8; 3]| buffer.chunks(3).filter(|pixel| *pixel == colour).count();
        let (solid, dashed) = (count([0, 114, 178]), count([213, 94, 0]));
        // A line of 680 by some pixels, four thick when doubled; a broken one has six tenths of it.
        assert!(solid > 4000 && dashed > solid / 3 && dashed < solid * 3 / 4, "{solid} {dashed}");
        assert!(count([0, 158, 115]) > 3 * 100, "three dots");
        assert!(count([0, 0, 0]) > 500, "letters");
        assert!(count([255, 255, 255]) > buffer.len() / 3 * 8 / 10, "the rest is white");
    }

    #[test]
    fn a_file_is_a_picture() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chart.png");
        chart().write_png(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
        // The header names width and height.
        assert_eq!(&bytes[16..24], [1920_u32.to_be_bytes(), 880_u32.to_be_bytes()].concat());
        assert!(chart().write_png(&folder.path().join("chart.gif")).is_err());
        assert!(chart().write_png(&folder.path().join("no/such/folder.png")).is_err());
    }

    #[test]
    fn dashes_keep_their_lengths_around_corners() {
        let pieces = dashes(&[(0.0, 0.0), (8.0, 0.0), (8.0, 8.0)]);
        assert_eq!(pieces, [vec![(0.0, 0.0), (6.0, 0.0)], vec![(8.0, 2.0), (8.0, 8.0)]]);
        assert!(dashes(&[(1.0, 1.0)]).is_empty());
    }
}
