//! What a reader wants to know about a run before its figures: what was measured, how, when, and on which
//! machine.

use serde_json::Value;

use super::axis::grouped;
use super::durability::durability;
use super::figures::{listed, number, shown};
use super::section::{Round, Section, Series};
use crate::engine::Mode;

/// A fact about a run, from its result; empty if there is nothing to say.
type Fact = fn(&Value) -> String;

/// The facts on the first screen, with their names. The time of the run is not among them, since it differs
/// from run to run.
const FACTS: [(&str, Fact); 9] = [
    ("system", |result| shown(&result["system"])),
    ("version", version),
    ("address", |result| shown(&result["address"])),
    ("durability", durability),
    ("load", load),
    ("size", size),
    ("connections", |result| shown(&result["connections"])),
    ("trouble on purpose", |result| listed(&result["trouble"])),
    ("machine", machine),
];

/// Facts that hold for every run of a section, and, for each of its series, those that do not.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) of_all: Vec<(&'static str, String)>,
    /// A single series has all of its facts in `of_all`.
    pub(super) of_each: Vec<Vec<(&'static str, String)>>,
}

pub(super) fn facts(section: &Section) -> Facts {
    let mut found = Facts { of_all: Vec::new(), of_each: vec![Vec::new(); section.series.len()] };
    for (name, fact) in FACTS {
        let texts: Vec<String> = section.series.iter().map(|series| of_series(series, fact)).collect();
        let alike = section.series.len() > 1 && texts.iter().all(|text| *text == texts[0]);
        if alike {
            found.of_all.extend((!texts[0].is_empty()).then(|| (name, texts[0].clone())));
            continue;
        }
        for (place, text) in found.of_each.iter_mut().zip(texts) {
            place.extend((!text.is_empty()).then_some((name, text)));
        }
    }
    found
}

/// A fact about each round of a series. If rounds differ, all values are listed.
pub(super) fn of_series(series: &Series, fact: impl Fn(&Value) -> String) -> String {
    let mut texts: Vec<String> = series.rounds.iter().map(|round| fact(&round.result)).collect();
    texts.dedup();
    texts.join("; ")
}

/// From the start of the first run to the end of the last one, as far as results contain the times.
pub(super) fn when<'a>(rounds: impl Iterator<Item = &'a Round> + Clone) -> Option<String> {
    let times = |key: &'static str| rounds.clone().filter_map(move |round| round.result[key].as_str());
    let (first, last) = (times("started_at").min()?, times("ended_at").max()?);
    let (day, time) = readable(first)?;
    let (last_day, last_time) = readable(last)?;
    Some(if day == last_day {
        format!("{day}, {time} to {last_time} UTC")
    } else {
        format!("{day}, {time} to {last_day}, {last_time} UTC")
    })
}

/// Day and time of an RFC 3339 timestamp, to the second.
pub(super) fn readable(time: &str) -> Option<(&str, &str)> {
    let (day, time) = time.split_once('T')?;
    Some((day, time.split(['.', 'Z']).next()?))
}

fn version(result: &Value) -> String {
    let told = shown(&result["system_version"]);
    let printed = shown(&result["version_command_output"]);
    match (told.is_empty(), printed.is_empty()) {
        (true, true) => "not known".to_owned(),
        (false, true) => told,
        (true, false) => printed,
        (false, false) => format!("{told} ({printed})"),
    }
}

fn load(result: &Value) -> String {
    let Ok(mode) = serde_json::from_value(result["mode"].clone()) else { return String::new() };
    let mode = match mode {
        Mode::OpenLoop => "open loop",
        Mode::ClosedLoop => "CLOSED LOOP (waits for answers: hides stalls)",
        Mode::FullThrottle => "FULL THROTTLE (for throughput: latency is the length of the queue)",
    };
    let schedule = match (result["schedule"].as_str(), result["rate_per_second"].as_f64()) {
        (Some(name), Some(rate)) => format!(", {} messages per second, {name}", number(rate)),
        (Some(name), None) => format!(", {name}"),
        _ => String::new(),
    };
    let seconds = |key: &str| result[key].as_f64().map(|seconds| format!("{seconds:.1} s"));
    let length = match (seconds("measured_seconds"), seconds("warm_up_seconds")) {
        (Some(measured), Some(warm_up)) => format!(", {measured} after {warm_up} of warm-up"),
        _ => String::new(),
    };
    format!("{mode}{schedule}{length}")
}

