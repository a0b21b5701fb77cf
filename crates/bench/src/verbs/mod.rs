//! `tailrace bench`: measures message systems, tailrace or others, from the outside.
//!
//! This module is only the command line: options, the progress line, and files of results. The measuring is
//! in the other modules of this crate, which do not depend on this one. The program `tailrace` mounts it.

mod agent;
mod arguments;
mod calibrate;
mod clean;
mod compare;
mod credentials;
mod driver;
mod files;
mod interrupt;
mod live;
mod namespace;
mod netem;
mod plan;
mod proxy;
mod report;
mod results;
mod run;
mod secrets;
mod server;
mod signals;
mod table;
mod usl;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;

use crate::systems::SYSTEMS;
pub use arguments::Program;

#[derive(Debug, Args)]
#[expect(missing_docs, reason = "the help of the verb would show it")]
pub struct BenchArguments {
    #[command(subcommand)]
    verb: BenchVerb,
}

#[derive(Debug, Subcommand)]
enum BenchVerb {
    /// Run a load against one system and show the whole distribution of its latency.
    Run(Box<arguments::RunArguments>),
    /// Check the instrument itself: freeze a system for a known time and compare with the expected result.
    Calibrate(calibrate::CalibrateArguments),
    /// Tell whether two sets of runs differ, and how large the noise between runs is.
    Compare(compare::CompareArguments),
    /// Fit the universal scalability law to runs at several loads: contention, coherency, peak.
    Usl(usl::UslArguments),
    /// List the systems that can be measured.
    Systems {
        /// Text or JSON.
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// List leftovers of killed runs on a system, and remove them.
    Clean(clean::CleanArguments),
    /// Draw results: one HTML page with every curve, SVG and PNG files.
    Report(report::ReportArguments),
    /// Run a proxy between client and server that makes trouble: latency, limits, stalls, cuts, resets.
    Proxy(proxy::ProxyArguments),
    /// Generate a part of the load of a `bench run` on another machine.
    Agent(agent::AgentArguments),
}

/// Runs a verb for `program`.
///
/// # Errors
/// Why it failed, as one line of text.
pub fn run(arguments: BenchArguments, program: Program) -> Result<ExitCode, Failure> {
    match arguments.verb {
        BenchVerb::Run(mut arguments) => {
            arguments.program = program;
            match &arguments.plan {
                Some(path) => plan::run(path, &arguments),
                None => run::run(&arguments),
            }
        }
        BenchVerb::Calibrate(arguments) => calibrate::run(&arguments),
        BenchVerb::Compare(arguments) => compare::run(&arguments),
        BenchVerb::Usl(arguments) => usl::run(&arguments),
        BenchVerb::Systems { output } => systems(output),
        BenchVerb::Clean(arguments) => clean::run(&arguments),
        BenchVerb::Report(arguments) => report::run(&arguments),
        BenchVerb::Proxy(arguments) => proxy::run(&arguments),
        BenchVerb::Agent(arguments) => agent::run(&arguments),
    }
}

fn systems(output: Output) -> Result<ExitCode, Failure> {
    if output == Output::Json {
        let list: Vec<_> = SYSTEMS
            .iter()
            .map(|system| {
                serde_json::json!({
                    "name": system.name,
                    "default_address": system.default_address,
                    "description": system.description,
                })
            })
            .collect();
        print_json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(0, &["NAME", "DEFAULT ADDRESS", "WHAT"]);
    for system in SYSTEMS {
        let cells = [system.name, system.default_address.unwrap_or("-"), system.description];
        table.row(cells.map(str::to_owned).to_vec());
    }
    print(&table.render())?;
    Ok(ExitCode::SUCCESS)
}
