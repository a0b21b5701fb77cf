//! The `tailrace` binary: command line, configuration, wiring.
//!
//! # Traps
//!
//! * `log verify` and the plan of `log repair` run the real log over `overlay.rs`, a disk whose writes stay
//!   in memory. So the rules of recovery exist only once.

mod acl;
mod args;
mod bench;
mod client;
mod cluster;
mod config_command;
mod consume;
mod group;
mod http;
mod interrupt;
mod logging;
mod nats;
mod offline;
mod produce;
mod quota;
mod serve;
mod settings;
mod shown;
mod token;
mod topic;
mod txn;
mod usage;
mod user;

use std::process::ExitCode;

use tailrace_cli::failure;

use crate::args::{ServeArguments, Verb};

fn main() -> ExitCode {
    let arguments = match usage::parse() {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    let result = match arguments.verb {
        None => return serve(&arguments.serve),
        Some(Verb::Serve(arguments)) => return serve(&arguments),
        Some(Verb::Topic(arguments)) => topic::run(&arguments),
        Some(Verb::Group(arguments)) => group::run(&arguments),
        Some(Verb::Txn(arguments)) => txn::run(&arguments),
        Some(Verb::Cluster(arguments)) => cluster::run(&arguments),
        Some(Verb::User(arguments)) => user::run(&arguments),
        Some(Verb::Token(arguments)) => token::run(&arguments),
        Some(Verb::Acl(arguments)) => acl::run(&arguments),
        Some(Verb::Quota(arguments)) => quota::run(&arguments),
        Some(Verb::Produce(arguments)) => produce::run(&arguments),
        Some(Verb::Consume(arguments)) => consume::run(&arguments),
        Some(Verb::Pub(arguments)) => nats::publish(&arguments),
        Some(Verb::Sub(arguments)) => nats::subscribe(&arguments),
        Some(Verb::Request(arguments)) => nats::request(&arguments),
        Some(Verb::Reply(arguments)) => nats::reply(&arguments),
        Some(Verb::Top(arguments)) => nats::top(&arguments),
        Some(Verb::Log(arguments)) => offline::run(&arguments),
        Some(Verb::Bench(arguments)) => bench::run(arguments),
        Some(Verb::Config(arguments)) => config_command::run(&arguments),
    };
    result.unwrap_or_else(|failure| failure::report(&failure))
}

fn serve(arguments: &ServeArguments) -> ExitCode {
    serve::run(arguments).unwrap_or_else(|error| {
        failure::complain(&error.to_string());
        ExitCode::FAILURE
    })
}
