//! Plays mutants that no test has noticed against seeds of the simulator.
//!
//! The seeds run once without a mutant, and tell which mutants they reach. Those that no seed reaches are not
//! played. A run follows from its seed, so a seed that fails with a mutant notices it each time.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::plan::{Mutant, Pack, Verdict, note};
use crate::play::{Options, in_order};
use crate::rooms;
use crate::watch::{CHOSEN, LIMITS, REACHED};

/// For one seed of whole nodes, so many of one partition are played. They take less time.
const OF_GROUP: u64 = 40;

/// What a simulator may take with a mutant, as a multiple of what it takes without.
const TIMES_MAX: u64 = 5;

/// What it may take without a mutant.
const LIMIT: Duration = Duration::from_secs(7200);

/// The exit status of `timeout` when the limit was reached.
const TIMED_OUT: i32 = 124;

/// The simulator prints this when all seeds have passed.
const NOT_NOTICED: &str = "NOT NOTICED";

/// The most characters of an anomaly that are kept.
const ANOMALY_CHARS: usize = 160;

/// The seeds of a simulator, which pass without a mutant.
struct Seeds {
    simulator: &'static str,
    count: u64,
    took: Duration,
    reached: HashSet<usize>,
}

/// Plays mutants that have survived until the time is over, and appends the verdicts to the results.
pub(crate) fn simulate(pack: &Pack, options: &Options) -> Result<(), String> {
    let survivors = survivors(pack, options);
    let time = Duration::from_secs(60 * options.minutes);
    println!("{} mutants that no test noticed are to be played against seeds", survivors.len());
    let (began, mut results, mut sound) = (Instant::now(), pack.results()?, HashMap::new());
    for (mutant, before) in survivors {
        if began.elapsed() >= time {
            return Ok(());
        }
        let (verdict, how) = judge(pack, options, &mut sound, mutant, before)?;
        println!("{} [{how}] {}", verdict.word(), mutant.shown());
        note(&mut results, mutant, verdict, &how)?;
    }
    Ok(())
}

/// The mutants that tests have not noticed, and seeds have not tried yet.
fn survivors<'a>(pack: &'a Pack, options: &Options) -> Vec<(&'a Mutant, Verdict)> {
    let verdicts: HashMap<String, (Verdict, String)> =
        pack.verdicts().into_iter().map(|(key, verdict, how)| (key, (verdict, how))).collect();
    let left = |mutant: &Mutant| {
        let (verdict, how) = verdicts.get(&mutant.key())?;
        let is_left = matches!(verdict, Verdict::Survives | Verdict::NotReached);
        let is_simulated = rooms::of_name(&mutant.room).is_some_and(|room| !room.simulators.is_empty());
        (is_left && is_simulated && (how.is_empty() || options.again)).then_some(*verdict)
    };
    let chosen = pack.plan.mutants.iter().filter(|mutant| options.names(mutant) && left(mutant).is_some());
    in_order(chosen, options.seed).into_iter().filter_map(|mutant| Some((mutant, left(mutant)?))).collect()
}

/// Plays a mutant with each simulator of its room, until one notices it.
fn judge(
    pack: &Pack,
    options: &Options,
    sound: &mut HashMap<&'static str, Seeds>,
    mutant: &Mutant,
    before: Verdict,
) -> Result<(Verdict, String), String> {
    let simulators = rooms::of_name(&mutant.room).map_or(&[][..], |room| room.simulators);
    let (mut verdict, mut tried) = (before, Vec::new());
    for simulator in simulators {
        if !sound.contains_key(simulator) {
            sound.insert(simulator, Seeds::without_mutant(pack, simulator, options)?);
        }
        let seeds = &sound[simulator];
        if !seeds.reached.contains(&mutant.number) {
            tried.push(format!("not reached by {} seeds of {simulator}", seeds.count));
            continue;
        }
        match seeds.play(pack, mutant, options)? {
            None => {
                verdict = Verdict::Survives;
                tried.push(format!("not noticed by {} seeds of {simulator}", seeds.count));
            }
            Some(found) => return Ok(found),
        }
    }
    Ok((verdict, tried.join(", ")))
}

