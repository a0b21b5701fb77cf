//! `tailrace bench agent`: a worker that generates a part of the load of a `bench run` elsewhere.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use clap::Args;
use tailrace_cli::failure::{Failure, note};
use tailrace_cli::output::print;
use tokio::signal::unix::{SignalKind, signal};

use crate::remote::{Agent, AgentOptions, Key};

#[derive(Debug, Args)]
#[command(
    after_help = "Prints a line that starts with `ready` when it listens, and serves one coordinator at a time until Ctrl-C or SIGTERM. \
    Coordinator and agents prove to each other that they have the same key. A holder of the key can generate load from this machine \
    against any address that it can reach.\n\n\
    Examples:\n  \
    tailrace bench agent --new-key agents.key\n  \
    tailrace bench agent --listen 0.0.0.0:7400 --key-file agents.key\n  \
    tailrace bench run --system nats --address nats:4222 --agent one:7400 --agent-key-file agents.key"
)]
pub(super) struct AgentArguments {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "new_key", requires = "key_file")]
    listen: Option<String>,
    /// The key that coordinators must have: hexadecimal digits, in a file that only its owner may read
    #[arg(long, value_name = "FILE", requires = "listen")]
    key_file: Option<PathBuf>,
    /// Write a new key to this file, and do nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "key_file"])]
    new_key: Option<PathBuf>,
    /// Shifts the agent's clock by this many nanoseconds, to test that the coordinator notices.
    #[arg(long, hide = true, allow_hyphen_values = true, default_value_t = 0)]
    clock_shift_ns: i64,
}

pub(super) fn run(arguments: &AgentArguments) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.new_key {
        Key::write_new(path)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (Some(listen), Some(path)) = (&arguments.listen, &arguments.key_file) else {
        return Err("--listen and --key-file are needed, or --new-key".into());
    };
    let mut options = AgentOptions::new(listen.clone(), Key::read(path)?);
    options.clock_shift_ns = Arc::new(AtomicI64::new(arguments.clock_shift_ns));
    // Before the ready line: a process that waits for it may send a signal at once.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let agent = Agent::start(options, Arc::new(|text: &str| note(text)))
        .map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    print(&format!("ready {}\n", agent.address()))?;
    runtime.block_on(async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
    let ending = std::thread::spawn(move || drop(agent));
    // A second signal ends the program, even if the teardown is not complete.
    runtime.block_on(async {
        while !ending.is_finished() {
            tokio::select! {
                _ = interrupt.recv() => std::process::exit(130),
                _ = terminate.recv() => std::process::exit(143),
                () = tokio::time::sleep(std::time::Duration::from_millis(10)) => {}
            }
        }
    });
    Ok(ExitCode::SUCCESS)
}
