//! Line charts as SVG: latency by percentile on logarithmic axes, and the course of a run over time.
//!
//! Written by hand: two kinds of axes and a legend need no plotting library, and nothing is loaded from anywhere.

use std::fmt::Write as _;

use super::escape;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Colours that people with the usual kinds of colour blindness can tell apart (Okabe and Ito), in turn.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// What lies along the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizontal {
    /// Shares from 0 to 1, spread out towards 1: each nine takes the same room.
    Percentile,
    /// Seconds.
    Seconds,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Horizontal and vertical values.
    pub points: Vec<(f64, f64)>,
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
    /// The lines; colours repeat after seven.
    pub lines: Vec<Line>,
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
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
            escape(&self.title)
        );
        let placed: Vec<Vec<(f64, f64)>> = self.lines.iter().map(|line| self.placed(line)).collect();
        let all = || placed.iter().flatten();
        if all().next().is_none() {
            let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"80\">no data</text>\n</svg>");
            return svg;
        }
        let across = Axis { from: 0.0, to: all().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max) };
        let up = self.vertical_axis(all().map(|(_, y)| *y));
        self.draw_horizontal(&mut svg, across);
        self.draw_vertical(&mut svg, up);
        for (number, (line, points)) in self.lines.iter().zip(&placed).enumerate() {
            draw_line(&mut svg, number, &line.label, points, across, up);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Where points lie before the axes are scaled.
    fn placed(&self, line: &Line) -> Vec<(f64, f64)> {
        let usable = line.points.iter().filter(|(_, y)| y.is_finite() && (!self.logarithmic || *y > 0.0));
        usable
            .map(|(x, y)| {
                let x = match self.horizontal {
                    Horizontal::Percentile => nines(*x),
                    Horizontal::Seconds => *x,
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

    fn draw_horizontal(&self, svg: &mut String, axis: Axis) {
        let ticks: Vec<(f64, String)> = match self.horizontal {
            Horizontal::Percentile => {
                (0..=axis.to.floor() as i32).map(|count| (f64::from(count), percent(count))).collect()
            }
            Horizontal::Seconds => {
                linear_ticks(axis.to).into_iter().map(|at| (at, format!("{at} s"))).collect()
            }
        };
        let bottom = HEIGHT - BOTTOM;
        for (at, label) in ticks {
            let x = horizontal(axis, at);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 18.0
            );
        }
    }

    fn draw_vertical(&self, svg: &mut String, axis: Axis) {
        let ticks: Vec<(f64, String)> = if self.logarithmic {
            (axis.from as i32..=axis.to as i32).map(|power| (f64::from(power), power_of_ten(power))).collect()
        } else {
            linear_ticks(axis.to).into_iter().map(|at| (at, at.to_string())).collect()
        };
        for (at, label) in ticks {
            let y = vertical(axis, at);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0
            );
        }
        let _ = writeln!(
            svg,
            "<text transform=\"translate(18 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            HEIGHT / 2.0,
            escape(&self.vertical)
        );
    }
}

fn draw_line(svg: &mut String, number: usize, label: &str, points: &[(f64, f64)], across: Axis, up: Axis) {
    let colour = COLOURS[number % COLOURS.len()];
    let mut path = String::new();
    for (x, y) in points {
        let _ = write!(path, "{:.1},{:.1} ", horizontal(across, *x), vertical(up, *y));
    }
    let (x, y) = (WIDTH - RIGHT + 12.0, TOP + 8.0 + 20.0 * number as f64);
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
         <line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
         <text x=\"{}\" y=\"{}\">{}</text>",
        path.trim_end(),
        x + 18.0,
        x + 24.0,
        y + 4.0,
        escape(label)
    );
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
    fn nothing_is_no_reason_to_fail() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(1.0, f64::NAN)]] {
            for logarithmic in [true, false] {
                let lines = vec![Line { label: String::new(), points: points.clone() }];
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