impl Seeds {
    fn without_mutant(pack: &Pack, simulator: &'static str, options: &Options) -> Result<Self, String> {
        let count = options.seeds * if simulator == "group" { OF_GROUP } else { 1 };
        let file = pack.path.join(format!("reached-{simulator}"));
        drop(fs::remove_file(&file));
        println!("{count} seeds of {simulator} run without a mutant, to see what they reach");
        let began = Instant::now();
        let said = run(pack, &["noticed", simulator, "0", &count.to_string()], (REACHED, &file), LIMIT)?;
        let took = began.elapsed();
        let text = fs::read_to_string(&file).unwrap_or_default();
        drop(fs::remove_file(&file));
        if !said.text.contains(NOT_NOTICED) {
            return Err(format!(
                "{simulator} fails without a mutant, and can judge nothing: {}",
                said.last()
            ));
        }
        let reached = text.lines().filter_map(|line| line.parse().ok()).collect();
        Ok(Self { simulator, count, took, reached })
    }

    /// Plays a mutant. `None` if all seeds pass.
    fn play(
        &self,
        pack: &Pack,
        mutant: &Mutant,
        options: &Options,
    ) -> Result<Option<(Verdict, String)>, String> {
        let least = Duration::from_secs(options.hang_seconds);
        let limit = (self.took * u32::try_from(TIMES_MAX).unwrap_or(1)).max(least);
        let (number, count) = (mutant.number.to_string(), self.count.to_string());
        let chosen = (CHOSEN, Path::new(&number));
        let said = run(pack, &["noticed", self.simulator, "0", &count], chosen, limit)?;
        if said.status == Some(TIMED_OUT) {
            return Ok(Some((Verdict::Hangs, format!("seeds of {}", self.simulator))));
        }
        let how = match said.seed() {
            Some((seed, anomaly)) => format!("seed {seed} of {}: {anomaly}", self.simulator),
            None if said.text.contains(NOT_NOTICED) => return Ok(None),
            // An assertion that nothing caught, or endless allocation.
            None => format!("seeds of {}: it ended with {:?}", self.simulator, said.status),
        };
        Ok(Some((Verdict::Noticed, how)))
    }
}

/// What a simulator printed, and its exit status.
struct Said {
    status: Option<i32>,
    text: String,
}

impl Said {
    /// The first seed that failed, and its anomaly.
    fn seed(&self) -> Option<(u64, String)> {
        self.text.lines().find_map(|line| {
            let (seed, anomaly) = line.strip_prefix("seed ")?.split_once(": ")?;
            let anomaly = anomaly.replace('\t', " ").chars().take(ANOMALY_CHARS).collect();
            Some((seed.parse().ok()?, anomaly))
        })
    }

    fn last(&self) -> &str {
        self.text.lines().rfind(|line| !line.is_empty()).unwrap_or("it printed nothing")
    }
}

fn run(pack: &Pack, arguments: &[&str], told: (&str, &Path), limit: Duration) -> Result<Said, String> {
    let simulator = pack.plan.simulator.as_ref().ok_or("the pack has no simulator: build it with --seeds")?;
    let output = Command::new("timeout")
        .args(["--kill-after=5", &limit.as_secs().max(1).to_string(), "sh", "-c", LIMITS, "sh"])
        .arg(pack.path.join("programs").join(simulator))
        .args(arguments)
        .env(told.0, told.1)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("timeout could not be started: {error}"))?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Said { status: output.status.code(), text: text.join("\n") })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;
    use crate::plan::Plan;

    /// Takes the place of the simulator: what happens depends on the mutant.
    const SCRIPT: &str = "#!/bin/sh
if [ -n \"$TAILRACE_PLANTED_REACHED\" ]; then
  printf '1\\n2\\n3\\n4\\n' > \"$TAILRACE_PLANTED_REACHED\"
fi
case \"$TAILRACE_PLANTED\" in
  1) echo \"seed 2: a record is gone\"; exit 0 ;;
  3) kill -9 $$ ;;
  4) sleep 600 ;;
