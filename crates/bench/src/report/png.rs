//! Charts as PNG, for documents that do not take SVG. Drawn with `plotters` and a font of our own: no library
//! or font of the machine is needed.

use std::fmt::Display;
use std::path::Path;

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::prelude::{BitMapBackend, DrawingArea, IntoDrawingArea as _, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color as _, FontStyle, FontTransform, IntoFont as _, IntoTextStyle as _, ShapeStyle, WHITE, register_font,
};

use super::drawing::{AREA_OPACITY, Anchor, Colour, Dash, Picture, Shape, Words};
use crate::error::BenchError;

/// Pixels in the file per pixel of the picture: documents are printed, and screens have a high resolution.
const SCALE: f64 = 2.0;

const FONT: &str = "dejavu";

/// Offsets at which letters are first drawn in the color of paper, so that they can be read on a line.
const HALO: [(f64, f64); 8] =
    [(-2.0, 0.0), (2.0, 0.0), (0.0, -2.0), (0.0, 2.0), (-1.4, -1.4), (1.4, -1.4), (-1.4, 1.4), (1.4, 1.4)];

type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

/// Writes a picture to a file whose name must end in `.png`.
pub(super) fn write(path: &Path, picture: &Picture) -> Result<(), BenchError> {
    let wrong = |reason: String| BenchError::Format { path: path.display().to_string(), reason };
    if path.extension().is_none_or(|extension| extension != "png") {
        return Err(wrong("the name of a PNG picture must end in .png".to_owned()));
    }
    let area = BitMapBackend::new(path, size(picture)).into_drawing_area();
    draw(&area, &picture.shapes).map_err(wrong)
}

fn size(picture: &Picture) -> (u32, u32) {
    ((picture.width * SCALE) as u32, (picture.height * SCALE) as u32)
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
        Shape::Straight { from, to, ink, width } => path(area, &[*from, *to], stroke(ink.colour(), *width)),
        Shape::Curve { points, ink, width, dash: Dash::Whole, .. } => {
            path(area, points, stroke(ink.colour(), *width))
        }
        Shape::Curve { points, ink, width, dash, .. } => {
            let lengths = dash.lengths().unwrap_or((f64::MAX, 0.0));
            let style = stroke(ink.colour(), *width);
            dashes(points, lengths).iter().try_for_each(|dash| path(area, dash, style))
        }
        Shape::Area { points, ink } => {
            let points: Vec<(i32, i32)> = points.iter().map(|point| pixel(*point)).collect();
            area.draw(&Polygon::new(points, rgb(ink.colour()).mix(AREA_OPACITY).filled())).map_err(text_of)
        }
        Shape::Dots { points, ink, .. } => points.iter().try_for_each(|point| {
            let dot = Circle::new(pixel(*point), (4.0 * SCALE) as i32, rgb(ink.colour()).filled());
            area.draw(&dot).map_err(text_of)
        }),
        Shape::Words(words) => {
            if words.halo {
                HALO.iter().try_for_each(|shift| write_words(area, words, *shift, WHITE))?;
            }
            let colour = rgb(words.ink.colour());
            if words.bold {
                // The built-in font has a single weight.
                write_words(area, words, (0.3, 0.0), colour)?;
            }
            write_words(area, words, (0.0, 0.0), colour)
        }
    }
}

fn write_words(area: &Area<'_>, words: &Words, shift: (f64, f64), colour: RGBColor) -> Result<(), String> {
    let across = match words.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    let mut font = (FONT, words.size * SCALE).into_font();
    // Letters are placed on the baseline; their middle is a third of their size above it.
    let raised = words.size * 0.35;
    let at = (words.at.0 + shift.0, words.at.1 + shift.1);
    let at = if words.upwards {
        font = font.transform(FontTransform::Rotate270);
        (at.0 - raised, at.1)
    } else {
        (at.0, at.1 - raised)
    };
    let style = font.into_text_style(area).color(&colour).pos(Pos::new(across, VPos::Center));
    area.draw(&Text::new(words.text.as_str(), pixel(at), style)).map_err(text_of)
}

