//! Runs each test alone without a mutant: how long it takes, and which mutants it reaches.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::plan::{Pack, Test};
use crate::watch::{End, Run, Told, run};
use crate::workers::each;

/// What a test without a mutant may take.
const LIMIT: Duration = Duration::from_secs(600);

/// Returns the tests of a pack that pass. Those that fail twice are printed and judge nothing.
pub(crate) fn survey(pack: &Pack, jobs: usize, scratch: &Path) -> Result<Vec<Test>, String> {
    if let Some(known) = pack.survey() {
        return Ok(known);
    }
    let mut names = Vec::new();
    for program in 0..pack.plan.programs.len() {
        names.extend(listed(pack, program)?.into_iter().map(|name| (program, name)));
    }
    println!("{} tests are run alone, to see what each reaches", names.len());
    let seen = each(&names, jobs, |(program, name)| look(pack, *program, name, scratch))?;
    let tests: Vec<Test> = seen.into_iter().flatten().flatten().collect();
    let millis: u64 = tests.iter().map(|test| test.millis).sum();
    println!("{} tests judge; one after the other they take {} s", tests.len(), millis / 1000);
    if tests.is_empty() {
        return Err("no test passes without a mutant".to_owned());
    }
    pack.write_survey(&tests)?;
    Ok(tests)
}

/// The tests of a program, without those that are ignored.
fn listed(pack: &Pack, program: usize) -> Result<Vec<String>, String> {
    let ignored = list(pack, program, &["--list", "--format", "terse", "--ignored"])?;
    let all = list(pack, program, &["--list", "--format", "terse"])?;
    Ok(all.into_iter().filter(|name| !ignored.contains(name)).collect())
}

fn list(pack: &Pack, program: usize, arguments: &[&str]) -> Result<Vec<String>, String> {
    let program = &pack.plan.programs[program];
    let mut command = Command::new(pack.program(program));
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", program.file))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

fn look(pack: &Pack, program: usize, name: &str, scratch: &Path) -> Result<Option<Test>, String> {
    let reached = scratch.join(format!("reached-{program}-{}", name.replace("::", "-")));
    let mut seen = End::Passed;
    for _ in 0..2 {
        drop(fs::remove_file(&reached));
        let began = Instant::now();
        let whole = &pack.plan.programs[program];
        let (file, folder) = (pack.program(whole), pack.plan.tree.join(&whole.folder));
        let alone = Run { program: file, folder, tests: &[name], limit: LIMIT };
        seen = run(&alone, &Told::WriteReached(&reached), scratch)?;
        if seen == End::Passed {
            let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let text = fs::read_to_string(&reached).unwrap_or_default();
            drop(fs::remove_file(&reached));
            let reached = text.lines().filter_map(|line| line.parse().ok()).collect();
            return Ok(Some(Test { program, name: name.to_owned(), millis, reached }));
        }
    }
    println!(
        "{}: {name} fails without a mutant, and judges nothing: {seen:?}",
        pack.plan.programs[program].file
    );
    Ok(None)
}
