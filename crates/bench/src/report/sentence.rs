//! A run in one sentence, for readers who read no more.

use super::Told;
use super::axis::grouped;
use super::figures::{number, percent, time};
use super::section::{Kind, Series};
use crate::engine::Mode;
use crate::recorder::Distribution;
use crate::verdict::VerdictKind;

/// Percentiles for the main part of the sentence; the better known ones come last.
const MAIN: [f64; 3] = [0.99, 0.9, 0.5];
/// Percentiles for the slowest messages, the most distant one first.
const TAIL: [f64; 4] = [0.999_999, 0.99999, 0.9999, 0.999];

/// The result. No figure is given for runs that are not to be trusted.
pub(super) fn sentence(series: &Series) -> String {
    match series.kind() {
        VerdictKind::Invalid | VerdictKind::NothingMeasured => {
            return format!("No result: what was measured says nothing about {}.", series.label);
        }
        VerdictKind::Valid | VerdictKind::Doubtful | VerdictKind::Interrupted => {}
    }
    let Some(kind) = series.felt() else { return "No message ended: there are no latencies.".to_owned() };
    let all = kind.outcomes(&series.added()).together();
    let text = match series.mode() {
        Mode::OpenLoop => open_loop(series, kind, &all),
        Mode::ClosedLoop => closed_loop(series, kind, &all),
        Mode::FullThrottle => full_throttle(series, kind),
    };
    text + &missing(series)
}

fn open_loop(series: &Series, kind: Kind, all: &Distribution) -> String {
    let until = format!("for the {}", series.word(kind));
    let (doubtful, described) = (series.doubtful(kind), series.described(kind.name(), all));
    let told = |quantile: &f64| match described.told(*quantile) {
        Told::Is(ns) if !doubtful.contains(quantile) => Some((*quantile, time(ns))),
        _ => None,
    };
    let longest = time(all.max_ns());
    let Some((main, within)) = MAIN.iter().find_map(told) else {
        let messages = grouped(all.count());
        return format!(
            "Of {messages} messages the slowest waited {longest} {until}; no percentile can be told."
        );
    };
    let main = format!("{} of users waited at most {within} {until}", percent(main));
    match TAIL.iter().find_map(told) {
        Some((tail, from)) => {
            format!(
                "{main}; the slowest {} {from} or longer, the slowest of all {longest}.",
                percent(1.0 - tail)
            )
        }
        None => format!("{main}; the slowest of all {longest}."),
    }
}

fn closed_loop(series: &Series, kind: Kind, all: &Distribution) -> String {
    let described = series.described(kind.name(), all);
    let told = |quantile: &f64| match described.told(*quantile) {
        Told::Is(ns) => Some((*quantile, ns)),
        _ => None,
    };
    let Some((main, within)) = MAIN.iter().find_map(told) else {
        return format!("{} messages tell no percentile.", grouped(all.count()));
    };
    let (share, word) = (percent(main), series.word(kind));
    let raw = format!("{share} of what was asked had its {word} within {}", time(within));
    let hidden = "but a closed loop asks nothing while it waits, and so hides stalls";
    match series.corrected(kind) {
        Some(corrected) => {
            format!("{raw}, {hidden}: corrected by a guess it is {}.", time(corrected.at_quantile_ns(main)))
        }
        None => format!("{raw}, {hidden}."),
    }
}

fn full_throttle(series: &Series, kind: Kind) -> String {
    let (key, what) = match kind {
        Kind::Receipt if series.word(kind) == "reply" => ("received_per_second", "answered"),
        Kind::Receipt => ("received_per_second", "received"),
        Kind::Acknowledgement => ("acknowledged_per_second", "acknowledged"),
    };
    let rates: Vec<f64> = series.rounds.iter().filter_map(|round| round.result[key].as_f64()).collect();
    let (least, greatest) =
        (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max));
    let rate = match rates.as_slice() {
        [] => "An unknown number of".to_owned(),
        [only] => number(*only),
        _ => format!("{} to {}", number(least), number(greatest)),
    };
    format!(
        "{rate} messages per second were {what}, as fast as it went; latency is then the length of the queue."
    )
}

