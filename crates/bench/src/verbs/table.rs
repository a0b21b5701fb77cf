//! A result as text.

use tailrace_cli::text::table::Table;
use tailrace_cli::text::units;

use crate::engine::{Break, Mode, QUANTILES};
use crate::remote::RemoteReport;
use crate::report::{Described, Summary, Told, Untold, milliseconds};
use crate::systems::Role;
use crate::verdict::percentile;

/// The whole result.
pub(super) fn render(summary: &Summary) -> String {
    let mut text = headline(summary);
    let counts = &summary.counts;
    text.push_str(&format!(
        "messages: {} due, {} sent, {} acknowledged, {} received\nper second: {} sent, {} acknowledged, {} received\n",
        counts.due,
        counts.sent,
        counts.acknowledged,
        counts.received,
        units::count(summary.sent_per_second),
        units::count(summary.acknowledged_per_second),
        units::count(summary.received_per_second),
    ));
    text.push_str(&troubles(summary));
    text.push_str(&breaks(summary));
    text.push_str(&summary.remote.as_ref().map(agents).unwrap_or_default());
    text.push('\n');
    text.push_str(&latencies(summary));
    text.push('\n');
    text.push_str(&verdict(summary));
    text
}

fn headline(summary: &Summary) -> String {
    let mode = match summary.mode {
        Mode::OpenLoop => "open loop",
        Mode::ClosedLoop => "CLOSED LOOP (waits for answers: hides stalls)",
        Mode::FullThrottle => "FULL THROTTLE (for throughput: latency is the length of the queue)",
    };
    let place = summary.address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
    let schedule = match (summary.schedule, summary.rate_per_second) {
        (Some(name), Some(rate)) => format!(", {name} {rate}/s"),
        (Some(name), None) => format!(", {name}"),
        _ => String::new(),
    };
    let connections = if summary.connections == 1 { "connection" } else { "connections" };
    format!(
        "{}{place}: {mode}{schedule}, {} B, {} {connections}, {:.1} s after {:.1} s of warm-up\n",
        summary.system,
        summary.payload_bytes,
        summary.connections,
        summary.measured_seconds,
        summary.warm_up_seconds,
    )
}