fn size(result: &Value) -> String {
    result["payload_bytes"].as_u64().map_or_else(String::new, |bytes| format!("{} B", grouped(bytes)))
}

fn machine(result: &Value) -> String {
    let machine = &result["machine"];
    let memory = machine["memory_bytes"].as_f64().map(|bytes| format!("{:.1} GiB", bytes / 1_073_741_824.0));
    let processors = machine["processors"].as_u64().map(|count| {
        let model = shown(&machine["processor"]);
        format!("{count} {}", if model.is_empty() { "processors".to_owned() } else { format!("x {model}") })
    });
    let kernel = machine["kernel"].as_str().map(|kernel| format!("Linux {kernel}"));
    let agents =
        result["remote"]["agents"].as_array().map(|agents| format!("load from {} agents", agents.len()));
    processors.into_iter().chain(memory).chain(kernel).chain(agents).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::section_tests::round;

    fn series(label: &str, address: &str, started: &str) -> Series {
        let result = json!({
            "system": "nats", "address": address, "mode": "open-loop", "schedule": "constant", "rate_per_second": 3000.0,
            "measured_seconds": 30.0, "warm_up_seconds": 2.0, "payload_bytes": 1024, "connections": 4,
            "started_at": started, "ended_at": "2026-11-24T23:59:59.000Z", "system_version": "2.15.2",
            "machine": {"processors": 2, "processor": "Fast", "memory_bytes": 1u64 << 33, "kernel": "6.1"},
        });
        Series { label: label.to_owned(), rounds: vec![round(&result, Vec::new())] }
    }

    fn text(facts: &[(&str, String)]) -> String {
        facts.iter().map(|(name, fact)| format!("{name}={fact}|")).collect()
    }

    #[test]
    fn what_is_common_is_said_once() {
        let two = vec![
            series("a", "h:1", "2026-11-24T23:00:00.250Z"),
            series("b", "h:2", "2026-11-23T01:00:00.000Z"),
        ];
        let section = Section { series: two, ..Section::default() };
        let found = facts(&section);
        assert_eq!(
            text(&found.of_all),
            "system=nats|version=2.15.2|durability=core NATS keeps no messages|\
             load=open loop, 3,000 messages per second, constant, 30.0 s after 2.0 s of warm-up|size=1,024 B|connections=4|\
             machine=2 x Fast, 8.0 GiB, Linux 6.1|"
        );
        assert_eq!(
            (text(&found.of_each[0]), text(&found.of_each[1])),
            ("address=h:1|".to_owned(), "address=h:2|".to_owned())
        );
        let rounds = section.series.iter().flat_map(|series| &series.rounds);
        assert_eq!(when(rounds.clone()).as_deref(), Some("2026-11-23, 01:00:00 to 2026-11-24, 23:59:59 UTC"));
        assert_eq!(when(rounds.take(1)).as_deref(), Some("2026-11-24, 23:00:00 to 23:59:59 UTC"));
        // Results of older versions do not contain it.
        let old = round(&json!({}), Vec::new());
        assert_eq!(when([&old].into_iter()), None);
    }

    #[test]
    fn a_series_alone_has_its_facts() {
        let found = facts(&Section { series: vec![series("a", "h:1", "x")], ..Section::default() });
        assert_eq!((found.of_all.len(), found.of_each[0].len()), (0, 8));
    }

    #[test]
    fn loads_that_wait_say_so() {
        let closed = json!({"mode": "closed-loop", "schedule": "constant", "rate_per_second": 0.5});
        assert_eq!(
            load(&closed),
            "CLOSED LOOP (waits for answers: hides stalls), 0.5 messages per second, constant"
        );
        assert!(load(&json!({"mode": "full-throttle"})).starts_with("FULL THROTTLE (for throughput"));
        assert_eq!((load(&json!({})), version(&json!({}))), (String::new(), "not known".to_owned()));
    }
}
