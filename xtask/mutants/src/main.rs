//! `cargo xtask mutants --operators`: mutants by operators, many of them compiled into one program.
//!
//! A copy of the tree gets all mutants of a crate at once. Each has a number, and an environment variable
//! chooses one when a program of tests starts, so nothing is built again. Each test runs alone once without
//! a mutant, and tells which mutants it reaches. A mutant is played with the tests that reach it.
//!
//! The folder with the programs can be taken to another machine, where its program `play` plays them
//! without cargo.

mod find;
mod plan;
mod plant;
mod play;
mod report;
mod rooms;
mod simulate;
mod sources;
mod survey;
mod together;
mod tree;
mod values;
mod watch;
mod workers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use xtask::run::{root, target};

use plan::Pack;
use play::Options;
use report::Reasons;
use rooms::{ROOMS, Room};

const USAGE: &str = "usage: cargo xtask mutants --operators [log|replication|coordination|metadata|node ...]
         [--judges PACKAGE,...] [--jobs N] [--minutes N] [--seed N] [--only PART]... [--again]
         [--hang SECONDS] [--seeds N] [--pack FOLDER] [--report]
       FOLDER/play FOLDER [the same options, but --pack]
  --judges   only the tests of these packages, such as tailrace-log
  --again    plays those again that were not noticed
  --only     only mutants with this part in the line that is printed
  --hang     how long tests may take at least (20)
  --seeds    plays what no test has noticed against so many seeds of whole nodes, and 40 times as many
             of one partition for log and replication; again for as many minutes at most
  --pack     builds the programs into the folder, and plays nothing
  --report   builds and plays nothing, and prints what was found so far
  --reaching PART  prints the tests that reach mutants with this part in the line that is printed";

struct Wanted {
    rooms: Vec<&'static Room>,
    play: Options,
    pack: Option<PathBuf>,
    only_report: bool,
    reaching: Option<String>,
}

impl Wanted {
    fn of(arguments: &[String]) -> Result<Self, String> {
        let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
        let jobs = std::thread::available_parallelism().map_or(2, usize::from);
        let play = Options {
            jobs,
            minutes: 120,
            seed: day,
            rooms: Vec::new(),
            judges: Vec::new(),
            parts: Vec::new(),
            again: false,
            hang_seconds: 20,
            seeds: 0,
        };
        let mut wanted = Self { rooms: Vec::new(), play, pack: None, only_report: false, reaching: None };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            wanted.read(argument, &mut rest)?;
        }
        if wanted.rooms.is_empty() {
            wanted.rooms = ROOMS.iter().collect();
        }
        wanted.play.rooms = wanted.rooms.iter().map(|room| room.name.to_owned()).collect();
        Ok(wanted)
    }

    fn read<'a>(
        &mut self,
        argument: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let mut text = || rest.next().cloned().ok_or(USAGE);
        match argument {
            "--judges" => self.play.judges.extend(text()?.split(',').map(str::to_owned)),
            "--jobs" => self.play.jobs = number(&text()?)?,
            "--minutes" => self.play.minutes = number(&text()?)?,
            "--seed" => self.play.seed = number(&text()?)?,
            "--hang" => self.play.hang_seconds = number(&text()?)?,
            "--only" => self.play.parts.push(text()?),
            "--again" => self.play.again = true,
            "--seeds" => self.play.seeds = number(&text()?)?,
            "--pack" => self.pack = Some(PathBuf::from(text()?)),
            "--report" => self.only_report = true,
            "--reaching" => self.reaching = Some(text()?),
            name => self.rooms.push(rooms::of_name(name).ok_or(USAGE)?),
        }
        Ok(())
    }

    /// The packages whose tests are built.
    fn judges(&self) -> Vec<&'static str> {
        let mut judges: Vec<&str> = self.rooms.iter().flat_map(|room| room.judges).copied().collect();
        judges.sort_unstable();
        judges.dedup();
        judges
            .retain(|judge| self.play.judges.is_empty() || self.play.judges.iter().any(|name| name == judge));
        judges
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| USAGE.to_owned())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let is_player = arguments.first().is_some_and(|program| Path::new(program).ends_with("play"));
    let done = match arguments.get(1..) {
        Some([folder, rest @ ..]) if is_player => play_here(Path::new(folder), rest),
        Some(rest) if !is_player => task(rest),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("mutants: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Builds, plays and reports, in the tree.
fn task(arguments: &[String]) -> Result<(), String> {
    let wanted = Wanted::of(arguments)?;
    let reasons = Reasons::read(&root())?;
    let folder = wanted.pack.clone().unwrap_or_else(|| target().join("mutants/pack"));
    if wanted.reaching.is_none() && !wanted.only_report {
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        together::build(&wanted.rooms, &wanted.judges(), wanted.play.seeds > 0, &folder)?;
        if wanted.pack.is_some() {
            return Ok(());
        }
    }
    played(&wanted, &folder, &reasons)
}

/// Plays a pack on a machine without the tree.
fn play_here(folder: &Path, arguments: &[String]) -> Result<(), String> {
    played(&Wanted::of(arguments)?, folder, &Reasons::none())
}

fn played(wanted: &Wanted, folder: &Path, reasons: &Reasons) -> Result<(), String> {
    let pack = Pack::open(folder)?;
    if let Some(part) = &wanted.reaching {
        return play::reaching(&pack, part);
    }
    if !wanted.only_report {
        play::play(&pack, &wanted.play)?;
        if wanted.play.seeds > 0 {
            simulate::simulate(&pack, &wanted.play)?;
        }
    }
    report::report(&pack, reasons)
}
