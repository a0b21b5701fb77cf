//! The `tailrace` binary: command line, configuration, wiring.

mod args;
mod config_command;
mod serve;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Verb};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.verb {
        None => serve::run(&arguments.serve),
        Some(Verb::Serve(serve)) => serve::run(&serve),
        Some(Verb::Config(config)) => config_command::run(&config),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tailrace: {error}");
            ExitCode::FAILURE
        }
    }
}
