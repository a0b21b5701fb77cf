//! Development tasks: `cargo xtask TASK`. What CI runs is `check` and `test`.

mod bench;
mod check;
mod codegen;
mod docs;
mod fuzz;
mod judge;
mod mutants;
mod prove;
mod run;
mod sim;
mod subjects;
mod test;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask TASK
  check [--quick | --list | STEP...]
                           format, lints, structure, documents, spelling, generated code, dependencies, licences; quick: what takes seconds
  test [-p CRATE]...       every test that needs nothing but Rust, and where the time went
  docs [--check]           write docs/configuration.md from the tables of settings; check: it, links, long lines, habits of writing
  codegen [--jar PATH] [--check]
                           generate the Kafka messages from the definitions in kafka-clients
  fuzz [SECONDS]           run every fuzz target for so long (60); needs nightly Rust and cargo-fuzz
  prove subjects [--full | --miri]
                           models, histories and broken variants of the matcher; full: more of it, and its churn under ThreadSanitizer
                           and Miri (nightly Rust); miri: all its tests under Miri, which finds undefined behaviour (hours)
  prove node [--full]      models of what threads of a node share; full: more runs of them
  sim [--nodes | --group | --bugs] [--seeds N] [--seed FIRST] [--storm MS] [--without | --only NUMBERS]
                           nodes as they ship, a whole cluster, or a replicated partition, under faults; N seeds (200 of each) from FIRST (0), each twice; --seed alone
                           replays one, without some faults if so wanted; bugs: each deliberate one must be noticed. See docs/simulation.md
  judge [--seeds N] [--seed FIRST]
                           histories of simulated runs, judged by adya, a port of Jepsen's Elle that it installs
  mutants [--list] [PART OF A NAME...] | --operators [ROOM...] [--minutes N] [--seed N]
                           plants the bugs of xtask/mutants.toml, or some by operators (cargo-mutants), one at a time, and says which of
                           them nobody notices
  bench kafka [OPTIONS]    compare with Apache Kafka on this machine: see docs/benchmarks/kafka.md
  bench nats [OPTIONS]     compare with nats-server on this machine: see docs/benchmarks/nats.md
  bench groups [OPTIONS]   compare groups, transactions and compaction with Apache Kafka's: see docs/benchmarks/groups.md
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
        "mutants" => mutants::run(rest),
        "bench" => bench::run(rest),
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
