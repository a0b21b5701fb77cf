//! Development tasks: `cargo xtask TASK`. CI runs `check` and `test`.

mod check;
mod codegen;
mod docs;
mod fuzz;
mod judge;
mod mutants;
mod prove;
mod sim;
mod subjects;
mod test;
mod tools;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use xtask::run;

const USAGE: &str = "usage: cargo xtask TASK
  check [--quick | --list | STEP... | --without STEP...]
                           format, lints, structure, documents, spelling, generated code, dependencies,
                           licences; quick: only those that take seconds
  test [-p CRATE]...       every test that needs nothing but Rust, and where the time went
  docs [--check]           write docs/configuration.md from the tables of settings; check: that it is
                           current, and the links, line lengths and wording of all documents
  codegen [--jar PATH] [--check]
                           generate the Kafka messages from the definitions in kafka-clients
  fuzz [SECONDS]           run every fuzz target for SECONDS (60); needs nightly Rust and cargo-fuzz
  prove subjects [--full | --miri]
                           models, histories and broken variants of the subject matcher; full: more of them,
                           and its churn test under ThreadSanitizer and Miri (nightly Rust); miri: all its
                           tests under Miri, which detects undefined behaviour (hours)
  prove node [--full]      models of the state that threads of a node share; full: more runs of them
  sim [--nodes | --group | --bugs] [--seeds N] [--seed FIRST] [--storm MS] [--without | --only NUMBERS]
                           a cluster of real nodes and a replicated partition under faults: N seeds (200)
                           from FIRST (0), each run twice; --seed alone replays one seed; --without and
                           --only choose its faults; bugs: the simulator must detect each deliberate bug.
                           See docs/simulation.md
  judge [--seeds N] [--seed FIRST]
                           check histories of simulated runs with adya, a port of Jepsen's Elle (installed
                           on first use)
  mutants [--list] [PART OF A NAME...]
                           plant the bugs of xtask/mutants.toml, one at a time, and report those that no
                           test or simulator notices
  mutants --operators [CRATE...] [--minutes N] [--seed N] [--pack FOLDER]
                           the same with mutants by operators, compiled together; pack: leave programs for
                           another machine. See docs/simulation.md
  bench kafka [OPTIONS]    compare with Apache Kafka on this machine: see docs/benchmarks/kafka.md
  bench nats [OPTIONS]     compare with nats-server on this machine: see docs/benchmarks/nats.md
  bench groups [OPTIONS]   compare groups, transactions and compaction with Apache Kafka:
                           see docs/benchmarks/groups.md
  bench cluster [OPTIONS]  compare three nodes with three of Apache Kafka: see docs/benchmarks/cluster.md
  bench security [OPTIONS] what users, rules, quotas and TLS cost: see docs/benchmarks/security.md
  bench subjects [OPTIONS] compare the subject matcher with nats-server's: see docs/benchmarks/subjects.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((task, rest)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let result = match task.as_str() {
        "check" => check::run(rest),
        "test" => test::run(rest),
        "docs" => docs::run(rest),
        "codegen" => codegen::run(rest),
        "fuzz" => fuzz::run(rest),
        "prove" => prove::prove(rest),
        "sim" => sim::run(rest),
        "judge" => judge::run(rest),
        "mutants" if rest.first().is_some_and(|first| first == "--operators") => {
            program_of("xtask-mutants", &rest[1..])
        }
        "mutants" => mutants::run(rest),
        "bench" => program_of("xtask-bench", rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask {task}: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a program that is only built for one task. Returns only if it cannot start.
fn program_of(package: &str, arguments: &[String]) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", package, "--"]).args(arguments).current_dir(run::root());
    Err(format!("cargo: {}", command.exec()))
}