fn path(area: &Area<'_>, points: &[(f64, f64)], style: ShapeStyle) -> Result<(), String> {
    let points: Vec<(i32, i32)> = points.iter().map(|point| pixel(*point)).collect();
    area.draw(&PathElement::new(points, style)).map_err(text_of)
}

/// The dashes of a dashed line: each as long as the first of `lengths`, with gaps as long as the second.
fn dashes(points: &[(f64, f64)], lengths: (f64, f64)) -> Vec<Vec<(f64, f64)>> {
    let (mut pieces, mut piece) = (Vec::new(), Vec::new());
    let (mut drawing, mut left) = (true, lengths.0);
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
            left = if drawing { lengths.0 } else { lengths.1 };
        }
    }
    pieces.extend((piece.len() > 1).then_some(piece));
    pieces
}

fn pixel(point: (f64, f64)) -> (i32, i32) {
    ((point.0 * SCALE).round() as i32, (point.1 * SCALE).round() as i32)
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
    use crate::report::{Chart, Horizontal, Line, Note, Stroke};

    fn chart() -> Chart {
        let line = |colour, stroke, up: f64| Line {
            label: "system".to_owned(),
            points: vec![(0.0, up), (10.0, up + 1.0), (20.0, up + 2.0)],
            colour,
            stroke,
            ..Line::default()
        };
        Chart {
            title: "a chart".to_owned(),
            vertical: "MiB".to_owned(),
            horizontal: Horizontal::Seconds,
            lines: vec![
                line(0, Stroke::Solid, 1.0),
                line(1, Stroke::Dashed, 2.0),
                line(2, Stroke::Dots, 3.0),
            ],
            ..Chart::default()
        }
    }

    /// Counts the pixels of a color in a chart.
    fn counts(chart: &Chart) -> impl Fn([u8; 3]) -> usize + use<> {
        let picture = chart.picture(Chart::WIDE);
        let (width, height) = size(&picture);
        let mut buffer = vec![0; (width * height * 3) as usize];
        draw(&BitMapBackend::with_buffer(&mut buffer, size(&picture)).into_drawing_area(), &picture.shapes)
            .unwrap();
        move |colour| buffer.chunks(3).filter(|pixel| *pixel == colour).count()
    }

    #[test]
    fn every_line_has_its_pixels() {
        let count = counts(&chart());
        let (solid, dashed) = (count([0, 114, 178]), count([213, 94, 0]));
        // A line 880 pixels long and four thick when doubled; a dashed one has seven elevenths of it.
        assert!(solid > 4000 && dashed > solid / 3 && dashed < solid * 3 / 4, "{solid} {dashed}");
        assert!(count([0, 158, 115]) > 3 * 100, "three dots");
        assert!(count([26, 26, 26]) > 100 && count([90, 90, 90]) > 200, "letters");
        assert!(count([255, 255, 255]) > 1_500_000, "the rest is white");
    }

    #[test]
    fn a_word_along_a_curve_is_in_the_picture() {
        let alarm = [179, 0, 27];
        let mut chart = chart();
        assert_eq!(counts(&chart)(alarm), 0);
        chart.lines[0].word = Some("INVALID".to_owned());
        let words = counts(&chart)(alarm);
        assert!(words > 1000, "{words}");
        chart.notes = vec![Note::alarm("INVALID: it was late")];
        assert!(counts(&chart)(alarm) > words + 300);
    }

    #[test]
    fn a_file_is_a_picture() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chart.png");
        chart().write_png(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
        // The header contains width and height.
        let (width, height) = size(&chart().picture(Chart::WIDE));
        assert_eq!(&bytes[16..24], [width.to_be_bytes(), height.to_be_bytes()].concat());
        assert!(chart().write_png(&folder.path().join("chart.gif")).is_err());
        assert!(chart().write_png(&folder.path().join("no/such/folder.png")).is_err());
    }

    #[test]
    fn dashes_keep_their_lengths_around_corners() {
        let pieces = dashes(&[(0.0, 0.0), (8.0, 0.0), (8.0, 8.0)], (6.0, 4.0));
        assert_eq!(pieces, [vec![(0.0, 0.0), (6.0, 0.0)], vec![(8.0, 2.0), (8.0, 8.0)]]);
        assert!(dashes(&[(1.0, 1.0)], (6.0, 4.0)).is_empty());
    }
}
