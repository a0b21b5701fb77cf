//! Plays mutants: runs the tests that reach one, the quick ones first, until one of them fails.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::plan::{Mutant, Pack, Test, Verdict, note};
use crate::rooms;
use crate::survey::survey;
use crate::watch::{End, Run, Told, run};
use crate::workers::each;

/// What tests may take with a mutant, as a multiple of what they take without.
const TIMES_MAX: u64 = 5;

/// What the tests that run in one process take at least and at most, in milliseconds. The first ones are
/// quick, because they notice most mutants.
const FIRST_MILLIS: u64 = 500;
const MILLIS_MAX: u64 = 30_000;

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) jobs: usize,
    pub(crate) minutes: u64,
    pub(crate) seed: u64,
    /// The rooms whose mutants are played. None means all.
    pub(crate) rooms: Vec<String>,
    /// The packages whose tests judge. None means all that a room names.
    pub(crate) judges: Vec<String>,
    /// Only mutants with one of these parts in what is shown of them.
    pub(crate) parts: Vec<String>,
    /// Plays those again that were not noticed.
    pub(crate) again: bool,
    /// What tests may take at least, in seconds.
    pub(crate) hang_seconds: u64,
    /// The seeds of whole nodes that are played with each mutant that no test notices.
    pub(crate) seeds: u64,
}

impl Options {
    /// Reports whether a mutant is among those that are wanted.
    pub(crate) fn names(&self, mutant: &Mutant) -> bool {
        let is_part = |part: &String| mutant.shown().contains(part.as_str());
        let is_room = self.rooms.is_empty() || self.rooms.contains(&mutant.room);
        is_room && (self.parts.is_empty() || self.parts.iter().any(is_part))
    }
}

/// The verdict on a mutant, and the test.
type Judged = (Verdict, String);

struct Player<'a> {
    pack: &'a Pack,
    options: &'a Options,
    tests: Vec<Test>,
    /// The tests that reach a mutant, by its number.
    reaching: HashMap<usize, Vec<usize>>,
    scratch: PathBuf,
}

/// Plays mutants of a pack until the time is over, and appends the verdicts to its results.
pub(crate) fn play(pack: &Pack, options: &Options) -> Result<(), String> {
    give_files(pack)?;
    let scratch = std::env::temp_dir().join(format!("tailrace-mutants-{}", std::process::id()));
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let played = play_in(pack, options, &scratch);
    drop(fs::remove_dir_all(&scratch));
    played
}

fn play_in(pack: &Pack, options: &Options, scratch: &Path) -> Result<(), String> {
    let began = Instant::now();
    let tests = survey(pack, options.jobs, scratch)?;
    let mut reaching: HashMap<usize, Vec<usize>> = HashMap::new();
    for (index, test) in tests.iter().enumerate() {
        test.reached.iter().for_each(|mutant| reaching.entry(*mutant).or_default().push(index));
    }
    let player = Player { pack, options, tests, reaching, scratch: scratch.to_owned() };
    let chosen = chosen(pack, options);
    println!("{} mutants to play; seed {}, {} minutes", chosen.len(), options.seed, options.minutes);
    let (results, time) = (Mutex::new(pack.results()?), Duration::from_secs(60 * options.minutes));
    each(&chosen, options.jobs, |mutant| {
        if began.elapsed() >= time {
            return Ok(());
        }
        let (verdict, how) = player.judge(mutant)?;
        println!("{} [{how}] {}", verdict.word(), mutant.shown());
        note(&mut results.lock().unwrap_or_else(PoisonError::into_inner), mutant, verdict, &how)
    })
    .map(drop)
}

/// Tests look for their files where they were built. On another machine this leads to the files of the pack.
fn give_files(pack: &Pack) -> Result<(), String> {
    let tree = &pack.plan.tree;
    if tree.exists() {
        return Ok(());
    }
    let files = pack.path.join("tree").canonicalize().map_err(|error| format!("the pack's tree: {error}"))?;
    fs::create_dir_all(tree.parent().unwrap_or(tree))
        .and_then(|()| std::os::unix::fs::symlink(files, tree))
        .map_err(|error| format!("{}: {error}", tree.display()))
}

/// The mutants to play, in the order of the seed. Rooms take turns, so that a short run sees all of them.
fn chosen<'a>(pack: &'a Pack, options: &Options) -> Vec<&'a Mutant> {
    let verdicts: HashMap<String, Verdict> =
        pack.verdicts().into_iter().map(|(key, verdict, _)| (key, verdict)).collect();
    let is_wanted = |mutant: &&Mutant| {
        let verdict = verdicts.get(&mutant.key());
        let is_due = match verdict {
            None => !options.again,
            Some(verdict) => options.again && !matches!(verdict, Verdict::Noticed | Verdict::Hangs),
        };
        is_due && options.names(mutant)
    };
    in_order(pack.plan.mutants.iter().filter(is_wanted), options.seed)
}

