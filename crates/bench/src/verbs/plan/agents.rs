//! Agents in a plan: the same ones generate the load of all its runs.

use tailrace_cli::failure::Failure;

use crate::engine::LoadOptions;
use crate::remote::Key;
use crate::verbs::arguments::RunArguments;
use crate::verbs::driver::remote_load;

/// The options of `bench run` for these keys of a plan.
pub(super) fn words(
    agents: Vec<String>,
    key_file: Option<String>,
    placement: Option<String>,
) -> Result<Vec<String>, Failure> {
    if agents.is_empty() != key_file.is_none() {
        return Err("agents and agent-key-file go together".into());
    }
    if agents.is_empty() && placement.is_some() {
        return Err("placement needs agents".into());
    }
    let mut words: Vec<String> = agents.into_iter().map(|agent| format!("--agent={agent}")).collect();
    words.extend(key_file.map(|path| format!("--agent-key-file={path}")));
    words.extend(placement.map(|placement| format!("--placement={placement}")));
    Ok(words)
}

/// Checks whether agents could generate this load. Contacts none of them.
pub(super) fn check(run: &RunArguments, options: &LoadOptions) -> Result<(), Failure> {
    if let Some(path) = &run.agent_key_file {
        let key = Key::read(path)?;
        remote_load(run, &key, &run.target(0)?, options).check()?;
    }
    Ok(())
}
