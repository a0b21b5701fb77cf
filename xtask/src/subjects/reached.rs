//! What the models of the matcher have reached. Every compare-and-swap in the code must have succeeded in
//! some model and failed in some model. Those on the same slot must also have failed because of each other.
//!
//! This module finds the places in the source, so that a new one must be covered as soon as it is written. It
//! leaves out the counters of subscriptions, because no memory depends on them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const FOLDER: &str = "crates/subjects/src/tuple_space";
const SOURCES: [&str; 8] =
    ["clock.rs", "core.rs", "leaf.rs", "published.rs", "registry.rs", "shape.rs", "slot.rs", "table.rs"];
/// Calls that are a compare-and-swap, or that pass their caller's location to one.
const CALLS: [&str; 3] = [".compare_exchange(", ".exchange(", "publish("];

/// Names of places, and a part of the line of each.
const NAMES: [(&str, &str); 14] = [
    ("end", "self.exchange(index, word, Word::END)"),
    ("adopt", "into.exchange(index, word, frozen.thawed())"),
    ("insert", "publish(core, table, index, Word::EMPTY, new, place, guard)?;"),
    ("freeze", "self.exchange(index, word, word.frozen())"),
    ("change", "                publish(core, table, index, word, new, place, guard)?;"),
    ("remove", "let new = publish(core, table, index, word, new, place, guard)?;"),
    ("bury", "self.exchange(index, word, Word::deleted(time))"),
    ("give a successor", "self.next.compare_exchange(ptr::null_mut(), next,"),
    ("retire a shape", "self.next.compare_exchange(none, retired,"),
    ("next head", "self.head.compare_exchange(old, new,"),
    ("decide", "self.exchange(undecided(from), stamped(stamp))"),
    ("keep", "self.exchange(undecided(from), raw.cast"),
    ("forget", "self.exchange(meta, stamped(history.stamp))"),
    ("take a seat", "here.time.compare_exchange(FREE, PENDING,"),
];

/// For each place, the places that must have made it fail. *remove* and *bury* never make each other fail: a
/// buried entry has no subscriber that could be removed.
const MEETINGS: [(&str, &[&str]); 14] = [
    ("end", &["end", "adopt", "insert"]),
    ("adopt", &["end", "adopt", "insert"]),
    ("insert", &["end", "adopt", "insert"]),
    ("freeze", &["freeze", "change", "remove", "bury"]),
    ("change", &["freeze", "change", "remove", "bury"]),
    ("remove", &["freeze", "change", "remove"]),
    ("bury", &["freeze", "change", "bury"]),
    ("give a successor", &["give a successor", "retire a shape"]),
    ("retire a shape", &["give a successor"]),
    ("next head", &["next head"]),
    ("decide", &["decide", "keep"]),
    ("keep", &["decide", "keep"]),
    ("forget", &["forget"]),
    ("take a seat", &["take a seat"]),
];

/// File and line.
type Place = (String, usize);

/// A compare-and-swap in the code.
struct Exchange {
    place: Place,
    code: String,
}

/// The report of the models.
#[derive(Default)]
struct Told {
    models: Vec<String>,
    won: BTreeMap<Place, u64>,
    lost: BTreeMap<Place, BTreeMap<Place, u64>>,
}

/// Prints what the models have reached. Fails with a list of what they have not. `meetings` says whether they
/// ran often enough to require [`MEETINGS`] as well.
pub(super) fn judge(root: &Path, told: &str, meetings: bool) -> Result<(), String> {
    let mut exchanges = Vec::new();
    for file in SOURCES {
        let path = root.join(FOLDER).join(file);
        let source =
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        exchanges.extend(exchanges_of(file, &source));
    }
    let told = Told::parse(told)?;
    let (shown, missing) = compare(&exchanges, &told, meetings)?;
    println!("{shown}");
    if missing.is_empty() { Ok(()) } else { Err(format!("models do not reach: {}", missing.join("; "))) }
}

/// Finds the compare-and-swaps of a file. Functions that pass on their caller's location do not count, nor do
/// those that only models call.
fn exchanges_of(file: &str, source: &str) -> Vec<Exchange> {
    let mut exchanges = Vec::new();
    // The last line of a function that is being skipped.
    let mut until: Option<String> = None;
    let next_lines = source.lines().skip(1).chain([""]);
    for (index, (line, next)) in source.lines().zip(next_lines).enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        if let Some(end) = &until {
            if line == end {
                until = None;
            }
        } else if next.contains("fn ")
            && (code == "#[cfg_attr(shuttle, track_caller)]" || code == "#[cfg(shuttle)]")
        {
            until = Some(format!("{indent}}}"));
        } else if !code.starts_with("//") && CALLS.iter().any(|call| code.contains(call)) {
            exchanges.push(Exchange { place: (file.to_owned(), index + 1), code: line.to_owned() });
        }
    }
    exchanges
}

