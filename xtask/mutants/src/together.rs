//! Writes all mutants into a copy of the tree, leaves out those that do not compile, and builds the tests.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::run::{root, target, tracked};

use crate::find::{self, Site};
use crate::plan::{Mutant, Pack, Plan, Program};
use crate::plant::{Planted, plant};
use crate::rooms::{Room, features, is_judge};
use crate::sources::{self, Source};
use crate::tree::{Diagnostic, Message, Said, Tree};

/// The simulator, as its campaigns run. Without optimisation it would take ten times as long.
const SIMULATOR: [&str; 6] = ["--profile", "sim", "-p", "tailrace-sim", "--example", "campaign"];

/// How often the tree is built until all is left out that does not compile.
const ROUNDS_MAX: usize = 60;

/// The mutants that did not compile, from one build to the next.
const LEFT_OUT: &str = "mutants/left-out.json";

/// A file with mutants.
struct Planting {
    source: Source,
    sites: Vec<Site>,
    /// The number of its first mutant.
    first: usize,
    planted: Planted,
}

struct Together {
    tree: Tree,
    files: Vec<Planting>,
    mutants: Vec<Mutant>,
    left_out: BTreeSet<usize>,
}

/// Builds the tests of `judges` with the mutants of the rooms, and the simulator if it is wanted. Leaves all
/// in the folder `pack`.
pub(crate) fn build(
    rooms: &[&'static Room],
    judges: &[&str],
    has_simulator: bool,
    pack: &Path,
) -> Result<(), String> {
    let mut together = Together::find(rooms)?;
    let all = together.mutants.len();
    together.left_out = together.known_left_out();
    together.write()?;
    let packages: Vec<String> = rooms.iter().map(|room| room.package()).collect();
    let checked: Vec<&str> = packages.iter().map(String::as_str).collect();
    together.compile("check", &[vec!["--keep-going"], of_packages(&checked)].concat())?;
    together.remember_left_out()?;
    let built = together.compile("test", &[vec!["--no-run", "--tests"], of_packages(judges)].concat())?;
    together.remember_left_out()?;
    println!("{all} mutants, of which {} do not compile together with the others", together.left_out.len());
    let programs = copy_programs(together.tree.path(), &built, pack)?;
    let simulator = if has_simulator { Some(together.simulator(pack)?) } else { None };
    copy_files(together.tree.path(), &programs, pack)?;
    let copied = fs::copy(std::env::current_exe().map_err(|error| error.to_string())?, pack.join("play"));
    copied.map_err(|error| format!("{}: {error}", pack.display()))?;
    Pack::write_plan(pack, &Plan { simulator, ..together.plan(rooms, programs) })
}

fn of_packages<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let chosen = packages.iter().flat_map(|package| ["-p", package]);
    let features =
        packages.iter().filter_map(|package| features(package)).flat_map(|name| ["--features", name]);
    chosen.chain(features).collect()
}

impl Together {
    fn find(rooms: &[&Room]) -> Result<Self, String> {
        let (mut files, mut mutants) = (Vec::new(), Vec::new());
        for room in rooms {
            for source in sources::of_crate(&root(), room.folder)? {
                let sites = find::sites(&source);
                let first = mutants.len() + 1;
                list(room.name, &source, &sites, &mut mutants);
                files.push(Planting { source, sites, first, planted: Planted::default() });
            }
        }
        let names: HashSet<&str> = files.iter().map(|file| file.source.path.as_str()).collect();
        Ok(Self { tree: Tree::copy(&names)?, files, mutants, left_out: BTreeSet::new() })
    }

    fn write(&mut self) -> Result<(), String> {
        for Planting { source, sites, first, planted } in &mut self.files {
            *planted = plant(&source.text, sites, *first, &self.left_out);
            self.tree.write(&source.path, planted.text.as_bytes())?;
        }
        Ok(())
    }

    /// Runs cargo until it is content, and leaves out what it complains about.
    fn compile(&mut self, task: &str, arguments: &[&str]) -> Result<Said, String> {
        for round in 1..=ROUNDS_MAX {
            let said = self.tree.cargo(task, arguments)?;
            if said.is_fine {
                return Ok(said);
            }
            let before = self.left_out.len();
            for error in said.diagnostics() {
                self.leave_out(error);
            }
            let count = self.left_out.len() - before;
            eprintln!("{task}, round {round}: {count} mutants do not compile together with the others");
            if count == 0 {
                return Err(format!("the tree with all mutants does not compile:\n{}", said.text()));
            }
            self.write()?;
        }
        Err(format!("the tree with all mutants does not compile after {ROUNDS_MAX} rounds"))
    }

    fn leave_out(&mut self, error: &Diagnostic) {
        for span in error.spans.iter().filter(|span| span.is_primary) {
            let Some(file) = self.files.iter().find(|file| file.source.path == span.file_name) else {
                continue;
            };
            let blamed = file.planted.blamed(&(span.byte_start..span.byte_end), &file.sites, file.first);
            if blamed.is_empty() {
                eprintln!("{}: all mutants are left out: {}", span.file_name, error.message);
                self.left_out.extend(file.planted.numbers());
            }
            self.left_out.extend(blamed);
        }
    }