/// Orders mutants by the seed. Rooms take turns.
pub(crate) fn in_order<'a>(mutants: impl Iterator<Item = &'a Mutant>, seed: u64) -> Vec<&'a Mutant> {
    let mut mutants: Vec<&Mutant> = mutants.collect();
    mutants.sort_by_cached_key(|mutant| {
        let mut hasher = DefaultHasher::new();
        (seed, mutant.key()).hash(&mut hasher);
        hasher.finish()
    });
    let mut turns: HashMap<&str, usize> = HashMap::new();
    let mut ordered: Vec<(usize, &Mutant)> = Vec::new();
    for mutant in mutants {
        let turn = turns.entry(&mutant.room).or_default();
        ordered.push((*turn, mutant));
        *turn += 1;
    }
    ordered.sort_by_key(|(turn, _)| *turn);
    ordered.into_iter().map(|(_, mutant)| mutant).collect()
}

impl Player<'_> {
    fn judge(&self, mutant: &Mutant) -> Result<Judged, String> {
        let reaching = self.reaching.get(&mutant.number).map_or(&[][..], Vec::as_slice);
        let Some(room) = rooms::of_name(&mutant.room) else { return Err(format!("no room {}", mutant.room)) };
        let mut verdict = (Verdict::NotReached, String::new());
        for package in room.judges.iter().filter(|package| self.may_judge(package)) {
            for program in 0..self.pack.plan.programs.len() {
                if self.pack.plan.programs[program].package != *package {
                    continue;
                }
                let mut tests: Vec<&Test> = reaching
                    .iter()
                    .map(|test| &self.tests[*test])
                    .filter(|test| test.program == program)
                    .collect();
                tests.sort_by_key(|test| test.millis);
                match self.try_all(program, &tests, mutant)? {
                    None if tests.is_empty() => {}
                    None => verdict.0 = Verdict::Survives,
                    Some(found) => return Ok(found),
                }
            }
        }
        Ok(verdict)
    }

    fn may_judge(&self, package: &str) -> bool {
        self.options.judges.is_empty() || self.options.judges.iter().any(|judge| judge == package)
    }

    /// Runs tests of one program until one fails each time.
    fn try_all(&self, program: usize, tests: &[&Test], mutant: &Mutant) -> Result<Option<Judged>, String> {
        for batch in batches(tests) {
            let mut left = batch.to_vec();
            while !left.is_empty() {
                let failed = match self.run(program, &left, mutant)? {
                    End::Passed => break,
                    End::Endless(test) => return Ok(Some((Verdict::Hangs, test))),
                    End::Failed(test) => test,
                };
                let same: Vec<&Test> =
                    left.iter().copied().filter(|test| failed.starts_with(&test.name)).collect();
                let alone: Vec<&Test> =
                    same.iter().copied().max_by_key(|test| test.name.len()).into_iter().collect();
                match self.run(program, if alone.is_empty() { &left } else { &alone }, mutant)? {
                    End::Failed(_) => return Ok(Some((Verdict::Noticed, failed))),
                    End::Endless(test) => return Ok(Some((Verdict::Hangs, test))),
                    // It failed only once, which says nothing.
                    End::Passed if alone.is_empty() => break,
                    End::Passed => left.retain(|test| test.name != alone[0].name),
                }
            }
        }
        Ok(None)
    }

    fn run(&self, program: usize, tests: &[&Test], mutant: &Mutant) -> Result<End, String> {
        let whole = &self.pack.plan.programs[program];
        let millis: u64 = tests.iter().map(|test| test.millis).sum();
        let limit = Duration::from_millis((TIMES_MAX * millis).max(1000 * self.options.hang_seconds));
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        let (program, folder) = (self.pack.program(whole), self.pack.plan.tree.join(&whole.folder));
        run(&Run { program, folder, tests: &names, limit }, &Told::Chosen(mutant.number), &self.scratch)
    }
}

/// Divides tests among processes: few quick ones first, then ever more.
fn batches<'a, 'b>(mut tests: &'b [&'a Test]) -> Vec<&'b [&'a Test]> {
    let (mut batches, mut most) = (Vec::new(), FIRST_MILLIS);
    while !tests.is_empty() {
        let mut sum = 0;
        let fits = tests.iter().take_while(|test| {
            sum += test.millis;
            sum <= most
        });
        let (batch, rest) = tests.split_at(fits.count().max(1));
        batches.push(batch);
        tests = rest;
        most = (most * 4).min(MILLIS_MAX);
    }
    batches
}

/// The tests of the pack that judge, by name. For those who look at a pack.
pub(crate) fn reaching(pack: &Pack, part: &str) -> Result<(), String> {
    let tests = pack.survey().ok_or("no test was run yet")?;
    let wanted: HashSet<usize> =
        pack.plan.mutants.iter().filter(|one| one.shown().contains(part)).map(|one| one.number).collect();
    for test in tests.iter().filter(|test| test.reached.iter().any(|mutant| wanted.contains(mutant))) {
        println!("{} {} ({} ms)", pack.plan.programs[test.program].file, test.name, test.millis);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(millis: u64) -> Test {
        Test { program: 0, name: String::new(), millis, reached: Vec::new() }
    }

    #[test]
    fn quick_tests_come_first_and_none_is_lost() {
        let all: Vec<Test> = [100, 300, 200, 1000, 900, 90_000, 90_000].map(test).into();
        let all: Vec<&Test> = all.iter().collect();
        let batches: Vec<Vec<u64>> =
            batches(&all).iter().map(|batch| batch.iter().map(|test| test.millis).collect()).collect();
        assert_eq!(batches, [vec![100, 300], vec![200, 1000], vec![900], vec![90_000], vec![90_000]]);
    }
}