impl Told {
    fn parse(text: &str) -> Result<Self, String> {
        let mut told = Self::default();
        for line in text.lines() {
            let wrong = || format!("unreadable line in the report of the models: {line}");
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().map_err(|_| wrong());
            match words[..] {
                ["model", name, runs, schedules, steps] => {
                    told.models
                        .push(format!("{name}: {runs} runs, {schedules} different schedules, {steps} steps"));
                }
                ["won", at, count] => {
                    *told.won.entry(place(at).ok_or_else(wrong)?).or_default() += number(count)?;
                }
                ["lost", at, by, count] => {
                    let lost = told.lost.entry(place(at).ok_or_else(wrong)?).or_default();
                    *lost.entry(place(by).unwrap_or_default()).or_default() += number(count)?;
                }
                _ => return Err(wrong()),
            }
        }
        told.models.sort();
        Ok(told)
    }
}

/// `PATH/FILE:LINE`
fn place(text: &str) -> Option<Place> {
    let (path, line) = text.rsplit_once(':')?;
    let file = path.rsplit(['/', '\\']).next()?;
    Some((file.to_owned(), line.parse().ok()?))
}

/// Returns a text that shows what is reached, and a list of what is missing.
fn compare(exchanges: &[Exchange], told: &Told, meetings: bool) -> Result<(String, Vec<String>), String> {
    let mut names = BTreeMap::new();
    for (name, part) in NAMES {
        let mut found = exchanges.iter().filter(|exchange| exchange.code.contains(part));
        let (Some(exchange), None) = (found.next(), found.next()) else {
            return Err(format!("not exactly one compare-and-swap is `{name}`: {part}"));
        };
        names.insert(exchange.place.clone(), name);
    }
    let name_of = |place: &Place| match names.get(place) {
        Some(name) => (*name).to_owned(),
        None if place.1 == 0 => "?".to_owned(),
        None => format!("{}:{}", place.0, place.1),
    };
    let (mut shown, mut missing) = (told.models.join("\n"), Vec::new());
    if told.models.is_empty() {
        missing.push("any model".to_owned());
    }
    for exchange in exchanges {
        let own = name_of(&exchange.place);
        let won = told.won.get(&exchange.place).copied().unwrap_or(0);
        let lost: BTreeMap<String, u64> = told.lost.get(&exchange.place).into_iter().flatten().fold(
            BTreeMap::new(),
            |mut lost, (by, count)| {
                *lost.entry(name_of(by)).or_default() += count;
                lost
            },
        );
        let by = lost.iter().map(|(by, count)| format!("{by} {count}")).collect::<Vec<_>>().join(", ");
        let at = format!("{}:{} ({})", exchange.place.0, exchange.place.1, exchange.code.trim());
        let _ = write!(shown, "\n{own}: {at}: succeeded {won}; failed because of {by}");
        missing.extend((won == 0).then(|| format!("a success of {at}")));
        missing.extend(lost.is_empty().then(|| format!("a failure of {at}")));
        let asked = MEETINGS.iter().filter(|(name, _)| meetings && *name == own).flat_map(|(_, by)| *by);
        missing.extend(
            asked
                .filter(|by| !lost.contains_key(**by))
                .map(|by| format!("a failure of `{own}` because of `{by}`")),
        );
    }
    Ok((shown, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Exchange> {
        let root = xtask::run::root().join(FOLDER);
        let read = |file: &str| std::fs::read_to_string(root.join(file)).expect("a source of the matcher");
        SOURCES.iter().flat_map(|file| exchanges_of(file, &read(file))).collect()
    }

    /// A report of models that reach everything.
    fn everything(exchanges: &[Exchange]) -> String {
        let of = |name: &str| {
            let (_, part) = NAMES.iter().find(|(own, _)| *own == name).expect("a known name");
            exchanges.iter().find(|exchange| exchange.code.contains(part)).expect("its place")
        };
        let at = |exchange: &Exchange| format!("src/{}:{}", exchange.place.0, exchange.place.1);
        let mut told = "model m 10 9 100\n".to_owned();
        for exchange in exchanges {
            let _ = write!(told, "won {0} 3\nlost {0} ? 1\n", at(exchange));
        }
        for (name, by) in MEETINGS {
            for by in by {
                let _ = writeln!(told, "lost {} {} 2", at(of(name)), at(of(by)));
            }
        }
        told
    }

    fn missing(exchanges: &[Exchange], told: &str) -> Vec<String> {
        let told = Told::parse(told).expect("a readable report");
        compare(exchanges, &told, true).expect("every name has its place").1
    }

    #[test]
    fn what_is_not_reached_is_missed() {
        let exchanges = all();
        let told = everything(&exchanges);
        assert_eq!(missing(&exchanges, &told), Vec::<String>::new());
        for (index, line) in told.lines().enumerate().filter(|(_, line)| !line.contains(" ? ")) {
            let rest: Vec<&str> =
                told.lines().enumerate().filter(|(own, _)| *own != index).map(|(_, line)| line).collect();
            assert_eq!(missing(&exchanges, &rest.join("\n")).len(), 1, "without {line}");
        }
        assert!(Told::parse("won somewhere").is_err());
    }

    #[test]
    fn a_new_exchange_is_asked_for() {
        let source = "fn a() {\n    word.compare_exchange(a, b);\n}\n    #[cfg_attr(shuttle, track_caller)]\n    fn b() {\n        \
                      word.compare_exchange(a, b);\n    }\n    // word.compare_exchange(a, b)\n    self.exchange(a)\n";
        let lines: Vec<usize> =
            exchanges_of("x.rs", source).iter().map(|exchange| exchange.place.1).collect();
        assert_eq!(lines, [2, 9]);
    }
}
