//! Draws the plots of docs/benchmarks/subjects.md: `subjects-bench-plot SPEC.json FOLDER`, called by xtask.
//!
//! xtask decides what is drawn, in which order and under which names. This program only knows lines and bars
//! on a logarithmic axis. It needs no C library and no font of the machine.

use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use serde::Deserialize;

const SIZE: (u32, u32) = (1400, 660);
const FONT: &str = "dejavu";
/// Okabe and Ito's colours, which people with red-green colour blindness can tell apart, then two greys.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(120, 120, 120),
    RGBColor(190, 190, 190),
];

type Failure = Box<dyn Error>;
type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

#[derive(Deserialize)]
struct Plot {
    file: String,
    title: String,
    x_label: String,
    y_label: String,
    categories: Vec<String>,
    bars: bool,
    series: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    name: String,
    points: Vec<(usize, f64)>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [spec, folder] = arguments.as_slice() else {
        eprintln!("usage: subjects-bench-plot SPEC.json FOLDER");
        return ExitCode::from(2);
    };
    match draw_all(Path::new(spec), Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn draw_all(spec: &Path, folder: &Path) -> Result<(), Failure> {
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).map_err(|_| "the font is damaged")?;
    let plots: Vec<Plot> = serde_json::from_str(&fs::read_to_string(spec)?)?;
    fs::create_dir_all(folder)?;
    for plot in plots {
        let path = folder.join(format!("{}.png", plot.file));
        plot.draw(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

impl Plot {
    fn draw(&self, path: &Path) -> Result<(), Failure> {
        let area = BitMapBackend::new(path, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        self.chart(&area)?;
        area.present()?;
        Ok(())
    }

    fn chart(&self, area: &Area<'_>) -> Result<(), Failure> {
        let values = self.range();
        // Categories are at whole numbers, with half a step of space on both sides.
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 22))
            .margin(14)
            .x_label_area_size(56)
            .y_label_area_size(90)
            .build_cartesian_2d(-0.5..self.categories.len() as f64 - 0.5, values.clone().log_scale())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(RGBColor(235, 235, 235))
            .x_labels(self.categories.len() * 2 + 1)
            .x_label_formatter(&|x| self.category(*x))
            .y_label_formatter(&|y| shown(*y))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 15))
            .draw()?;
        let width = 0.8 / self.series.len() as f64;
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let left = index as f64 * width - 0.4;
            let drawn = if self.bars {
                let bar = |(x, y): &(usize, f64)| {
                    let x = *x as f64 + left;
                    Rectangle::new([(x, values.start), (x + width * 0.92, *y)], colour.filled())
                };
                chart.draw_series(series.points.iter().map(bar))?
            } else {
                let points = || series.points.iter().map(|(x, y)| (*x as f64, *y));
                chart.draw_series(points().map(|point| Circle::new(point, 4, colour.filled())))?;
                chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
            };
            drawn
                .label(&series.name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
        }
        chart
            .configure_series_labels()
            .position(if self.bars {
                SeriesLabelPosition::UpperRight
            } else {
                SeriesLabelPosition::UpperLeft
            })
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font((FONT, 13))
            .draw()?;
        Ok(())
    }

    /// From the decade below the smallest value to the one above the largest, with space for the legend above
    /// it.
    fn range(&self) -> Range<f64> {
        let values = || self.series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
        let lowest = values().fold(f64::INFINITY, f64::min);
        let highest = values().fold(0.0, f64::max);
        10_f64.powf(lowest.log10().floor())..10_f64.powf((highest.log10() + 0.6).ceil())
    }

    fn category(&self, x: f64) -> String {
        let index = x.round();
        if (x - index).abs() > 0.01 || index < 0.0 {
            return String::new();
        }
        self.categories.get(index as usize).cloned().unwrap_or_default()
    }
}

/// `1000000` as `1 M`.
fn shown(value: f64) -> String {
    match value {
        _ if value >= 1e9 => format!("{} G", value / 1e9),
        _ if value >= 1e6 => format!("{} M", value / 1e6),
        _ if value >= 1e3 => format!("{} k", value / 1e3),
        _ => format!("{value}"),
    }
}