    fn known_left_out(&self) -> BTreeSet<usize> {
        let text = fs::read_to_string(target().join(LEFT_OUT)).unwrap_or_default();
        let keys: HashSet<String> = serde_json::from_str(&text).unwrap_or_default();
        let known = self.mutants.iter().filter(|mutant| keys.contains(&mutant.key()));
        known.map(|mutant| mutant.number).collect()
    }

    fn remember_left_out(&self) -> Result<(), String> {
        let keys: Vec<String> =
            self.mutants.iter().filter(|one| self.left_out.contains(&one.number)).map(Mutant::key).collect();
        let text = serde_json::to_string(&keys).map_err(|error| error.to_string())?;
        fs::write(target().join(LEFT_OUT), text).map_err(|error| format!("{LEFT_OUT}: {error}"))
    }

    fn plan(self, rooms: &[&Room], programs: Vec<Program>) -> Plan {
        let is_out = |mutant: &&Mutant| self.left_out.contains(&mutant.number);
        let of_room =
            |room: &Room| self.mutants.iter().filter(is_out).filter(|one| one.room == room.name).count();
        let left_out = rooms.iter().map(|room| (room.name.to_owned(), of_room(room))).collect();
        let mutants = self.mutants.iter().filter(|mutant| !is_out(mutant)).cloned().collect();
        Plan { tree: self.tree.path().to_owned(), mutants, left_out, programs, simulator: None }
    }

    /// Builds the simulator, and returns the name of its file.
    fn simulator(&mut self, pack: &Path) -> Result<String, String> {
        let built = self.compile("build", &SIMULATOR)?;
        let is_it = |said: &&Message| said.executable.as_ref().is_some_and(|file| file.ends_with("campaign"));
        let program = built.messages.iter().find(is_it).and_then(|said| said.executable.as_ref());
        let name = "simulator".to_owned();
        strip(program.ok_or("cargo built no simulator")?, &pack.join("programs").join(&name))?;
        Ok(name)
    }
}

/// Lists the mutants of a file. Those that nothing else distinguishes get a number.
fn list(room: &str, source: &Source, sites: &[Site], mutants: &mut Vec<Mutant>) {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut known: HashMap<String, usize> = HashMap::new();
    for change in sites.iter().flat_map(|site| &site.changes) {
        let mut mutant = Mutant {
            number: mutants.len() + 1,
            room: room.to_owned(),
            file: source.path.clone(),
            line: change.line,
            text: lines.get(change.line - 1).unwrap_or(&"").trim().to_owned(),
            function: change.function.clone(),
            what: change.what.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let count = known.entry(mutant.key()).or_default();
        *count += 1;
        if *count > 1 {
            mutant.what = format!("{} #{count}", mutant.what);
        }
        mutants.push(mutant);
    }
}

/// Copies the built programs of tests, without symbols.
fn copy_programs(tree: &Path, built: &Said, pack: &Path) -> Result<Vec<Program>, String> {
    let folder = pack.join("programs");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut programs = Vec::new();
    for said in built.messages.iter().filter(|said| said.reason == "compiler-artifact") {
        let (Some(from), Some(manifest)) = (&said.executable, &said.manifest_path) else { continue };
        let of_package = manifest.parent().and_then(|folder| folder.strip_prefix(tree).ok());
        let (Some(of_package), true) =
            (of_package, said.profile.as_ref().is_some_and(|profile| profile.test))
        else {
            continue;
        };
        let package = format!("tailrace-{}", of_package.file_name().unwrap_or_default().to_string_lossy());
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
        if !is_judge(&package, name) {
            continue;
        }
        let file = format!("{package}.{name}");
        strip(from, &folder.join(&file))?;
        programs.push(Program { package, file, folder: of_package.to_owned() });
    }
    Ok(programs)
}

fn strip(from: &Path, to: &Path) -> Result<(), String> {
    let stripped = Command::new("strip").arg("-o").arg(to).arg(from).status();
    if stripped.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", to.display()))
}

/// Copies the files that tests read, for machines that do not have the tree.
fn copy_files(tree: &Path, programs: &[Program], pack: &Path) -> Result<(), String> {
    let folders: BTreeSet<&PathBuf> = programs.iter().map(|program| &program.folder).collect();
    for name in tracked()? {
        let is_read =
            folders.iter().any(|folder| Path::new(&name).starts_with(folder)) && !name.ends_with(".rs");
        let (from, to) = (tree.join(&name), pack.join("tree").join(&name));
        if is_read && from.is_file() {
            let copied = fs::create_dir_all(to.parent().unwrap_or(pack)).and_then(|()| fs::copy(&from, &to));
            copied.map_err(|error| format!("{}: {error}", to.display()))?;
        }
    }
    Ok(())
}
