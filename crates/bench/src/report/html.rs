//! A report as one HTML page that needs nothing else: charts as SVG, tables, and everything that a run was told.
//!
//! Rounds of the same run are one line: their histograms are added, never averaged. The page holds no script.

use std::fmt::Write as _;

use serde_json::Value;

use super::chart::{Chart, Horizontal, Line, Stroke, latency_points};
use super::escape;
use super::resources::{self, Resources};
use crate::engine::QUANTILES;
use crate::recorder::interval_log::{LoggedInterval, total};
use crate::recorder::{Distribution, Recorder};

/// A system under one workload, in one round or several.
#[derive(Debug, Default)]
pub struct Series {
    /// Its name in legends.
    pub label: String,
    /// The interval log of each round.
    pub rounds: Vec<Vec<LoggedInterval>>,
    /// The result of each round, as JSON text.
    pub results: Vec<String>,
    /// What server and generator used in each round, where that was sampled.
    pub resources: Vec<Option<Resources>>,
}

/// What is shown together.
#[derive(Debug, Default)]
pub struct Section {
    /// Its heading: the workload.
    pub title: String,
    /// One line each.
    pub series: Vec<Series>,
    /// The plan that the runs belong to, as its file says it.
    pub plan: Option<String>,
}

/// The whole page.
pub fn html(title: &str, sections: &[Section]) -> String {
    let title = escape(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n<p>Latency counts from the moment a message was due. Rounds of one system are added, not averaged.</p>\n"
    );
    for section in sections {
        let _ = writeln!(page, "<h2>{}</h2>", escape(&section.title));
        for chart in of_messages(section) {
            page.push_str(&chart.svg());
        }
        page.push_str("<div class=\"resources\">\n");
        for chart in resources::charts(section) {
            page.push_str(&chart.svg());
        }
        page.push_str("</div>\n");
        page.push_str(&table(section));
        page.push_str(&origins(section));
        if let Some(plan) = &section.plan {
            let _ =
                writeln!(page, "<details><summary>The plan</summary><pre>{}</pre></details>", escape(plan));
        }
        for series in &section.series {
            for (round, result) in series.results.iter().enumerate() {
                let _ = writeln!(
                    page,
                    "<details><summary>{}, round {}: everything about this run</summary><pre>{}</pre></details>",
                    escape(&series.label),
                    round + 1,
                    escape(result)
                );
            }
        }
    }
    page.push_str("</body></html>\n");
    page
}

const STYLE: &str = "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}svg{width:100%;height:auto}\
    table{border-collapse:collapse;font-size:14px}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}\
    .origin{table-layout:fixed;width:100%}.origin td,.origin th{text-align:left;vertical-align:top;overflow-wrap:anywhere}.resources{display:grid;grid-template-columns:1fr 1fr}td:first-child,th:first-child{text-align:left}pre{overflow:auto;background:#f4f4f4;padding:1em}";

/// The charts of a section: by percentile, over time, and resources over time where they were sampled.
pub fn charts(section: &Section) -> Vec<Chart> {
    let mut charts = of_messages(section);
    charts.extend(resources::charts(section));
    charts
}

fn of_messages(section: &Section) -> Vec<Chart> {
    let chart = |what: &str, vertical: &str, logarithmic, horizontal, lines| Chart {
        title: format!("{}: {what}", section.title),
        vertical: vertical.to_owned(),
        logarithmic,
        horizontal,
        lines,
    };
    let lines = |points: &dyn Fn(&Series) -> Vec<(f64, f64)>| -> Vec<Line> {
        section
            .series
            .iter()
            .enumerate()
            .map(|(colour, series)| Line {
                label: series.label.clone(),
                points: points(series),
                colour,
                stroke: Stroke::Solid,
            })
            .collect()
    };
    let milliseconds = "milliseconds";
    vec![
        chart("latency by percentile", milliseconds, true, Horizontal::Percentile, lines(&by_percentile)),
        chart(
            "longest latency of each second, first round",
            milliseconds,
            true,
            Horizontal::Seconds,
            lines(&longest),
        ),
        chart(
            "messages that ended in each second, first round",
            "per second",
            false,
            Horizontal::Seconds,
            lines(&throughput),
        ),
        chart(
            "lateness of the generator by percentile",
            milliseconds,
            true,
            Horizontal::Percentile,
            lines(&lateness),
        ),
    ]
}

fn added(series: &Series) -> Recorder {
    let mut all = Recorder::default();
    for round in &series.rounds {
        all.add(&total(round));
    }
    all
}

/// What a user felt: the receipt, or the acknowledgement where nothing is received.
fn felt(recorder: &Recorder) -> (&'static str, Distribution) {
    if recorder.receipt.count() > 0 {
        ("receipt", recorder.receipt.together())
    } else {
        ("acknowledgement", recorder.acknowledgement.together())
    }
}

