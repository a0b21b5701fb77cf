//! The measuring programs: their arguments and their output.

use super::sample::Figures;

/// A run of blast-kafka (librdkafka) with the client's default batching: linger 5 ms, batches of up to 1 MB.
#[derive(Clone, Debug)]
pub(super) struct Blast {
    pub(super) mode: &'static str,
    pub(super) topic: String,
    pub(super) records: u64,
    pub(super) partitions: u32,
    pub(super) threads: u32,
    pub(super) acks: &'static str,
}

impl Blast {
    pub(super) fn new(mode: &'static str, topic: &str, records: u64) -> Self {
        Self { mode, topic: topic.to_owned(), records, partitions: 1, threads: 1, acks: "1" }
    }

    pub(super) fn arguments(&self, address: &str) -> Vec<String> {
        let (records, partitions) = (self.records.to_string(), self.partitions.to_string());
        let threads = self.threads.to_string();
        let words = [self.mode, "-b", address, "-t", &self.topic, "-n", &records, "-T", &partitions];
        words.into_iter().chain(["-P", &threads, "-a", self.acks]).map(str::to_owned).collect()
    }
}

/// Parses the figures of a line `blast sent=.. sent_per_s=.. wall_s=..`.
pub(super) fn parse_blast(line: &str) -> Option<Figures> {
    let words = line.strip_prefix("blast ")?.split_whitespace();
    words
        .map(|word| Some((word.split_once('=')?.0.to_owned(), word.split_once('=')?.1.parse().ok()?)))
        .collect()
}

/// A run of openloop (franz-go, linger 0): it sends on a fixed schedule, however slow the server is.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenLoop {
    pub(super) rate: u32,
    /// The number of pairs of a publishing and a receiving connection. Each pair has its own partition.
    pub(super) pairs: u32,
    pub(super) seconds: u32,
    pub(super) acks: &'static str,
}

/// Seconds of load before the measured time, which are not recorded.
pub(super) const WARM_S: u32 = 1;

impl OpenLoop {
    pub(super) fn arguments(&self, system: &str, address: &str) -> Vec<String> {
        let protocol = if system == "echo" { "echo" } else { "kafka" };
        let (rate, pairs) = (self.rate.to_string(), self.pairs.to_string());
        let (seconds, warm) = (format!("{}s", self.seconds), format!("{WARM_S}s"));
        let words = ["-sys", protocol, "-addr", address, "-size", "1024", "-rate", &rate, "-conns", &pairs];
        let words = words.into_iter().chain(["-dur", &seconds, "-warm", &warm, "-acks", self.acks]);
        words.chain(["-label", system]).map(str::to_owned).collect()
    }
}

/// The columns of an openloop row that are kept, and their indexes.
const COLUMNS: [(&str, usize); 13] = [
    ("sent", 4),
    ("lost", 5),
    ("received_per_s", 9),
    ("p50_us", 10),
    ("p99_us", 11),
    ("p99.9_us", 12),
    ("max_us", 14),
    ("ack_p50_us", 15),
    ("ack_p99_us", 16),
    ("ack_p99.9_us", 17),
    ("ack_max_us", 19),
    ("lag_p50_us", 20),
    ("lag_p99_us", 21),
];

/// Parses the figures of a row `| label | 1024 | 3000 | ..`. Skips columns that are `-`.
pub(super) fn parse_openloop(row: &str) -> Option<Figures> {
    let cells: Vec<&str> =
        row.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    if cells.len() != 25 {
        return None;
    }
    let kept = COLUMNS.iter().filter(|(_, column)| cells[*column] != "-");
    kept.map(|(name, column)| Some(((*name).to_owned(), cells[*column].parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blast_line_is_read() {
        let figures =
            parse_blast("blast sent=100 sent_per_s=243913 sent_mb_per_s=249.8 client_cpu_s=1.27").unwrap();
        assert_eq!(figures["sent_per_s"], 243_913.0);
        assert_eq!(figures["client_cpu_s"], 1.27);
        assert_eq!(parse_blast("delivery: Local: Message timed out"), None);
        assert_eq!(parse_blast("blast sent=many"), None);
    }

    #[test]
    fn an_openloop_row_is_read() {
        let row = "| kafka | 1024 | 3000 | 1 | 63000 | 2 | 0 | 0 | 0 | 3000 | 881 | 1848 | 2025 | 2042 | 2044 | 607 | 1837 | \
                   2015 | 2032 | 2034 | 52 | 2441 | 11223 | 24199 | 25854 |";
        let figures = parse_openloop(row).unwrap();
        let named = |name: &str| figures[name];
        assert_eq!([named("p50_us"), named("p99_us"), named("p99.9_us")], [881.0, 1848.0, 2025.0]);
        assert_eq!([named("ack_p50_us"), named("ack_p99_us"), named("lag_p99_us")], [607.0, 1837.0, 2441.0]);
        assert_eq!(named("lost"), 2.0);
    }

    #[test]
    fn a_system_without_acknowledgements_has_none() {
        let row = format!("| echo |{}", " 1 |".repeat(14) + &" - |".repeat(5) + &" 3 |".repeat(5));
        let figures = parse_openloop(&row).unwrap();
        assert!(!figures.contains_key("ack_p50_us"));
        assert_eq!(figures["lag_p50_us"], 3.0);
        assert_eq!(parse_openloop("| echo | 1 |"), None);
    }

    #[test]
    fn arguments_are_those_of_the_programs() {
        let blast = Blast { threads: 6, partitions: 12, ..Blast::new("both", "t", 9) };
        assert_eq!(blast.arguments("a:1").join(" "), "both -b a:1 -t t -n 9 -T 12 -P 6 -a 1");
        let open = OpenLoop { rate: 3000, pairs: 1, seconds: 6, acks: "all" };
        let shown = open.arguments("tailrace", "a:1").join(" ");
        assert!(shown.starts_with("-sys kafka -addr a:1 -size 1024 -rate 3000 -conns 1 -dur 6s"), "{shown}");
    }
}
