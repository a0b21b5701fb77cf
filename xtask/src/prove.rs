//! `cargo xtask prove`: checks that show more than ordinary tests do.

use xtask::run;

use crate::subjects;

const USAGE: &str = "usage: cargo xtask prove subjects [--full | --miri]
       cargo xtask prove node [--full]";

pub(crate) fn prove(arguments: &[String]) -> Result<(), String> {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let proved = match words[..] {
        ["subjects", ref options @ ..] => subjects::prove(options),
        ["node"] => Some(node("2000")),
        ["node", "--full"] => Some(node("50000")),
        _ => None,
    };
    proved.unwrap_or_else(|| Err(USAGE.to_owned()))
}

/// Runs the models of the state that threads of a node share, `runs` times each under each scheduler. The
/// model checker decides which thread runs next.
fn node(runs: &str) -> Result<(), String> {
    println!("models of the state that threads of a node share, {runs} runs of each under each scheduler");
    let arguments = ["test", "-p", "tailrace-node", "--lib", "--quiet", "models::"];
    run::run(subjects::cargo("shuttle", "--cfg shuttle", &arguments).env("TAILRACE_MODEL_RUNS", runs))
}