fn by_percentile(series: &Series) -> Vec<(f64, f64)> {
    latency_points(&felt(&added(series)).1)
}

fn lateness(series: &Series) -> Vec<(f64, f64)> {
    latency_points(&added(series).lateness)
}

/// What of the first round was felt, second by second.
fn course(series: &Series, value: impl Fn(&LoggedInterval) -> f64) -> Vec<(f64, f64)> {
    let Some(round) = series.rounds.first() else { return Vec::new() };
    let (tag, _) = felt(&total(round));
    let intervals = round.iter().filter(|interval| interval.tag == tag);
    intervals.map(|interval| (interval.begin.as_secs_f64(), value(interval))).collect()
}

fn longest(series: &Series) -> Vec<(f64, f64)> {
    course(series, |interval| interval.distribution.max_ns() as f64 / 1e6)
}

fn throughput(series: &Series) -> Vec<(f64, f64)> {
    course(series, |interval| interval.distribution.count() as f64 / interval.length.as_secs_f64().max(1e-9))
}

fn table(section: &Section) -> String {
    let mut text = String::from("<table><tr><th>milliseconds</th>");
    for quantile in QUANTILES {
        let _ = write!(
            text,
            "<th>{}</th>",
            if quantile < 1.0 { format!("{} %", round(quantile * 100.0)) } else { "max".to_owned() }
        );
    }
    text.push_str("<th>messages</th></tr>\n");
    for series in &section.series {
        let all = added(series);
        for (name, distribution) in all.named() {
            let _ = write!(text, "<tr><td>{}, {name}</td>", escape(&series.label));
            for quantile in QUANTILES {
                let _ = write!(text, "<td>{:.3}</td>", distribution.at_quantile_ns(quantile) as f64 / 1e6);
            }
            let _ = writeln!(text, "<td>{}</td></tr>", distribution.count());
        }
    }
    text.push_str("</table>\n");
    text
}

/// A fact about a run, found in its result.
type Fact = fn(&Value) -> String;

