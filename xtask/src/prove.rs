//! `cargo xtask prove`: what shows more than ordinary tests do.

use crate::{run, subjects};

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

/// What threads of a node share, under a model checker that decides which of them goes on: `runs` of each model under each scheduler.
fn node(runs: &str) -> Result<(), String> {
    println!("models of what threads of a node share, {runs} runs of each under each scheduler");
    let arguments = ["test", "-p", "tailrace-node", "--lib", "--quiet", "models::"];
    run::run(subjects::cargo("shuttle", "--cfg shuttle", &arguments).env("TAILRACE_MODEL_RUNS", runs))
}
