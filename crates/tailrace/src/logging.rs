//! The server's log: one line per event to standard error, at a rate that a person can read.
//!
//! Clients cause much of what is logged, and some lines contain what a client sent. So both formats escape
//! control characters: no client can forge a line, or send control sequences to the reader's terminal. Each
//! place in the program may log a bounded number of lines: [`BURST`] at once, then [`PER_SECOND`]. The next
//! line says how many were left out. Lines below INFO are not limited, since an operator asked for them.
//! Neither are lines about damage on the disk ([`DAMAGE`]): no client causes it, and each damaged place is
//! named once.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tailrace_config::{BrokerConfig, LogFormat};
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that one place may log at once.
const BURST: f64 = 200.0;

/// Lines per second after the burst.
const PER_SECOND: f64 = 20.0;

/// Targets of events about damage, found when a partition is opened or scrubbed.
const DAMAGE: [&str; 2] = ["tailrace_node::partitions::open", "tailrace_node::scrubber"];

/// Starts logging. Call it once.
///
/// # Errors
/// `log.level` is not a valid filter.
pub(crate) fn start(config: &BrokerConfig) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.log_level).map_err(|error| format!("log.level: {error}"))?;
    let has_colours = config.log_format == LogFormat::Text && io::stderr().is_terminal();
    let lines = Lines { sites: Arc::default(), is_json: config.log_format == LogFormat::Json, has_colours };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines);
    match config.log_format {
        LogFormat::Text => builder.with_ansi(has_colours).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

struct Lines {
    sites: Arc<Mutex<HashMap<Identifier, Site>>>,
    is_json: bool,
    has_colours: bool,
}

/// One place in the program that logs.
struct Site {
    lines_left: f64,
    looked_at: Instant,
    left_out: u64,
}

impl Site {
    fn new(now: Instant) -> Self {
        Self { lines_left: BURST, looked_at: now, left_out: 0 }
    }

    /// Number of lines left out before this one. `None` if this one is left out, too.
    fn may_log(&mut self, now: Instant) -> Option<u64> {
        let since = now.saturating_duration_since(self.looked_at).as_secs_f64();
        self.looked_at = now;
        self.lines_left = (self.lines_left + since * PER_SECOND).min(BURST);
        if self.lines_left < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.lines_left -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { left_out: Some(0), is_json: self.is_json, has_colours: self.has_colours }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line {
        if !is_counted(event) {
            return self.make_writer();
        }
        let now = Instant::now();
        let mut sites = self.sites.lock();
        let left_out = sites.entry(event.callsite()).or_insert_with(|| Site::new(now)).may_log(now);
        Line { left_out, ..self.make_writer() }
    }
}

/// Reports whether the limit applies to the event.
fn is_counted(event: &Metadata<'_>) -> bool {
    let is_damage = || DAMAGE.iter().any(|room| event.target().starts_with(room));
    match *event.level() {
        Level::ERROR | Level::WARN => !is_damage(),
        level => level <= Level::INFO,
    }
}

/// Writer for a single event.
struct Line {
    /// Number of lines left out before this one. `None` if this one is left out.
    left_out: Option<u64>,
    is_json: bool,
    has_colours: bool,
}

impl Write for Line {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let Some(left_out) = self.left_out else { return Ok(event.len()) };
        let mut out = Vec::with_capacity(event.len() + 64);
        match (left_out, self.is_json) {
            (0, _) => {}
            (_, false) => writeln!(out, "{left_out} lines like the next one were left out")?,
            (_, true) => {
                let message = "lines like the next one were left out";
                writeln!(out, r#"{{"fields":{{"message":"{message}","left_out":{left_out}}}}}"#)?;
            }
        }
        escape(event, self.has_colours, &mut out);
        io::stderr().write_all(&out)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies a line. Control characters are escaped as in Rust, except for the line end, and for color sequences
/// if colors are on.
fn escape(line: &[u8], has_colours: bool, out: &mut Vec<u8>) {
    let (mut rest, end) = match line.strip_suffix(b"\n") {
        Some(line) => (line, "\n"),
        None => (line, ""),
    };
    while let Some(&byte) = rest.first() {
        let length = if has_colours { colour_length(rest) } else { 0 };
        // Control characters beyond ASCII take two bytes in UTF-8.
        let is_wide = byte == 0xc2 && rest.get(1).is_some_and(|next| (0x80..0xa0).contains(next));
        let taken = match () {
            () if length > 0 => {
                out.extend_from_slice(&rest[..length]);
                length
            }
            () if is_wide => {
                out.extend_from_slice(format!("\\u{{{:x}}}", rest[1]).as_bytes());
                2
            }
            () if byte.is_ascii_control() => {
                out.extend(byte.escape_ascii());
                1
            }
            () => {
                out.push(byte);
                1
            }
        };
        rest = &rest[taken..];
    }
    out.extend_from_slice(end.as_bytes());
}

/// Length of a color sequence at the start; 0 if there is none.
fn colour_length(bytes: &[u8]) -> usize {
    let Some(arguments) = bytes.strip_prefix(b"\x1b[") else { return 0 };
    let digits = arguments.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    if arguments.get(digits) == Some(&b'm') { digits + 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing_subscriber::layer::{Layer, SubscriberExt};

    use super::*;

    fn escaped(line: &str, has_colours: bool) -> String {
        let mut out = Vec::new();
        escape(line.as_bytes(), has_colours, &mut out);
        String::from_utf8(out).expect("it was before")
    }

    #[test]
    fn nothing_from_outside_begins_a_line_or_speaks_to_the_terminal() {
        assert_eq!(escaped("INFO a\u{e9} b\n", false), "INFO a\u{e9} b\n");
        assert_eq!(
            escaped("a\nINFO b\r\u{1b}]0;x\u{7}\u{9b}2J\0\n", false),
            "a\\nINFO b\\r\\x1b]0;x\\x07\\u{9b}2J\\x00\n"
        );
        assert_eq!(escaped("\u{1b}[2mINFO\u{1b}[0m \u{1b}[2J", true), "\u{1b}[2mINFO\u{1b}[0m \\x1b[2J");
        assert_eq!(escaped("\u{1b}[2mINFO", false), "\\x1b[2mINFO");
    }

    /// More places than the number of lines that a site may log: an operator who looks for one of them must
    /// find it.
    #[test]
    fn damage_is_named_however_much_there_is() {
        let events = Arc::<Mutex<Vec<(bool, String)>>>::default();
        let seen = Arc::clone(&events);
        let layer = tracing_subscriber::fmt::layer().with_writer(io::sink);
        let filter = tracing_subscriber::filter::filter_fn(move |event| {
            seen.lock().push((is_counted(event), event.target().to_owned()));
            true
        });
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter));
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(target: "tailrace_node::partitions::open", "damaged");
            tracing::error!(target: "tailrace_node::scrubber::repair", "given up");
            tracing::info!(target: "tailrace_node::scrubber", "scrubbed");
            tracing::warn!(target: "tailrace_kafka", "a client did something");
            tracing::debug!(target: "tailrace_kafka", "asked for");
        });
        let counted: Vec<bool> = events.lock().iter().map(|(counted, _)| *counted).collect();
        assert_eq!(counted, [false, false, true, true, false]);
    }

    #[test]
    fn a_site_has_a_burst_and_then_so_many_lines_in_a_second() {
        let began = Instant::now();
        let mut site = Site::new(began);
        let logged = (0..1000).filter(|_| site.may_log(began) == Some(0)).count();
        assert_eq!(logged, BURST as usize);
        let later = began + Duration::from_millis(500);
        let told: Vec<_> = (0..100).filter_map(|_| site.may_log(later)).collect();
        assert_eq!(told, [vec![800], vec![0; 9]].concat());
        let much_later = began + Duration::from_secs(3600);
        let told: Vec<_> = (0..1000).filter_map(|_| site.may_log(much_later)).collect();
        assert_eq!((told.len(), told[0]), (BURST as usize, 90));
    }
}
