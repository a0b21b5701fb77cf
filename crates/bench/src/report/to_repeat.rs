//! What is needed to repeat the runs: one row per fact, one column per series. If rounds differ, all values
//! are listed.

use std::fmt::Write as _;

use serde_json::Value;

use super::escape;
use super::facts::of_series;
use super::figures::{listed, shown};
use super::section::Section;

/// A fact about a run, from its result.
type Fact = fn(&Value) -> String;

const FACTS: [(&str, Fact); 18] = [
    ("began", |result| shown(&result["started_at"])),
    ("ended", |result| shown(&result["ended_at"])),
    ("version, as the system says", |result| shown(&result["system_version"])),
    ("version, as the plan's command says", |result| shown(&result["version_command_output"])),
    ("commit of the system", |result| shown(&result["system_commit"])),
    ("address", |result| shown(&result["address"])),
    ("settings", settings),
    ("options of tailrace bench run", |result| {
        let words = result["arguments"].as_array().into_iter().flatten().map(shown);
        words.collect::<Vec<_>>().join(" ")
    }),
    ("trouble", |result| or_none(listed(&result["trouble"]))),
    ("trouble that was not made", |result| or_none(listed(&result["trouble_not_made"]))),
    ("earlier attempts", |result| or_none(listed(&result["earlier_attempts"]))),
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

pub(super) fn table(section: &Section) -> String {
    let mut text = String::from("<table class=\"origin\"><tr><th></th>");
    for series in &section.series {
        let _ = write!(text, "<th>{}</th>", escape(&series.label));
    }
    text.push_str("</tr>\n");
    for (name, fact) in FACTS {
        let _ = write!(text, "<tr><td>{name}</td>");
        for series in &section.series {
            let known = |result: &Value| {
                let text = fact(result);
                if text.is_empty() { "not known".to_owned() } else { text }
            };
            let _ = write!(text, "<td>{}</td>", escape(&of_series(series, known)));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
    text
}

fn or_none(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}

fn settings(result: &Value) -> String {
    let set = result["settings"].as_object().into_iter().flatten();
    or_none(set.map(|(key, value)| format!("{key}={}", shown(value))).collect::<Vec<_>>().join(", "))
}

/// Agents, their clocks, and what those mean for receipts.
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
    let meaning = match (&remote["offsets_in_latencies"], remote["receipt_bound_ns"].as_f64()) {
        (_, Some(bound)) => format!("receipts are between two clocks, within {:.6} ms", bound / 1e6),
        (Value::Bool(true), None) => {
            "receipts are between two clocks, and their offset is not known".to_owned()
        }
        _ => "each latency is of one clock; offsets do not enter".to_owned(),
    };
    format!("{}; placement {}: {meaning}", agents.collect::<Vec<_>>().join(", "), shown(&remote["placement"]))
}

/// Breaks to show. The full result lists more.
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
    format!("{broken} times broken, {back} times reconnected: {listed}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::Series;
    use crate::report::section_tests::round;

    #[test]
    fn rounds_that_differ_are_all_named() {
        let first = json!({
            "system_version": "7.0.15", "machine": {"kernel": "6.1"}, "settings": {"qos": "0"},
            "counts": {"broken_connections": 2, "reconnected": 1}, "trouble_not_made": ["no <module>"], "breaks": [
                {"at_ns": 3_000_000_000_u64, "connection": 0, "cause": "it <closed>", "back_at_ns": 3_105_000_000_u64},
                {"at_ns": 9_000_000_000_u64, "connection": 1, "cause": "it left", "back_at_ns": null},
            ],
        });
        let second = json!({"system_version": "7.2.0", "arguments": ["--rate=1", "--size=2"]});
        let rounds = [first, second].iter().map(|result| round(result, Vec::new())).collect();
        let section =
            Section { series: vec![Series { label: "a<b".to_owned(), rounds }], ..Section::default() };
        let text = table(&section);
        for words in [
            "<th>a&lt;b</th>",
            "2 times broken, 1 times reconnected: at 3.000 s, connection 0: it &lt;closed&gt;, back at 3.105 s; \
             at 9.000 s, connection 1: it left, not back; none</td>",
            "<tr><td>version, as the system says</td><td>7.0.15; 7.2.0</td>",
            "<td>not known; --rate=1 --size=2</td>",
            "<td>6.1; not known</td>",
            "<td>settings</td><td>qos=0; none</td>",
            "<td>trouble that was not made</td><td>no &lt;module&gt;; none</td>",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn clocks_that_nobody_knows_are_not_one_clock() {
        let remote = |offsets: bool, bound: Option<f64>| json!({"remote": {"placement": "apart", "agents": [], "offsets_in_latencies": offsets, "receipt_bound_ns": bound}});
        assert!(
            load_from(&remote(true, Some(2e5)))
                .ends_with("receipts are between two clocks, within 0.200000 ms")
        );
        assert!(load_from(&remote(true, None)).ends_with("and their offset is not known"));
        assert!(
            load_from(&remote(false, None)).ends_with("each latency is of one clock; offsets do not enter")
        );
    }
}
