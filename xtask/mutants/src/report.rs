//! What was found: the mutants that nothing notices, and their share of each room.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::plan::{Mutant, Pack, Verdict};

/// The share of a room's mutants that may survive without a reason.
const SURVIVORS_PERCENT_MAX: usize = 5;

pub(crate) const REASONS: &str = "xtask/mutants/reasons.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reasons {
    #[serde(default)]
    survivor: Vec<Survivor>,
}

/// Mutants of one line that no test needs to notice.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivor {
    file: String,
    /// The text of the line.
    line: String,
    /// What they change, as it is printed. None means all mutants of the line.
    #[serde(default)]
    mutants: Vec<String>,
    reason: String,
}

impl Reasons {
    /// Reads the list. A reason for a line that the tree no longer has is an error.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(root.join(REASONS)).map_err(|error| format!("{REASONS}: {error}"))?;
        let reasons: Self = toml::from_str(&text).map_err(|error| format!("{REASONS}: {error}"))?;
        for Survivor { file, line, reason, .. } in &reasons.survivor {
            let code = fs::read_to_string(root.join(file)).unwrap_or_default();
            if !code.lines().any(|text| text.trim() == line) {
                return Err(format!("{REASONS}: {file} has no line {line:?}"));
            }
            if reason.split_whitespace().count() < 3 {
                return Err(format!("{REASONS}: {file}, {line:?}: {reason:?} is no reason"));
            }
        }
        Ok(reasons)
    }

    /// An empty list, for a machine without the tree.
    pub(crate) fn none() -> Self {
        Self { survivor: Vec::new() }
    }

    fn of(&self, mutant: &Mutant) -> Option<&str> {
        let is_it = |survivor: &&Survivor| {
            survivor.file == mutant.file
                && survivor.line == mutant.text
                && (survivor.mutants.is_empty() || survivor.mutants.contains(&mutant.what))
        };
        self.survivor.iter().find(is_it).map(|survivor| survivor.reason.as_str())
    }

    /// The entries that name a mutant which does not exist.
    fn unknown(&self, mutants: &[Mutant]) -> Vec<String> {
        let is_known = |survivor: &Survivor, what: &String| {
            mutants
                .iter()
                .any(|one| one.file == survivor.file && one.text == survivor.line && one.what == *what)
        };
        let names = self
            .survivor
            .iter()
            .flat_map(|survivor| survivor.mutants.iter().map(move |what| (survivor, what)));
        let unknown = names.filter(|(survivor, what)| !is_known(survivor, what));
        unknown.map(|(survivor, what)| format!("{}: {what}", survivor.file)).collect()
    }
}

/// The results of a room.
#[derive(Default)]
struct Tally<'a> {
    noticed: usize,
    hanging: usize,
    excused: usize,
    survivors: Vec<(&'a Mutant, Verdict, &'a str)>,
    /// How many of the others no test noticed, but a seed of the simulator.
    by_seeds: usize,
}

impl Tally<'_> {
    fn played(&self) -> usize {
        self.noticed + self.hanging + self.excused + self.survivors.len()
    }

    fn is_fine(&self) -> bool {
        self.survivors.len() * 100 <= self.played() * SURVIVORS_PERCENT_MAX
    }
}

/// Prints all survivors without a reason, and the share of each room.
///
/// # Errors
/// If too many of a room survive.
pub(crate) fn report(pack: &Pack, reasons: &Reasons) -> Result<(), String> {
    let verdicts: HashMap<String, (Verdict, String)> =
        pack.verdicts().into_iter().map(|(key, verdict, how)| (key, (verdict, how))).collect();
    let mut tallies: BTreeMap<&str, Tally<'_>> = BTreeMap::new();
    for mutant in &pack.plan.mutants {
        let Some((verdict, how)) = verdicts.get(&mutant.key()) else { continue };
        let tally = tallies.entry(&mutant.room).or_default();
        match verdict {
            Verdict::Noticed => tally.noticed += 1,
            Verdict::Hangs => tally.hanging += 1,
            Verdict::Survives | Verdict::NotReached if reasons.of(mutant).is_some() => tally.excused += 1,
            Verdict::Survives | Verdict::NotReached => tally.survivors.push((mutant, *verdict, how.as_str())),
        }
        if matches!(verdict, Verdict::Noticed | Verdict::Hangs) && is_by_seed(how) {
            tally.by_seeds += 1;
            println!("{} [{how}] {}", verdict.word(), mutant.shown());
        }
    }
    for (mutant, verdict, how) in tallies.values().flat_map(|tally| &tally.survivors) {
        let tried = if how.is_empty() { String::new() } else { format!("[{how}] ") };
        println!("{} {tried}{}", verdict.word(), mutant.shown());
    }
    reasons.unknown(&pack.plan.mutants).iter().for_each(|name| println!("{REASONS} names no mutant: {name}"));
    tallies.iter().for_each(|(room, tally)| tell(room, tally, pack));
    let bad: Vec<&str> =
        tallies.iter().filter(|(_, tally)| !tally.is_fine()).map(|(room, _)| *room).collect();
    if bad.is_empty() {
        return Ok(());
    }
    Err(format!("more than {SURVIVORS_PERCENT_MAX} % survive without a reason in {}", bad.join(", ")))
}