/// What it takes to repeat the runs: one row per fact, one column per series. Rounds that differ are all named.
fn origins(section: &Section) -> String {
    let facts: [(&str, Fact); 13] = [
        ("version, as the system says", |result| shown(&result["system_version"])),
        ("version, as the plan's command says", |result| shown(&result["version_command_output"])),
        ("commit of the system", |result| shown(&result["system_commit"])),
        ("address", |result| shown(&result["address"])),
        ("options of tailrace bench run", |result| {
            let words = result["arguments"].as_array().into_iter().flatten().map(shown);
            words.collect::<Vec<_>>().join(" ")
        }),
        ("trouble", |result| {
            let words = result["trouble"].as_array().into_iter().flatten().map(shown);
            let words = words.collect::<Vec<_>>().join(", ");
            if words.is_empty() { "none".to_owned() } else { words }
        }),
        ("load from", load_from),
        ("connections that broke", breaks),
        ("version of tailrace", |result| shown(&result["tailrace_version"])),
        ("commit of tailrace", |result| shown(&result["tailrace_commit"])),
        ("kernel", |result| shown(&result["machine"]["kernel"])),
        ("processors", |result| {
            let machine = &result["machine"];
            format!("{} x {}", shown(&machine["processors"]), shown(&machine["processor"]))
        }),
        ("memory", |result| {
            let bytes = result["machine"]["memory_bytes"].as_f64();
            bytes.map_or_else(String::new, |bytes| format!("{:.1} GiB", bytes / 1_073_741_824.0))
        }),
    ];
    let mut text = String::from("<h3>To repeat it</h3>\n<table class=\"origin\"><tr><th></th>");
    for series in &section.series {
        let _ = write!(text, "<th>{}</th>", escape(&series.label));
    }
    text.push_str("</tr>\n");
    for (name, fact) in facts {
        let _ = write!(text, "<tr><td>{name}</td>");
        for series in &section.series {
            let mut found: Vec<String> = series
                .results
                .iter()
                .filter_map(|result| Some(fact(&serde_json::from_str(result).ok()?)))
                .map(|fact| if fact.is_empty() { "not known".to_owned() } else { fact })
                .collect();
            found.dedup();
            let _ = write!(text, "<td>{}</td>", escape(&found.join("; ")));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
    text
}

/// Agents, their clocks, and what that means for receipts.
fn load_from(result: &Value) -> String {
    let remote = &result["remote"];
    if remote.is_null() {
        return "this machine".to_owned();
    }
    let agents = remote["agents"].as_array().into_iter().flatten().map(|agent| {
        let connections = agent["connections"].as_array().map_or(0, Vec::len);
        let clock = &agent["clock"];
        let offset = match (clock["offset_ns"].as_f64(), clock["bound_ns"].as_f64()) {
            (Some(offset), Some(bound)) => {
                format!("clock {:+.6} s, within {:.6} s", offset / 1e9, bound / 1e9)
            }
            _ => "clock not known".to_owned(),
        };
        let lost = agent["lost"].as_str().map_or_else(String::new, |reason| format!(", LOST: {reason}"));
        let drift = clock["drift_ppm"].as_f64().unwrap_or(0.0);
        let drift_bound = clock["drift_bound_ppm"].as_f64().unwrap_or(0.0);
        let (address, role) = (shown(&agent["address"]), shown(&agent["role"]));
        format!("{address} ({role}, {connections} connections, {offset}, drift {drift:.3} within {drift_bound:.3} ppm{lost})")
    });
    let meaning = match remote["receipt_bound_ns"].as_f64() {
        Some(bound) => format!("receipts are between two clocks, within {:.6} ms", bound / 1e6),
        None => "each latency is of one clock; offsets do not enter".to_owned(),
    };
    format!("{}; placement {}: {meaning}", agents.collect::<Vec<_>>().join(", "), shown(&remote["placement"]))
}

/// Breaks that are shown; the whole result has more of them.
const BREAKS_SHOWN: usize = 10;

fn breaks(result: &Value) -> String {
    let count = |key: &str| result["counts"][key].as_u64().unwrap_or(0);
    let (broken, back) = (count("broken_connections"), count("reconnected"));
    if broken == 0 {
        return "none".to_owned();
    }
    let seconds = |value: &Value| format!("{:.3} s", value.as_f64().unwrap_or(0.0) / 1e9);
    let found = result["breaks"].as_array().into_iter().flatten().take(BREAKS_SHOWN).map(|found| {
        let back = match &found["back_at_ns"] {
            Value::Null => "not back".to_owned(),
            at => format!("back at {}", seconds(at)),
        };
        let (at, connection, cause) =
            (seconds(&found["at_ns"]), &found["connection"], shown(&found["cause"]));
        format!("at {at}, connection {connection}: {cause}, {back}")
    });
    let mut listed = found.collect::<Vec<_>>().join("; ");
    if broken > BREAKS_SHOWN as u64 {
        let _ = write!(listed, "; and {} times more", broken - BREAKS_SHOWN as u64);
    }
    format!("{broken} times broken, {back} times made again: {listed}")
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn interval(second: u64, tag: &str, latency_ns: u64) -> LoggedInterval {
        let mut distribution = Distribution::default();
        distribution.record_n(latency_ns, 100);
        LoggedInterval {
            tag: tag.to_owned(),
            begin: Duration::from_secs(second),
            length: Duration::from_secs(1),
            distribution,
        }
    }

    #[test]
    fn a_page_shows_every_series() {
        let round = vec![
            interval(0, "receipt", 1_000_000),
            interval(1, "receipt", 9_000_000),
            interval(0, "lateness", 5000),
        ];
        let series = |label: &str| {
            Series {
            label: label.to_owned(),
            rounds: vec![round.clone(), round.clone()],
            results: vec![
                r#"{"system": "<x>", "system_version": "7.0.15", "tailrace_commit": "abc", "machine": {"kernel": "6.1"},
                    "counts": {"broken_connections": 2, "reconnected": 1}, "breaks": [
                    {"at_ns": 3000000000, "connection": 0, "cause": "it <closed>", "back_at_ns": 3105000000},
                    {"at_ns": 9000000000, "connection": 1, "cause": "it left", "back_at_ns": null}]}"#
                    .to_owned(),
                r#"{"system": "<x>", "system_version": "7.2.0", "arguments": ["--rate=1", "--size=2"]}"#.to_owned(),
            ],
            resources: vec![None, None],
        }
        };
        let section = Section {
            title: "1 KB".to_owned(),
            series: vec![series("nats"), series("kafka")],
            plan: Some("rounds < 2".to_owned()),
        };
        let page = html("results", &[section]);
        assert_eq!(page.matches("<svg").count(), 4);
        assert_eq!(page.matches("<polyline").count(), 8);
        // Two rounds of two hundred messages each are added.
        assert!(
            page.contains("<td>400</td>") && page.contains("&lt;x&gt;") && !page.contains("<script"),
            "{page}"
        );
        assert_eq!(page.matches("<details>").count(), 5);
        assert!(page.contains("rounds &lt; 2"));
        assert!(
            page.contains(
                "2 times broken, 1 times made again: at 3.000 s, connection 0: it &lt;closed&gt;, back at 3.105 s; \
                 at 9.000 s, connection 1: it left, not back; none</td>"
            ),
            "{page}"
        );
        // Rounds that differ are all named, and what nobody knows is said to be so.
        assert!(page.contains("<tr><td>version, as the system says</td><td>7.0.15; 7.2.0</td>"), "{page}");
        assert!(
            page.contains("<td>not known; --rate=1 --size=2</td>")
                && page.contains("<td>6.1; not known</td>")
        );
    }
}