/// What went wrong with messages, in a separate sentence.
fn missing(series: &Series) -> String {
    let sum = |name: &str| series.rounds.iter().map(|round| round.count(name)).sum::<u64>();
    let found: Vec<String> = [
        ("lost", "lost"),
        ("cut_off", "cut off by broken connections"),
        ("unsent", "never sent"),
        ("corrupt", "damaged"),
    ]
    .into_iter()
    .map(|(name, what)| (sum(name), what))
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{} {what}", grouped(count)))
    .collect();
    if found.is_empty() {
        return String::new();
    }
    format!(" Of {} messages {}.", grouped(sum("due")), found.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::recorder::interval_log::LoggedInterval;
    use crate::report::section_tests::{interval, round};

    const MS: u64 = 1_000_000;

    fn say(result: &Value, intervals: Vec<LoggedInterval>) -> String {
        sentence(&Series { label: "x".to_owned(), rounds: vec![round(result, intervals)] })
    }

    fn many() -> Vec<LoggedInterval> {
        vec![
            interval(0, "receipt", 3 * MS, 99_900),
            interval(1, "receipt", 40 * MS, 99),
            interval(2, "receipt", 60 * MS, 1),
        ]
    }

    #[test]
    fn the_slowest_are_not_left_out() {
        let open = json!({"valid": true, "mode": "open-loop"});
        assert_eq!(
            say(&open, many()),
            "99 % of users waited at most 3.00 ms for the receipt; the slowest 0.01 % 40.0 ms or longer, the slowest of all 60.0 ms."
        );
        let few = vec![interval(0, "acknowledgement", 3 * MS, 40)];
        assert_eq!(
            say(&open, few),
            "90 % of users waited at most 3.00 ms for the acknowledgement; the slowest of all 3.00 ms."
        );
        let one = vec![interval(0, "acknowledgement", 3 * MS, 1)];
        assert!(
            say(&open, one)
                .ends_with("the slowest waited 3.00 ms for the acknowledgement; no percentile can be told.")
        );
        assert_eq!(say(&open, Vec::new()), "No message ended: there are no latencies.");
    }

    #[test]
    fn what_may_not_be_believed_has_no_figures() {
        let text = say(&json!({"valid": false, "mode": "open-loop"}), many());
        assert_eq!(text, "No result: what was measured says nothing about x.");
        // The sentence stops before percentiles where the generator was late.
        let doubtful =
            json!({"valid": true, "mode": "open-loop", "verdict": {"doubtful_quantiles": [0.9999, 1.0]}});
        assert!(say(&doubtful, many()).contains("the slowest 0.1 % "), "{}", say(&doubtful, many()));
    }

    #[test]
    fn sentences_fit_the_load() {
        let closed = json!({"valid": true, "mode": "closed-loop", "connections": 1, "rate_per_second": 100.0, "receipt_is_reply": true});
        let stall = vec![interval(0, "receipt", MS, 999), interval(1, "receipt", 10_000 * MS, 1)];
        let text = say(&closed, stall);
        assert!(
            text.starts_with(
                "99 % of what was asked had its reply within 1.00 ms, but a closed loop asks nothing"
            ),
            "{text}"
        );
        assert!(text.contains("corrected by a guess it is 9.8") && !text.contains("due"), "{text}");
        let full = json!({"valid": true, "mode": "full-throttle", "connections": 1, "received_per_second": 43_210.4});
        assert!(
            say(&full, many()).starts_with("43,210 messages per second were received, as fast as it went")
        );
    }

    #[test]
    fn losses_are_told() {
        let lossy =
            json!({"valid": true, "mode": "open-loop", "counts": {"due": 2400, "lost": 32, "cut_off": 0}});
        assert!(say(&lossy, many()).ends_with(" Of 2,400 messages 32 lost."));
    }
}