/// Reports whether a seed has noticed a mutant, and no test.
fn is_by_seed(how: &str) -> bool {
    how.starts_with("seed ") || how.starts_with("seeds of ")
}

fn tell(room: &str, tally: &Tally<'_>, pack: &Pack) {
    let all = pack.plan.mutants.iter().filter(|mutant| mutant.room == room).count();
    let left_out = pack.plan.left_out.iter().find(|(name, _)| name == room).map_or(0, |(_, count)| *count);
    let (played, left) = (tally.played(), tally.survivors.len());
    let not_reached =
        tally.survivors.iter().filter(|(_, verdict, _)| *verdict == Verdict::NotReached).count();
    let (low, high) = interval(left, played);
    println!(
        "{room}: {played} of {all} played ({left_out} more do not compile): {} noticed, {} hang, {} of both only by \
         seeds, {} survive with a reason, {left} without ({not_reached} of them not reached): {:.1} % (95 %: {:.1} \
         to {:.1} %)",
        tally.noticed,
        tally.hanging,
        tally.by_seeds,
        tally.excused,
        100.0 * share(left, played),
        100.0 * low,
        100.0 * high
    );
}

#[expect(clippy::cast_precision_loss, reason = "there are thousands of mutants")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Wilson's interval: the share in which the whole lies in 95 of 100 samples.
#[expect(clippy::cast_precision_loss, reason = "there are thousands of mutants")]
fn interval(part: usize, whole: usize) -> (f64, f64) {
    if whole == 0 {
        return (0.0, 1.0);
    }
    let (z, n, p) = (1.96_f64, whole as f64, share(part, whole));
    let middle = p + z * z / (2.0 * n);
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::run::root;

    #[test]
    fn the_interval_is_wilsons() {
        let (low, high) = interval(5, 100);
        assert!((low - 0.0215).abs() < 0.0005 && (high - 0.1118).abs() < 0.0005, "{low} {high}");
        assert_eq!(interval(0, 0), (0.0, 1.0));
        assert!(interval(0, 50).0.abs() < 1e-9);
    }

    #[test]
    fn one_survivor_of_twenty_is_borne() {
        let text = String::new;
        let one = Mutant {
            number: 1,
            room: text(),
            file: text(),
            line: 1,
            text: text(),
            function: text(),
            what: text(),
        };
        let tally = |noticed, survivors| Tally {
            noticed,
            survivors: vec![(&one, Verdict::Survives, ""); survivors],
            ..Tally::default()
        };
        assert!(tally(19, 1).is_fine() && tally(0, 0).is_fine());
        assert!(!tally(18, 1).is_fine() && !tally(0, 1).is_fine());
    }

    #[test]
    fn each_reason_is_for_a_line_that_exists() {
        Reasons::read(&root()).map(drop).expect("reasons");
    }

    #[test]
    fn a_reason_whose_line_is_gone_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("xtask/mutants")).expect("a folder");
        let list = "[[survivor]]\nfile = \"a.rs\"\nline = \"a < b\"\nreason = \"both are the same\"\n";
        fs::write(folder.path().join(REASONS), list).expect("a file");
        fs::write(folder.path().join("a.rs"), "  a < b\n").expect("a file");
        assert!(Reasons::read(folder.path()).is_ok());
        fs::write(folder.path().join("a.rs"), "a < b + 1\n").expect("a file");
        let told = Reasons::read(folder.path()).map(drop).expect_err("a reason for nothing");
        assert!(told.contains("a.rs has no line"), "{told}");
    }
}
