//! The output of `tailrace top`, as text and as JSON.

use serde_json::{Value, json};
use tailrace_cli::text::table::Table;
use tailrace_cli::text::units;

use super::sample::{Interval, Row};
use super::sort::Sort;

/// The page: at most `rows` connections, lines of at most `columns` characters.
pub(super) fn text(interval: &Interval, sort: Sort, rows: usize, columns: usize) -> String {
    let varz = &interval.varz;
    let rates = &interval.rates;
    let head = format!(
        "{} {}  up {}  cpu {:.0} %  memory {}  slow consumers {}\n\
         to clients    {} messages/s, {}/s\n\
         from clients  {} messages/s, {}/s\n\
         {} connections ({} ever), {} subscriptions\n\n",
        printable(&varz.server_name),
        printable(&varz.version),
        printable(&varz.uptime),
        varz.cpu,
        units::bytes(varz.mem as f64),
        varz.slow_consumers,
        units::count(rates.messages_to),
        units::bytes(rates.bytes_to),
        units::count(rates.messages_from),
        units::bytes(rates.bytes_from),
        varz.connections,
        varz.total_connections,
        varz.subscriptions,
    );
    let mut table = Table::new(0, &HEAD);
    interval.rows.iter().take(rows).for_each(|row| table.row(cells(row)));
    let shown = interval.rows.len().min(rows) as u64;
    let rest = interval.total.saturating_sub(shown);
    let foot = match rest {
        0 => format!("by {}\n", sort.name()),
        rest => format!("by {}; {rest} more\n", sort.name()),
    };
    let page = format!("{head}{}{foot}", table.render());
    page.lines().map(|line| line.chars().take(columns).collect::<String>() + "\n").collect()
}

const HEAD: [&str; 13] = [
    "CID",
    "ADDRESS",
    "NAME",
    "CLIENT",
    "SUBS",
    "PENDING",
    "MSGS_TO/S",
    "MSGS_FROM/S",
    "BYTES_TO/S",
    "BYTES_FROM/S",
    "RTT",
    "UPTIME",
    "IDLE",
];

fn cells(row: &Row) -> Vec<String> {
    let (info, rates) = (&row.info, &row.rates);
    vec![
        info.cid.to_string(),
        format!("{}:{}", printable(&info.ip), info.port),
        printable(&info.name),
        format!("{} {}", printable(&info.lang), printable(&info.version)).trim().to_owned(),
        info.subscriptions.to_string(),
        units::bytes(info.pending_bytes as f64),
        units::count(rates.messages_to),
        units::count(rates.messages_from),
        units::bytes(rates.bytes_to),
        units::bytes(rates.bytes_from),
        printable(&info.rtt),
        printable(&info.uptime),
        printable(&info.idle),
    ]
}

/// Cleans a name for display. Clients choose their names, which must not control the terminal, or fill it.
fn printable(text: &str) -> String {
    const SHOWN: usize = 32;
    text.chars().take(SHOWN).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The interval as JSON.
pub(super) fn json(interval: &Interval, now_ms: i64) -> Value {
    let varz = &interval.varz;
    let connections = interval.rows.iter().map(|Row { info, rates }| {
        json!({
            "cid": info.cid,
            "ip": info.ip,
            "port": info.port,
            "name": info.name,
            "lang": info.lang,
            "version": info.version,
            "subscriptions": info.subscriptions,
            "pending_bytes": info.pending_bytes,
            "rates_per_second": rates,
            "messages_to": info.out_msgs,
            "messages_from": info.in_msgs,
            "bytes_to": info.out_bytes,
            "bytes_from": info.in_bytes,
            "rtt": info.rtt,
            "uptime": info.uptime,
            "idle": info.idle,
        })
    });
    json!({
        "timestamp": now_ms,
        "server": varz.server_name,
        "version": varz.version,
        "uptime": varz.uptime,
        "cpu_percent": varz.cpu,
        "memory_bytes": varz.mem,
        "slow_consumers": varz.slow_consumers,
        "connections_open": varz.connections,
        "connections_ever": varz.total_connections,
        "subscriptions": varz.subscriptions,
        "rates_per_second": interval.rates,
        "connections_total": interval.total,
        "connections": connections.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{ConnInfo, Rates, Varz};
    use super::*;

    #[test]
    fn the_page_fits_and_cannot_be_steered_by_clients() {
        let row = |cid| Row {
            info: ConnInfo { cid, name: "\u{1b}[2Jevil".to_owned(), ..ConnInfo::default() },
            rates: Rates { messages_to: 12_345.0, ..Rates::default() },
        };
        let rows = (1..=5).map(row).collect();
        let interval = Interval { varz: Varz::default(), rates: Rates::default(), total: 9, rows };
        let page = text(&interval, Sort::Rate, 2, 60);
        assert!(!page.contains('\u{1b}'));
        assert!(page.lines().all(|line| line.chars().count() <= 60));
        assert_eq!(page.lines().count(), 5 + 1 + 2 + 1, "{page}");
        assert!(page.ends_with("by rate; 7 more\n"), "{page}");
        assert_eq!(json(&interval, 7)["connections"][0]["rates_per_second"]["messages_to"], 12_345.0);
    }
}