esac
echo \"NOT NOTICED by $4 seeds\"
exit 1
";

    fn mutant(number: usize, room: &str) -> Mutant {
        let text = |what: &str| format!("{what} {number}");
        Mutant {
            number,
            room: room.to_owned(),
            file: text("file"),
            line: 1,
            text: text("text"),
            function: text("function"),
            what: text("what"),
        }
    }

    fn pack(rooms: &[&str], script: &str) -> (TempDir, Pack) {
        let folder = tempfile::tempdir().expect("a folder");
        let mutants: Vec<Mutant> = rooms.iter().zip(1..).map(|(room, number)| mutant(number, room)).collect();
        let plan = Plan { mutants, simulator: Some("simulator".to_owned()), ..Plan::default() };
        Pack::write_plan(folder.path(), &plan).expect("a plan");
        let pack = Pack::open(folder.path()).expect("a pack");
        let program = folder.path().join("programs/simulator");
        fs::create_dir_all(folder.path().join("programs")).expect("a folder");
        fs::write(&program, script).expect("a script");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it may run");
        (folder, pack)
    }

    fn options() -> Options {
        Options { seeds: 3, minutes: 5, hang_seconds: 1, ..Options::default() }
    }

    #[test]
    fn survivors_are_played_against_seeds() {
        let (_folder, pack) = pack(&["node"; 6], SCRIPT);
        let mut results = pack.results().expect("a file");
        for (mutant, verdict) in pack.plan.mutants.iter().zip([
            Verdict::Survives,
            Verdict::NotReached,
            Verdict::Survives,
            Verdict::Survives,
            Verdict::NotReached,
            Verdict::Noticed,
        ]) {
            note(&mut results, mutant, verdict, "").expect("written");
        }
        simulate(&pack, &options()).expect("no error");
        let mut latest = HashMap::new();
        pack.verdicts().into_iter().for_each(|(key, verdict, how)| drop(latest.insert(key, (verdict, how))));
        let found: Vec<_> = pack.plan.mutants.iter().map(|mutant| latest[&mutant.key()].clone()).collect();
        let told = |verdict: Verdict, how: &str| (verdict, how.to_owned());
        assert_eq!(found[0], told(Verdict::Noticed, "seed 2 of nodes: a record is gone"));
        // The seeds reach what no test reached.
        assert_eq!(found[1], told(Verdict::Survives, "not noticed by 3 seeds of nodes"));
        assert_eq!(found[2].0, Verdict::Noticed);
        assert_eq!(found[3], told(Verdict::Hangs, "seeds of nodes"));
        assert_eq!(found[4], told(Verdict::NotReached, "not reached by 3 seeds of nodes"));
        assert_eq!(found[5], told(Verdict::Noticed, ""));
        // Those that are left were played already.
        assert!(survivors(&pack, &options()).is_empty());
        assert_eq!(survivors(&pack, &Options { again: true, ..options() }).len(), 2);
    }

    #[test]
    fn a_partition_is_played_before_whole_nodes_and_with_more_seeds() {
        let (_folder, pack) = pack(&["node", "replication"], SCRIPT);
        let mutant = &pack.plan.mutants[1];
        let judged = judge(&pack, &options(), &mut HashMap::new(), mutant, Verdict::Survives);
        let how = "not noticed by 120 seeds of group, not noticed by 3 seeds of nodes".to_owned();
        assert_eq!(judged, Ok((Verdict::Survives, how)));
    }

    #[test]
    fn seeds_that_fail_without_a_mutant_judge_nothing() {
        let (_folder, pack) = pack(&["node"], "#!/bin/sh\necho 'seed 0: a record is gone'\n");
        let mutant = &pack.plan.mutants[0];
        let judged = judge(&pack, &options(), &mut HashMap::new(), mutant, Verdict::Survives);
        assert!(judged.is_err_and(|reason| reason.contains("fails without a mutant")));
    }
}
