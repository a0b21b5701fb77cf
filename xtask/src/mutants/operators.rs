//! Bugs by mutation operators: cargo-mutants lists them, our tests and simulators try to notice them.
//!
//! cargo-mutants itself would only run the tests of the mutated crate. Many of our tests are elsewhere, in
//! `sim`, `server` and the simulators, so we use no more than its list. Each bug climbs a ladder of tests,
//! from the quick to the slow, until one of them notices it.
//!
//! There are thousands of bugs, and each takes a minute or two. A run tries as many as its time allows, in an
//! order that depends on the seed.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use super::tree::{Look, Outcome, Tree};
use crate::tools::CARGO_MUTANTS;
use xtask::run::root;

const USAGE: &str = "usage: cargo xtask mutants --operators [log|replication|coordination|node ...] [--minutes N] [--seed N] [--list]";

/// The share of a room's bugs that may go unnoticed without a written reason.
const SURVIVORS_PERCENT_MAX: usize = 5;

const REASONS: &str = "xtask/survivors.toml";

/// One step of a ladder.
enum Step {
    /// `cargo test` with these arguments.
    Test(&'static [&'static str]),
    /// A simulator, and the number of seeds.
    Seeds(&'static str, u64),
}

/// A crate whose bugs can lose data, and the ladder of tests that should notice them.
struct Room {
    name: &'static str,
    package: &'static str,
    ladder: &'static [Step],
}

const SEEDED: Step = Step::Test(&["-p", "tailrace-sim", "--test", "seeded"]);
const GROUP: Step = Step::Seeds("group", 500);
const NODES: Step = Step::Seeds("nodes", 20);
const KAFKA: Step = Step::Test(&["-p", "tailrace-server", "--test", "kafka"]);
const NATS: Step = Step::Test(&["-p", "tailrace-server", "--test", "nats"]);
const IN_NODE: Step = Step::Test(&["-p", "tailrace-node", "--lib"]);

const ROOMS: [Room; 4] = [
    Room {
        name: "log",
        package: "tailrace-log",
        ladder: &[Step::Test(&["-p", "tailrace-log"]), SEEDED, GROUP, IN_NODE, KAFKA, NODES],
    },
    Room {
        name: "replication",
        package: "tailrace-replication",
        ladder: &[Step::Test(&["-p", "tailrace-replication"]), SEEDED, GROUP, IN_NODE, KAFKA, NODES],
    },
    Room {
        name: "coordination",
        package: "tailrace-coordination",
        ladder: &[Step::Test(&["-p", "tailrace-coordination"]), IN_NODE, KAFKA, NODES],
    },
    Room {
        name: "node",
        package: "tailrace-node",
        ladder: &[IN_NODE, KAFKA, NATS, Step::Test(&["-p", "tailrace-server"]), NODES],
    },
];

/// A bug in the list of cargo-mutants.
#[derive(Deserialize)]
struct Listed {
    name: String,
    package: String,
    file: PathBuf,
    span: Span,
    replacement: String,
}

/// A range of characters. `end` is not part of it.
#[derive(Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

/// A position. Lines and columns count from 1, and columns are characters.
#[derive(Deserialize, Clone, Copy, PartialEq)]
struct Place {
    line: usize,
    column: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reasons {
    #[serde(default)]
    survivor: Vec<Survivor>,
}

/// A bug that nothing needs to notice.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivor {
    /// Its name in the list of cargo-mutants, without the line and the column.
    name: String,
    reason: String,
}

struct Options {
    rooms: Vec<&'static Room>,
    minutes: u64,
    seed: u64,
    lists: bool,
}

impl Options {
    fn of(arguments: &[String]) -> Result<Self, String> {
        let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
        let mut options = Self { rooms: Vec::new(), minutes: 120, seed: day, lists: false };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut number = || rest.next().and_then(|value| value.parse().ok()).ok_or(USAGE);
            match argument.as_str() {
                "--minutes" => options.minutes = number()?,
                "--seed" => options.seed = number()?,
                "--list" => options.lists = true,
                name => options.rooms.push(ROOMS.iter().find(|room| room.name == name).ok_or(USAGE)?),
            }
        }
        if options.rooms.is_empty() {
            options.rooms = ROOMS.iter().collect();
        }
        Ok(options)
    }
}

