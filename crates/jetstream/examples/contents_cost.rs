//! What the table of a stream costs: memory for each subject and message, and times of searches.
//!
//! ```text
//! cargo run --release -p tailrace-jetstream --example contents_cost -- [SUBJECTS] [MESSAGES OF EACH]
//! ```

#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::time::Instant;

use tailrace_jetstream::contents::{Contents, Filter, Limits, Message};
use tailrace_subjects::{Dialect, Limits as TextLimits, Pattern};

fn filter(text: &str) -> Result<Filter, String> {
    let pattern = Pattern::parse(Dialect::Nats, text, &TextLimits::default());
    pattern.map(|pattern| Filter::new(&pattern)).map_err(|error| error.to_string())
}

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut number = |or| arguments.next().unwrap_or(Ok(or)).map_err(|error| error.to_string());
    let (subjects, each) = (number(10_000_000)?, number(1)?);
    let limits = Limits { per_subject_max: Some(each), ..Limits::default() };
    let mut contents = Contents::new(limits, 1);
    let began = Instant::now();
    let mut seq = 0;
    for round in 0..=each {
        for subject in 0..subjects {
            seq += 1;
            let name = format!("$KV.bucket.key.{:010}", subject * 7_919 % subjects);
            let time_ms = (round * subjects + subject) as i64 / 100;
            let message = Message { seq, subject: name.as_bytes(), bytes: 100, time_ms, rollup: None };
            contents.append(&message, &mut |_| ());
        }
    }
    let ns = began.elapsed().as_nanos() as u64 / seq;
    let summary = contents.summary();
    let memory = contents.memory_bytes();
    println!("{subjects} subjects of 25 bytes, {} messages", summary.messages);
    println!("{ns} ns to append a message, with the name made and an older one removed");
    println!("{} MiB: {} bytes for each subject", memory >> 20, memory as u64 / subjects);
    for text in ["$KV.bucket.key.0000000077", "$KV.bucket.key.*", "$KV.*.key.0000000077"] {
        let filter = [filter(text)?];
        for from in [0, summary.last_seq - summary.messages / 2] {
            let began = Instant::now();
            let count = contents.count_matching(&filter, from);
            println!("{text} from {from}: {count} messages, counted in {:?}", began.elapsed());
        }
    }
    let began = Instant::now();
    let (mut from, mut seen) = (0, 0_u64);
    while let Some(found) = contents.next_last(&[], from, summary.last_seq) {
        (from, seen) = (found.seq + 1, seen + 1);
    }
    println!("the last messages of {seen} subjects one by one: {:?}", began.elapsed());
    Ok(())
}
