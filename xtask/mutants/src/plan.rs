//! What a folder of programs says about itself: its mutants, its programs, and what was found out with them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const PLAN: &str = "plan.json";
const SURVEY: &str = "survey.json";
const RESULTS: &str = "results";

/// A mutant in the programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mutant {
    pub(crate) number: usize,
    pub(crate) room: String,
    /// Its place in the workspace.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The text of the line.
    pub(crate) text: String,
    pub(crate) function: String,
    /// What it changes.
    pub(crate) what: String,
}

impl Mutant {
    /// A name that stays when other lines of the file change.
    pub(crate) fn key(&self) -> String {
        [&self.file, &self.function, &self.text, &self.what].map(String::as_str).join("\t")
    }

    /// How a person finds it.
    pub(crate) fn shown(&self) -> String {
        format!("{}:{}: {} ({}) | {}", self.file, self.line, self.what, self.function, self.text)
    }
}

/// A program of tests.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// The file in the folder `programs`.
    pub(crate) file: String,
    /// The folder of the package, in the tree.
    pub(crate) folder: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Where the tests look for their files.
    pub(crate) tree: PathBuf,
    pub(crate) mutants: Vec<Mutant>,
    /// How many mutants of each room do not compile together with the others.
    pub(crate) left_out: Vec<(String, usize)>,
    pub(crate) programs: Vec<Program>,
    /// The file of the simulator in the folder `programs`, if it was built.
    #[serde(default)]
    pub(crate) simulator: Option<String>,
}

/// A test that passes without a mutant.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Test {
    /// The place of its program in the plan.
    pub(crate) program: usize,
    pub(crate) name: String,
    pub(crate) millis: u64,
    /// The mutants whose code it runs.
    pub(crate) reached: Vec<usize>,
}

/// A verdict on a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Noticed,
    Hangs,
    Survives,
    NotReached,
}

impl Verdict {
    const ALL: [Self; 4] = [Self::Noticed, Self::Hangs, Self::Survives, Self::NotReached];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Noticed => "noticed",
            Self::Hangs => "hangs",
            Self::Survives => "SURVIVES",
            Self::NotReached => "NOT REACHED",
        }
    }
}

/// A folder with a plan, its programs and its results.
pub(crate) struct Pack {
    pub(crate) path: PathBuf,
    pub(crate) plan: Plan,
}

impl Pack {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        // Programs start in the folders of their packages.
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { plan: read(&path.join(PLAN))?, path })
    }

    /// Writes the plan of programs that were just built. What tests reached before is forgotten: mutants have
    /// other numbers now, and tests may be others.
    pub(crate) fn write_plan(path: &Path, plan: &Plan) -> Result<(), String> {
        let survey = path.join(SURVEY);
        if survey.exists() {
            fs::remove_file(&survey).map_err(|error| format!("{}: {error}", survey.display()))?;
        }
        write(&path.join(PLAN), plan)
    }

    pub(crate) fn program(&self, program: &Program) -> PathBuf {
        self.path.join("programs").join(&program.file)
    }

    /// What the tests reach, if it is known.
    pub(crate) fn survey(&self) -> Option<Vec<Test>> {
        read(&self.path.join(SURVEY)).ok()
    }

    pub(crate) fn write_survey(&self, tests: &[Test]) -> Result<(), String> {
        write(&self.path.join(SURVEY), &tests)
    }

    /// The verdicts so far, by key. A later one replaces an earlier one.
    pub(crate) fn verdicts(&self) -> Vec<(String, Verdict, String)> {
        fs::read_to_string(self.path.join(RESULTS)).unwrap_or_default().lines().filter_map(of_line).collect()
    }

    pub(crate) fn results(&self) -> Result<File, String> {
        let path = self.path.join(RESULTS);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Adds a verdict to the results.
pub(crate) fn note(results: &mut File, mutant: &Mutant, verdict: Verdict, how: &str) -> Result<(), String> {
    let line = format!("{}\t{how}\t{}\n", verdict.word(), mutant.key());
    results.write_all(line.as_bytes()).map_err(|error| format!("results: {error}"))
}

fn of_line(line: &str) -> Option<(String, Verdict, String)> {
    let mut parts = line.splitn(3, '\t');
    let (word, how, key) = (parts.next()?, parts.next()?, parts.next()?);
    let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.word() == word)?;
    Some((key.to_owned(), verdict, how.to_owned()))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_reached_is_forgotten_with_the_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        Pack::write_plan(folder.path(), &Plan::default()).expect("a plan");
        let pack = Pack::open(folder.path()).expect("a pack");
        let test = Test { program: 0, name: "a".to_owned(), millis: 1, reached: vec![7] };
        pack.write_survey(&[test]).expect("written");
        assert!(pack.survey().is_some());
        Pack::write_plan(folder.path(), &Plan::default()).expect("the next plan");
        assert!(pack.survey().is_none());
    }

    #[test]
    fn verdicts_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().expect("a folder");
        Pack::write_plan(folder.path(), &Plan::default()).expect("a plan");
        let pack = Pack::open(folder.path()).expect("a pack");
        let [file, text, function, what] = ["a.rs", "a < b", "A::f", "<= in a < b"].map(str::to_owned);
        let mutant = Mutant { number: 7, room: "log".to_owned(), file, line: 3, text, function, what };
        let mut results = pack.results().expect("a file");
        note(&mut results, &mutant, Verdict::NotReached, "").expect("written");
        note(&mut results, &mutant, Verdict::Noticed, "a test").expect("written");
        let key = "a.rs\tA::f\ta < b\t<= in a < b".to_owned();
        let expected =
            [(key.clone(), Verdict::NotReached, String::new()), (key, Verdict::Noticed, "a test".to_owned())];
        assert_eq!(pack.verdicts(), expected);
    }
}