/// The results of a room.
#[derive(Default)]
struct Tally {
    noticed: usize,
    uncompiled: usize,
    undecided: usize,
    excused: usize,
    survivors: Vec<String>,
}

impl Tally {
    fn counted(&self) -> usize {
        self.noticed + self.survivors.len()
    }

    fn is_fine(&self) -> bool {
        self.survivors.len() * 100 <= self.counted() * SURVIVORS_PERCENT_MAX
    }
}

pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::of(arguments)?;
    let text = fs::read_to_string(root().join(REASONS)).map_err(|error| format!("{REASONS}: {error}"))?;
    let reasons: Reasons = toml::from_str(&text).map_err(|error| format!("{REASONS}: {error}"))?;
    let tree = Tree::copy()?;
    let mut listed = list(&tree, &options.rooms)?;
    in_the_order_of(options.seed, &mut listed);
    if options.lists {
        listed.iter().for_each(|mutant| println!("{}", mutant.name));
        return Ok(());
    }
    can_judge(&tree, &options.rooms)?;
    println!("{} mutants; seed {}, {} minutes", listed.len(), options.seed, options.minutes);
    let (began, time) = (Instant::now(), Duration::from_secs(60 * options.minutes));
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    for mutant in &listed {
        if began.elapsed() >= time {
            break;
        }
        let Some(room) = ROOMS.iter().find(|room| room.package == mutant.package) else { continue };
        let (planted, tally) = (Instant::now(), tallies.entry(room.name).or_default());
        let excuse = reasons.survivor.iter().find(|survivor| survivor.name == without_place(&mutant.name));
        let told = if let Some(survivor) = excuse {
            tally.excused += 1;
            format!("skipped: {}", survivor.reason)
        } else {
            match climb(&tree, mutant, room.ladder)? {
                Outcome::Noticed(how) => {
                    tally.noticed += 1;
                    format!("noticed: {how}")
                }
                Outcome::Survived => {
                    tally.survivors.push(mutant.name.clone());
                    "SURVIVED".to_owned()
                }
                Outcome::Unusable(_) => {
                    tally.uncompiled += 1;
                    "does not compile".to_owned()
                }
                Outcome::Undecided(reason) => {
                    tally.undecided += 1;
                    format!("UNDECIDED: {reason}")
                }
            }
        };
        println!("{} ({:.0} s): {told}", mutant.name, planted.elapsed().as_secs_f64());
    }
    tell(&tallies)
}

fn tell(tallies: &BTreeMap<&str, Tally>) -> Result<(), String> {
    for (room, tally) in tallies {
        println!(
            "{room}: {} tried, {} not noticed; {} undecided, {} skipped with a reason, {} do not compile",
            tally.counted(),
            tally.survivors.len(),
            tally.undecided,
            tally.excused,
            tally.uncompiled
        );
        tally.survivors.iter().for_each(|name| println!("  {name}"));
    }
    let too_many: Vec<&str> =
        tallies.iter().filter(|(_, tally)| !tally.is_fine()).map(|(room, _)| *room).collect();
    if too_many.is_empty() {
        return Ok(());
    }
    Err(format!("more than {SURVIVORS_PERCENT_MAX} % are not noticed in {}", too_many.join(", ")))
}

