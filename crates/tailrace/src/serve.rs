//! `tailrace serve`: settings, logging, the server, signals.

use std::io::Write;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tailrace_runtime::disk::LocalDisk;
use tailrace_runtime::{build_runtime, memory};
use tailrace_server::{NodeDisk, Startup, watch_panics};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::ServeArguments;
use crate::logging;
use crate::settings::Settings;

type Failure = Box<dyn std::error::Error>;

/// Runs until a signal stops it.
pub(crate) fn run(arguments: &ServeArguments) -> Result<ExitCode, Failure> {
    let (settings, config) = Settings::load(arguments)?;
    // Standard output is for the ready line.
    logging::start(&config)?;
    watch_panics();
    for variable in &settings.unknown_variables {
        tracing::warn!(%variable, "this variable looks like a tailrace setting but is not one");
    }
    raise_descriptor_limit();
    let names = config.kafka_listeners().iter().map(|listener| listener.name.clone()).collect();
    build_runtime(&config)?.block_on(serve(settings, names))
}

/// `names` are those of the Kafka listeners.
async fn serve(settings: Settings, names: Vec<Option<String>>) -> Result<ExitCode, Failure> {
    // Before the ready line: a process that reads the line may send a signal at once.
    let mut signals = Signals::new()?;
    let disk = NodeDisk::new(LocalDisk::default());
    let starting = tailrace_server::start(Startup { settings: settings.values, disk });
    // A node waits until a cluster admits it.
    let server = tokio::select! {
        server = starting => server?,
        name = signals.next_to_stop() => {
            tracing::info!(signal = name, "stopped during startup");
            return Ok(ExitCode::SUCCESS);
        }
    };
    tokio::spawn(memory::give_back(server.held_memory()));
    let addresses = server.addresses();
    let mut out = std::io::stdout().lock();
    let nats = addresses.nats.map_or_else(|| "off".to_owned(), |address| address.to_string());
    let cluster = addresses.cluster.map_or_else(String::new, |address| format!(" cluster={address}"));
    let kafka = names.iter().zip(addresses.all_kafka()).map(|(name, address)| match name {
        Some(name) => format!("{name}://{address}"),
        None => address.to_string(),
    });
    let kafka = kafka.collect::<Vec<_>>().join(",");
    writeln!(out, "ready kafka={kafka} nats={nats} http={}{cluster}", addresses.http)?;
    out.flush()?;
    drop(out);
    let name = signals.next().await;
    if name == Signals::LAME_DUCK {
        tracing::info!(
            signal = name,
            "lame duck mode: NATS clients are told to go elsewhere, then the server stops"
        );
        tokio::select! {
            _ = server.lame_duck() => {}
            name = signals.next_to_stop() => tracing::info!(signal = name, "stopping without further grace"),
        }
    }
    tracing::info!(signal = name, "stopping");
    tokio::select! {
        failed = server.stop() => {
            tracing::info!(partitions_not_closed = failed, "stopped");
            Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        name = signals.next_to_stop() => {
            tracing::warn!(signal = name, "a second signal: exiting at once; the next start recovers");
            std::process::exit(1)
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    lame_duck: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            lame_duck: signal(SignalKind::user_defined2())?,
        })
    }

    /// The same signal as in nats-server.
    const LAME_DUCK: &'static str = "SIGUSR2";

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.lame_duck.recv() => Self::LAME_DUCK,
            name = Self::stop(&mut self.terminate, &mut self.interrupt) => name,
        }
    }

    async fn next_to_stop(&mut self) -> &'static str {
        Self::stop(&mut self.terminate, &mut self.interrupt).await
    }

    async fn stop(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    }
}

/// Raises the soft limit to the hard limit. Each segment and each connection takes a file descriptor, and the
/// usual soft limit of 1,024 is soon reached.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_err() {
        tracing::warn!(limit = ?limit.current, "could not raise the limit of open files");
    }
}