/// What went wrong, if anything did.
fn troubles(summary: &Summary) -> String {
    let counts = &summary.counts;
    let found: Vec<String> = [
        (counts.unsent, "never sent"),
        (counts.lost, "lost"),
        (counts.duplicates, "duplicates"),
        (counts.reordered, "reordered"),
        (counts.corrupt, "corrupt"),
        (counts.foreign, "from other runs"),
        (counts.unknown, "unknown"),
        (counts.cut_off, "cut off by broken connections"),
        (counts.negative, "received before they were due, by the clocks, counted as 0"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    let mut text = if found.is_empty() { String::new() } else { format!("wrong: {}\n", found.join(", ")) };
    for reason in summary.refusals.iter().take(3).chain(summary.failures.iter().take(3)) {
        text.push_str(&format!("reason: {reason}\n"));
    }
    text
}

/// Where the load came from, and the error bounds of the clocks there.
fn agents(remote: &RemoteReport) -> String {
    let mut text = String::new();
    for agent in &remote.agents {
        let role = match agent.role {
            Role::Both => "",
            Role::Publisher => ", publishers",
            Role::Subscriber => ", subscribers",
        };
        text.push_str(&format!("agent {}: {} connections{role}", agent.address, agent.connections.len()));
        if let Some(clock) = &agent.clock {
            text.push_str(&format!(
                "; clock {:+.3} ms ± {:.3} ms, drift {:+.1} ± {:.1} ppm",
                clock.offset_ns as f64 / 1e6,
                clock.bound_ns as f64 / 1e6,
                clock.drift_ppm,
                clock.drift_bound_ppm,
            ));
            if clock.steps > 0 {
                text.push_str(&format!(", which jumped {} times", clock.steps));
            }
        }
        text.push_str(if agent.lost.is_some() { "; LOST\n" } else { "\n" });
    }
    match remote.receipt_bound_ns {
        Some(bound) => text.push_str(&format!(
            "receipt: from the clock of one agent to that of another, ± {} ms\n",
            milliseconds(bound)
        )),
        None if remote.offsets_in_latencies => text.push_str("receipt: the clocks' offset is not known\n"),
        None => text.push_str("one clock for each latency: offsets between clocks do not enter\n"),
    }
    text
}

/// Most breaks to list here.
const BREAKS_SHOWN: usize = 5;

/// Which connections broke, and when they were up again.
fn breaks(summary: &Summary) -> String {
    let counts = &summary.counts;
    if counts.broken_connections == 0 {
        return String::new();
    }
    let later = match counts.redelivered {
        0 => String::new(),
        messages => format!("; {messages} messages in flight at a break were delivered afterwards"),
    };
    let (broke, back) = (counts.broken_connections, counts.reconnected);
    let mut text = format!("connections: {broke} times broken, {back} times reconnected{later}\n");
    for found in summary.breaks.iter().take(BREAKS_SHOWN) {
        text.push_str(&format!("  {}\n", broken(found)));
    }
    if let Some(more) = broke.checked_sub(BREAKS_SHOWN as u64).filter(|more| *more > 0) {
        text.push_str(&format!("  and {more} times more\n"));
    }
    text
}

fn broken(found: &Break) -> String {
    let seconds = |ns: u64| format!("{:.3} s", ns as f64 / 1e9);
    let back =
        found.back_at_ns.map_or_else(|| "not back".to_owned(), |at| format!("back at {}", seconds(at)));
    format!("at {}, connection {}: {}; {back}", seconds(found.at_ns), found.connection, found.cause)
}

fn latencies(summary: &Summary) -> String {
    let names = QUANTILES.map(percentile);
    let mut head = vec!["MILLISECONDS"];
    head.extend(names.iter().map(String::as_str));
    head.push("COUNT");
    let mut table = Table::new(0, &head);
    for (name, described) in &summary.latency {
        table.row(row(shown(summary, name), described));
        if !described.intervals_ns.is_empty() {
            table.row(intervals(described));
        }
    }
    for (name, described) in &summary.corrected {
        table.row(row(&format!("{}, corrected", shown(summary, name)), described));
    }
    let mut text = table.render();
    text.push_str(&legend(summary));
    text
}

/// Explanations of the signs that appear in the table.
fn legend(summary: &Summary) -> String {
    let all = || summary.latency.values().chain(summary.corrected.values());
    let mut text = String::new();
    if all().any(|described| !described.intervals_ns.is_empty()) {
        text.push_str("95 %: an interval that contains the true percentile with 95 % confidence, as far as the number of messages tells it\n");
    }
    let too_few = all().flat_map(|described| &described.untold).filter_map(|(name, untold)| match untold {
        Untold::TooFew { needed } => Some((*needed, name.parse().unwrap_or_default())),
        _ => None,
    });
    let mut too_few: Vec<(u64, f64)> = too_few.collect();
    too_few.sort_by_key(|(needed, _)| *needed);
    too_few.dedup_by_key(|(needed, _)| *needed);
    if !too_few.is_empty() {
        let takes =
            too_few.iter().map(|(needed, quantile)| format!("{} takes {needed}", percentile(*quantile)));
        text.push_str(&format!("-: too few messages to tell; {}\n", takes.collect::<Vec<_>>().join(", ")));
    }
    if all().any(|described| {
        QUANTILES.iter().any(|quantile| matches!(described.told(*quantile), Told::LessThan(_)))
    }) {
        text.push_str(
            "<: smaller than the possible error of the clocks; it is known only that the value is below this\n",
        );
    }
    text
}

/// If the system answers requests, a payload that comes back is a reply.
fn shown<'a>(summary: &Summary, name: &'a str) -> &'a str {
    if name == "receipt" && summary.receipt_is_reply { "reply" } else { name }
}

fn row(name: &str, described: &Described) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    cells.extend(QUANTILES.map(|quantile| described.told(quantile).text(milliseconds)));
    cells.push(described.count.to_string());
    cells
}

/// The confidence intervals below a row.
fn intervals(described: &Described) -> Vec<String> {
    let interval = |quantile| {
        let found = described.interval_ns(quantile);
        found.map_or_else(String::new, |(low, high)| format!("{}..{}", milliseconds(low), milliseconds(high)))
    };
    let mut cells = vec!["  95 %".to_owned()];
    cells.extend(QUANTILES.map(interval));
    cells
}

fn verdict(summary: &Summary) -> String {
    let verdict = &summary.verdict;
    let mut text = String::new();
    for (number, line) in verdict.lines().iter().enumerate() {
        text.push_str(if number == 0 { "" } else { "  " });
        text.push_str(line);
        text.push('\n');
    }
    if verdict.nothing_measured.is_some() {
        return text;
    }
    text.push_str(&floor(summary));
    for remark in &verdict.remarks {
        text.push_str(&format!("note: {remark}\n"));
    }
    text
}

/// Percentiles of the floor.
const FLOOR: [f64; 4] = [0.5, 0.9, 0.99, 1.0];

/// The floor: the lowest latencies that this run could have shown. Lateness is a part of latencies only in
/// the open loop.
fn floor(summary: &Summary) -> String {
    let Some(lateness) = summary.latency.get("lateness").filter(|_| summary.mode == Mode::OpenLoop) else {
        return String::new();
    };
    let told = FLOOR
        .map(|quantile| format!("{} {}", percentile(quantile), lateness.told(quantile).text(milliseconds)));
    format!("floor: a system that takes no time would have shown {} ms here (lateness)\n", told.join(", "))
}