/// Lists all bugs of the rooms, in the copy of the tree.
fn list(tree: &Tree, rooms: &[&Room]) -> Result<Vec<Listed>, String> {
    let mut command = Command::new(CARGO_MUTANTS.locate()?);
    command.args(["mutants", "--list", "--json"]).current_dir(tree.path());
    for room in rooms {
        command.args(["-p", room.package]);
    }
    let output = command.output().map_err(|error| format!("cargo-mutants does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo mutants: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("the list of cargo mutants: {error}"))
}

/// Sorts the bugs into the order of a seed, which does not depend on their order in the list.
fn in_the_order_of(seed: u64, listed: &mut [Listed]) {
    listed.sort_by_cached_key(|mutant| {
        let mut hasher = DefaultHasher::new();
        (seed, &mutant.name).hash(&mut hasher);
        hasher.finish()
    });
}

/// Fails unless all tests pass without a bug. Otherwise the results would mean nothing.
fn can_judge(tree: &Tree, rooms: &[&Room]) -> Result<(), String> {
    let steps = rooms.iter().flat_map(|room| room.ladder);
    steps.into_iter().try_for_each(|step| match step {
        Step::Test(arguments) => tree.can_judge(arguments),
        Step::Seeds(..) => Ok(()),
    })
}

fn climb(tree: &Tree, mutant: &Listed, ladder: &[Step]) -> Result<Outcome, String> {
    let before = tree.read(&mutant.file)?;
    let planted = replaced(&before, &mutant.span, &mutant.replacement)
        .ok_or_else(|| format!("{}: the file has no such position", mutant.name))?;
    tree.judge(&mutant.file, &planted, || {
        for step in ladder {
            let look = match step {
                Step::Test(arguments) => tree.test(arguments)?,
                Step::Seeds(simulator, seeds) => tree.simulate(simulator, *seeds)?,
            };
            if !matches!(look, Look::Told(Outcome::Survived)) {
                return Ok(look);
            }
        }
        Ok(Look::Told(Outcome::Survived))
    })
}

/// Returns the text with the span replaced. `None` if the text has no such span.
fn replaced(text: &str, span: &Span, with: &str) -> Option<String> {
    let (start, end) = (at(text, span.start)?, at(text, span.end)?);
    Some([text.get(..start)?, with, text.get(end..)?].concat())
}

/// The byte index of the character at a position. `None` if the text has no such position.
fn at(text: &str, place: Place) -> Option<usize> {
    let before: usize = text.split_inclusive('\n').take(place.line.checked_sub(1)?).map(str::len).sum();
    let line = text.get(before..)?.split_inclusive('\n').next().unwrap_or_default();
    let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    Some(before + ends.into_iter().nth(place.column.checked_sub(1)?)?)
}

/// Removes the line and the column from a name such as `crates/log/src/roll.rs:12:9: replace a with b`.
fn without_place(name: &str) -> String {
    let mut parts = name.splitn(4, ':');
    let (file, change) = (parts.next().unwrap_or_default(), parts.nth(2).unwrap_or_default());
    format!("{file}:{change}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: usize, column: usize) -> Place {
        Place { line, column }
    }

    #[test]
    fn a_replacement_goes_where_cargo_mutants_says() {
        let text = "fn ü() {\n    a == b\n}\n";
        let with = |start, end, with| replaced(text, &Span { start, end }, with);
        assert_eq!(with(place(2, 7), place(2, 9), "!="), Some("fn ü() {\n    a != b\n}\n".to_owned()));
        assert_eq!(with(place(1, 8), place(3, 2), "{ c }"), Some("fn ü() { c }\n".to_owned()));
        assert_eq!(with(place(2, 5), place(2, 6), ""), Some("fn ü() {\n     == b\n}\n".to_owned()));
        assert_eq!(with(place(9, 1), place(9, 2), ""), None);
        assert_eq!(with(place(2, 7), place(2, 99), ""), None);
    }

    #[test]
    fn a_reason_holds_wherever_the_line_has_moved() {
        let name = "crates/log/src/roll.rs:12:9: replace roll -> Result<(), LogError> with Ok(())";
        assert_eq!(
            without_place(name),
            "crates/log/src/roll.rs: replace roll -> Result<(), LogError> with Ok(())"
        );
    }

    #[test]
    fn one_survivor_of_twenty_is_borne() {
        let tally = |noticed, survivors| Tally {
            noticed,
            survivors: vec![String::new(); survivors],
            ..Tally::default()
        };
        assert!(tally(19, 1).is_fine() && tally(0, 0).is_fine());
        assert!(!tally(18, 1).is_fine() && !tally(0, 1).is_fine());
    }

    #[test]
    fn each_reason_is_one() {
        let text = fs::read_to_string(root().join(REASONS)).expect("a readable list");
        let reasons: Reasons = toml::from_str(&text).expect("a well-formed list");
        for Survivor { name, reason } in reasons.survivor {
            let file = name.split(':').next().unwrap_or_default();
            assert!(root().join(file).is_file(), "{name}: no such file");
            assert!(reason.len() > 20, "{name}: {reason}");
        }
    }
}
