//! A report as one self-contained HTML page: what was measured and whether to trust it, charts, tables, and
//! all data of each run.
//!
//! Rounds of the same run are one line: their histograms are added, never averaged. The page contains no
//! script.

use std::fmt::Write as _;

use super::chart::Chart;
use super::charts::{of_messages, of_resources};
use super::escape;
use super::facts::{facts, of_series, when};
use super::figures::shown;
use super::page::{badge, class, figure, page, scrolled};
use super::section::{Round, Section, Series};
use super::sentence::sentence;
use super::{difference, percentile_table, run_table, to_repeat};
use crate::verdict::VerdictKind;

/// Reasons to list at the top of the page. Each run lists its own further down.
const REASONS_SHOWN: usize = 4;

/// The whole page.
pub(crate) fn html(sections: &[Section]) -> String {
    let title = title(sections);
    let mut body = format!("<header><h1>{}</h1>\n{}</header>\n", escape(&title), verdict(sections));
    for section in sections {
        body.push_str(&one(section));
    }
    page(&title, &body)
}

/// The systems, and the names of the series if they say more.
fn title(sections: &[Section]) -> String {
    let all = || sections.iter().flat_map(|section| &section.series);
    let names = |name: &dyn Fn(&Series) -> String| {
        let mut names: Vec<String> = Vec::new();
        for name in all().map(name) {
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let systems = names(&|series| of_series(series, |result| shown(&result["system"])));
    let labels = names(&|series| series.label.clone());
    match (systems.as_slice(), labels.len()) {
        (_, 6..) => format!("Latency of {} systems", labels.len()),
        ([only], _) if *systems != *labels => format!("Latency of {only}: {}", labels.join(", ")),
        _ => format!("Latency of {}", labels.join(", ")),
    }
}

/// The overall verdict at the top.
fn verdict(sections: &[Section]) -> String {
    let rounds: Vec<(&Series, &Round)> = sections
        .iter()
        .flat_map(|section| &section.series)
        .flat_map(|series| series.rounds.iter().map(move |round| (series, round)))
        .collect();
    let kinds = || rounds.iter().map(|(_, round)| round.verdict().kind());
    let worst = kinds().max().unwrap_or_default();
    let such = kinds().filter(|kind| *kind == worst).count();
    let words = match (rounds.len(), worst) {
        (1, _) => rounds[0].1.verdict().headline(),
        (all, VerdictKind::Valid) => format!("valid: all {all} runs"),
        (all, _) => format!("{}: {such} of {all} runs", worst.word()),
    };
    let told = match rounds.as_slice() {
        [(_, only)] => reasons(only),
        all => first_reasons(all.iter().filter(|(_, round)| round.verdict().kind() == worst)),
    };
    let mut list: String =
        told.iter().take(REASONS_SHOWN).map(|text| format!("<li>{}</li>", escape(text))).collect();
    if let Some(more) = told.len().checked_sub(REASONS_SHOWN).filter(|more| *more > 0) {
        let _ = write!(list, "<li>and {more} more, further down</li>");
    }
    let list = if list.is_empty() { list } else { format!("<ul>{list}</ul>") };
    format!("<div class=\"verdict {}\">{}{list}</div>\n", class(worst), escape(&words))
}

/// All reasons of a run that has several: its headline has the first one.
fn reasons(only: &Round) -> Vec<String> {
    let reasons = only.verdict().reasons();
    if reasons.len() < 2 { Vec::new() } else { reasons }
}

/// The most important reason of each run. The others are listed with the runs.
fn first_reasons<'a>(rounds: impl Iterator<Item = &'a (&'a Series, &'a Round)>) -> Vec<String> {
    let told = rounds.filter_map(|(series, round)| {
        let reasons = round.verdict().reasons();
        let more = match reasons.len() {
            0 | 1 => String::new(),
            more => format!(" (and {} more)", more - 1),
        };
        Some(format!("{}, {}: {}{more}", series.label, round.name, reasons.first()?))
    });
    told.collect()
}

fn one(section: &Section) -> String {
    let mut text = String::from("<section>\n");
    let kind = section.series.iter().map(Series::kind).max().unwrap_or_default();
    let _ = writeln!(text, "<h2>{} {}</h2>", escape(&section.title), badge(kind, kind.word()));
    text.push_str(&measured(section));
    text.push_str(&difference::table(section));
    of_messages(section).iter().for_each(|chart| text.push_str(&figure(chart, Chart::WIDE)));
    text.push_str("<h3>Percentiles</h3>\n");
    text.push_str(&percentile_table::percentiles(section));
    text.push_str("<h3>Runs</h3>\n");
    text.push_str(&run_table::runs(section));
    text.push_str(&used(section));
    text.push_str("<h3>To repeat it</h3>\n");
    text.push_str(&scrolled(&to_repeat::table(section)));
    if let Some(plan) = &section.plan {
        let _ = writeln!(text, "<details><summary>The plan</summary><pre>{}</pre></details>", escape(plan));
    }
    for series in &section.series {
        series.rounds.iter().for_each(|round| text.push_str(&everything(series, round)));
    }
    text + "</section>\n"
}

/// What was measured and the results, for a reader who does not scroll.
fn measured(section: &Section) -> String {
    let facts = facts(section);
    let mut of_all = facts.of_all;
    let rounds = section.series.iter().flat_map(|series| &series.rounds);
    of_all.insert(
        0,
        ("measured", when(rounds).unwrap_or_else(|| "at a time that was not recorded".to_owned())),
    );
    let mut text = list(&of_all);
    text.push_str("<div class=\"cards\">\n");
    for (series, facts) in section.series.iter().zip(&facts.of_each) {
        let rounds = if series.rounds.len() == 1 {
            String::new()
        } else {
            format!(", {} rounds", series.rounds.len())
        };
        let _ = writeln!(
            text,
            "<article class=\"card\"><h3>{}{rounds} {}</h3>\n<p class=\"result\">{}</p>\n{}</article>",
            escape(&series.label),
            badge(series.kind(), &series.verdict()),
            escape(&sentence(series)),
            list(facts)
        );
    }
    text + "</div>\n"
}

fn list(facts: &[(&str, String)]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let items: String =
        facts.iter().map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>", escape(fact))).collect();
    format!("<dl>{items}</dl>\n")
}

/// Resources used by server and generator.
fn used(section: &Section) -> String {
    let (charts, zero) = of_resources(section);
    if charts.is_empty() && zero.is_empty() {
        return String::new();
    }
    let mut text = String::from("<h3>What server and generator used</h3>\n<div class=\"pairs\">\n");
    charts.iter().for_each(|chart| text.push_str(&figure(chart, Chart::HALF)));
    text.push_str("</div>\n");
    if !zero.is_empty() {
        let _ = writeln!(
            text,
            "<p class=\"remark\">Nothing to draw, all of it 0: {}.</p>",
            escape(&zero.join("; "))
        );
    }
    text
}

/// A run's verdict, and its result as in its file.
fn everything(series: &Series, round: &Round) -> String {
    let verdict = round.verdict();
    let (label, name) = (escape(&series.label), escape(&round.name));
    let name = if series.label == round.name { label } else { format!("{label}, {name}") };
    format!(
        "<details><summary>{name} {}: everything about this run</summary><pre>{}</pre></details>\n",
        badge(verdict.kind(), &verdict.headline()),
        escape(&round.text)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::section_tests::{interval, round};

    fn series(label: &str, results: &[Value]) -> Series {
        let intervals = vec![
            interval(0, "receipt", 1_000_000, 100),
            interval(1, "receipt", 9_000_000, 100),
            interval(0, "lateness", 5000, 100),
        ];
        let rounds = results.iter().enumerate().map(|(number, result)| Round {
            name: format!("round-{}", number + 1),
            ..round(result, intervals.clone())
        });
        Series { label: label.to_owned(), rounds: rounds.collect() }
    }

    #[test]
    fn a_page_shows_every_series() {
        let results = [
            json!({"system": "<x>", "valid": true, "system_version": "7.0.15"}),
            json!({"system": "<x>", "valid": true, "system_version": "7.2.0"}),
        ];
        let section = Section {
            title: "1 KB".to_owned(),
            series: vec![series("nats", &results), series("kafka", &results)],
            plan: Some("rounds < 2".to_owned()),
            ..Section::default()
        };
        let page = html(&[section]);
        // Four charts, each for two widths.
        assert_eq!(page.matches("<svg").count(), 8);
        assert!(
            page.contains("<h1>Latency of &lt;x&gt;: nats, kafka</h1>") && !page.contains("<script"),
            "{page}"
        );
        assert!(page.contains("<div class=\"verdict valid\">valid: all 4 runs</div>"), "{page}");
        assert!(page.contains("<h2>1 KB <span class=\"badge valid\">valid</span></h2>"), "{page}");
        // Two rounds of two hundred messages each are added.
        assert!(page.contains("<td>400</td>") && page.contains("&lt;x&gt;"), "{page}");
        assert_eq!(page.matches("<details>").count(), 5);
        assert!(
            page.contains("rounds &lt; 2") && page.contains("<dt>version</dt><dd>7.0.15; 7.2.0</dd>"),
            "{page}"
        );
        assert!(page.contains("at a time that was not recorded"));
    }

    #[test]
    fn the_first_screen_answers() {
        let result = json!({
            "system": "nats", "valid": true, "mode": "open-loop", "schedule": "constant", "rate_per_second": 3000.0, "payload_bytes": 256,
            "connections": 4, "address": "h:4222", "system_version": "2.15.2", "started_at": "2026-11-24T09:08:07.250Z",
            "ended_at": "2026-11-24T09:08:37.250Z", "measured_seconds": 30.0, "warm_up_seconds": 2.0,
            "machine": {"processors": 2, "processor": "Fast", "memory_bytes": 1u64 << 33, "kernel": "6.1"},
        });
        let page = html(&[Section {
            title: "w".to_owned(),
            series: vec![series("nats", &[result])],
            ..Section::default()
        }]);
        let first = &page[page.find("<h1>").unwrap()..page.find("<figure>").unwrap()];
        for words in [
            "<h1>Latency of nats</h1>",
            "<div class=\"verdict valid\">valid</div>",
            "2026-11-24, 09:08:07 to 09:08:37 UTC",
            "<dt>version</dt><dd>2.15.2</dd>",
            "<dt>address</dt><dd>h:4222</dd>",
            "<dt>durability</dt><dd>core NATS keeps no messages</dd>",
            "3,000 messages per second",
            "<dt>size</dt><dd>256 B</dd>",
            "<dt>connections</dt><dd>4</dd>",
            "2 x Fast, 8.0 GiB, Linux 6.1",
            "90 % of users waited at most 9.00 ms for the receipt",
        ] {
            assert!(first.contains(words), "{words}: {first}");
        }
    }

    #[test]
    fn a_verdict_cannot_be_overlooked() {
        let late = json!({"system": "x", "valid": false, "verdict": {"invalid": ["it was <late>"]}});
        let results = [json!({"system": "x", "valid": true}), late];
        let page = html(&[Section {
            title: "w".to_owned(),
            series: vec![series("x", &results)],
            ..Section::default()
        }]);
        for words in [
            "<div class=\"verdict invalid\">INVALID: 1 of 2 runs<ul><li>x, round-2: it was &lt;late&gt;</li></ul></div>",
            "<h2>w <span class=\"badge invalid\">INVALID</span></h2>",
            "<h3>x, 2 rounds <span class=\"badge invalid\">INVALID: 1 of 2 rounds</span></h3>",
            "No result: what was measured says nothing about x.",
            "x: receipt (INVALID)",
            "x, round-2 <span class=\"badge invalid\">INVALID: it was &lt;late&gt;</span>: everything about this run",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(page.matches(">INVALID</text>").count() >= 8, "in each picture of each width");
        // One reason per run, not all reasons of the first run.
        let late =
            json!({"system": "x", "valid": false, "verdict": {"invalid": ["late at p90", "late at p99"]}});
        let results = vec![late; 6];
        let page = html(&[Section { series: vec![series("x", &results)], ..Section::default() }]);
        assert!(
            page.contains(
                "<ul><li>x, round-1: late at p90 (and 1 more)</li><li>x, round-2: late at p90 (and 1 more)</li>"
            ) && page.contains("<li>and 2 more, further down</li></ul>"),
            "{page}"
        );
        let stopped = json!({"system": "x", "valid": true, "interrupted": true});
        let page = html(&[Section {
            title: "w".to_owned(),
            series: vec![series("x", &[stopped])],
            ..Section::default()
        }]);
        assert!(
            page.contains("<div class=\"verdict invalid\">INTERRUPTED: it was stopped before its end</div>"),
            "{page}"
        );
    }
}
