//! Charts of the resources that server and generator used: the increase of each counter between samples, per
//! second.

use super::chart::{Chart, Horizontal};
use super::lines::{Line, Stroke};
use super::section::{Section, Series};
use super::{ResourceSample, Resources};

/// Turns samples into the points of a line.
type Points = dyn Fn(&[ResourceSample]) -> Vec<(f64, f64)>;

const MEBIBYTE: f64 = 1_048_576.0;

/// The charts of a section's resources, from the first round of each series that has samples. Empty if no
/// round has any.
///
/// The server is a solid line, the generator a dashed one of the same color.
pub(super) fn charts(section: &Section) -> Vec<Chart> {
    if section.series.iter().all(|series| sampled(series).is_none()) {
        return Vec::new();
    }
    let several = section.series.iter().any(|series| series.rounds.len() > 1);
    let round = if several { ", first round" } else { "" };
    let prefix = if section.title.is_empty() { String::new() } else { format!("{}: ", section.title) };
    let chart = |what: &str, vertical: &str, points: &Points| Chart {
        title: format!("{prefix}{what}{round}"),
        across: "seconds since the sampling began".to_owned(),
        vertical: vertical.to_owned(),
        horizontal: Horizontal::Seconds,
        lines: lines(section, points),
        ..Chart::default()
    };
    let rate = |value: fn(&ResourceSample) -> f64| move |samples: &[ResourceSample]| rates(samples, value);
    let switches = |sample: &ResourceSample| (sample.voluntary_switches + sample.involuntary_switches) as f64;
    let (mebibytes, cores) = ("MiB per second", "processor seconds per second");
    vec![
        chart("processor time", cores, &rate(|sample| sample.cpu_seconds)),
        chart("memory in RAM", "MiB", &|samples| {
            samples.iter().map(|sample| (sample.second, sample.resident_bytes as f64 / MEBIBYTE)).collect()
        }),
        chart("context switches", "per second", &rate(switches)),
        chart("read by calls", mebibytes, &rate(|sample| sample.read_bytes as f64 / MEBIBYTE)),
        chart("written by calls", mebibytes, &rate(|sample| sample.written_bytes as f64 / MEBIBYTE)),
        chart("page cache: read in", mebibytes, &rate(|sample| sample.disk_read_bytes as f64 / MEBIBYTE)),
        chart(
            "page cache: made dirty",
            mebibytes,
            &rate(|sample| sample.disk_written_bytes as f64 / MEBIBYTE),
        ),
    ]
}

fn lines(section: &Section, points: &Points) -> Vec<Line> {
    let mut lines = Vec::new();
    for (colour, series) in section.series.iter().enumerate() {
        let Some(used) = sampled(series) else { continue };
        let mut add = |what: &str, samples: &[ResourceSample], stroke| {
            let label = series.legend(what);
            let (points, word) = (points(samples), series.word_along());
            lines.push(Line { label, points, colour, stroke, word, ..Line::default() });
        };
        for (what, samples, stroke) in
            [("server", &used.server, Stroke::Solid), ("generator", &used.generator, Stroke::Dashed)]
        {
            if !samples.is_empty() {
                add(what, samples, stroke);
            }
        }
        for (address, samples) in &used.agents {
            add(&format!("agent {address}"), samples, Stroke::Dashed);
        }
    }
    lines
}

/// The samples of the first round that has some.
fn sampled(series: &Series) -> Option<&Resources> {
    series.rounds.iter().find_map(|round| round.resources.as_ref())
}

/// The increase of a counter between samples, per second.
fn rates(samples: &[ResourceSample], value: impl Fn(&ResourceSample) -> f64) -> Vec<(f64, f64)> {
    samples
        .windows(2)
        .filter(|pair| pair[1].second > pair[0].second)
        .map(|pair| {
            let grown = (value(&pair[1]) - value(&pair[0])).max(0.0);
            (pair[1].second, grown / (pair[1].second - pair[0].second))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Round;
    use crate::report::section_tests::resources;

    #[test]
    fn counters_become_rates() {
        let used = Round { resources: Some(resources()), ..Round::default() };
        let series =
            Series { label: "js".to_owned(), rounds: vec![Round { resources: None, ..used.clone() }, used] };
        let charts = charts(&Section { title: "w".to_owned(), series: vec![series], ..Section::default() });
        assert_eq!(charts[0].title, "w: processor time, first round");
        let labels: Vec<&str> = charts[0].lines.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "js: server (INVALID)",
                "js: generator (INVALID)",
                "js: agent h:1 (INVALID)",
                "js: agent h:2 (INVALID)"
            ]
        );
        assert_eq!(charts[0].lines[0].points, [(1.0, 0.5), (3.0, 0.5)]);
        assert_eq!(charts[1].lines[1].points, [(0.0, 3.0), (1.0, 3.0)]);
        assert_eq!(charts[2].lines[0].points, [(1.0, 120.0), (3.0, 120.0)]);
        assert!(charts.iter().all(|chart| !chart.vertical.is_empty() && chart.lines.len() == 4));
    }

    #[test]
    fn without_samples_there_are_no_charts() {
        let series = Series { rounds: vec![Round::default()], ..Series::default() };
        assert!(charts(&Section { series: vec![series], ..Section::default() }).is_empty());
    }
}
