//! A result for people.

use tailrace_bench::engine::{Break, Mode, QUANTILES};
use tailrace_bench::remote::RemoteReport;
use tailrace_bench::report::{Described, Summary};
use tailrace_bench::systems::Role;

use crate::text::table::Table;
use crate::text::units;

/// Three decimals: microseconds are visible.
pub(super) fn milliseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

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

/// Where the load came from, and how far the clocks there can be trusted.
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

/// Breaks that are listed here.
const BREAKS_SHOWN: usize = 5;

/// Which connections broke, and when they were there again.
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
    let mut text = format!("connections: {broke} times broken, {back} times made again{later}\n");
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
    let names: Vec<String> = QUANTILES
        .iter()
        .map(|quantile| if *quantile < 1.0 { percentile(*quantile) } else { "max".to_owned() })
        .collect();
    let mut head = vec!["MILLISECONDS"];
    head.extend(names.iter().map(String::as_str));
    head.push("COUNT");
    let mut table = Table::new(0, &head);
    for (name, described) in &summary.latency {
        table.row(row(shown(summary, name), described));
    }
    for (name, described) in &summary.corrected {
        table.row(row(&format!("{}, corrected", shown(summary, name)), described));
    }
    table.render()
}

/// Where the system answers requests, what comes back is a reply.
fn shown<'a>(summary: &Summary, name: &'a str) -> &'a str {
    if name == "receipt" && summary.receipt_is_reply { "reply" } else { name }
}

fn row(name: &str, described: &Described) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    for quantile in QUANTILES {
        cells.push(milliseconds(described.quantiles_ns.get(&quantile.to_string()).copied().unwrap_or(0)));
    }
    cells.push(described.count.to_string());
    cells
}

/// `p99.9`.
pub(super) fn percentile(quantile: f64) -> String {
    // Six decimals of a share are four of a percentage; trailing zeros say nothing.
    let text = format!("{:.4}", quantile * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn verdict(summary: &Summary) -> String {
    if let Some(reason) = &summary.verdict.nothing_measured {
        return format!("NOTHING MEASURED: {reason}\n");
    }
    let mut text = match (summary.valid, summary.interrupted) {
        (true, false) => "valid: the generator was on time\n".to_owned(),
        (true, true) => "INTERRUPTED; what was measured until then is valid\n".to_owned(),
        (false, _) => "INVALID\n".to_owned(),
    };
    for reason in &summary.verdict.invalid {
        text.push_str(&format!("  {reason}\n"));
    }
    for remark in &summary.verdict.remarks {
        text.push_str(&format!("note: {remark}\n"));
    }
    let doubtful: Vec<String> =
        summary.verdict.doubtful_quantiles.iter().map(|quantile| percentile(*quantile)).collect();
    if !doubtful.is_empty() {
        text.push_str(&format!(
            "doubtful: at {} half of the latency or more may be the generator's own lateness\n",
            doubtful.join(", ")
        ));
    }
    let small = summary.remote.iter().flat_map(|remote| &remote.receipt_doubtful_quantiles);
    let small: Vec<String> = small.map(|quantile| percentile(*quantile)).collect();
    if !small.is_empty() {
        let names = small.join(", ");
        text.push_str(&format!(
            "doubtful: receipt at {names} is smaller than the bound on the clocks' offset\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_percentiles() {
        assert_eq!(QUANTILES.map(percentile).join(" "), "p50 p75 p90 p99 p99.9 p99.99 p99.999 p99.9999 p100");
        assert_eq!(milliseconds(1_234_567), "1.234");
    }
}
