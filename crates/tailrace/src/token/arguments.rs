//! The command line of `tailrace token`.

use std::time::Duration;

use clap::{Args, Subcommand};
use tailrace_cli::text::units::parse_duration;

use crate::client::AskArguments;

#[derive(Debug, Args)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub(super) verb: TokenVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum TokenVerb {
    /// Make a token, and show its secret (HMAC) this one time.
    #[command(after_help = "Kafka's clients log in with the id as username, the HMAC as password, and \
        tokenauth=true, by SCRAM. A client that logged in with a token cannot make or see \
        tokens.\n\nExamples:\n  tailrace token create --user alice\n  \
        tailrace token create --user alice --renewer scheduler --max-lifetime 2d -o json")]
    Create(CreateArguments),
    /// Show tokens: one's own, those that one may renew, and those that the rules let one see.
    List(ListArguments),
    /// Let a token be valid longer, up to its maximum.
    #[command(after_help = "Examples:\n  tailrace token renew lWqVzAlQQxKcnbfmFZsVdw --user scheduler")]
    Renew(RenewArguments),
    /// End a token, now or later. Its connections end with it.
    #[command(after_help = "Examples:\n  tailrace token expire lWqVzAlQQxKcnbfmFZsVdw --user alice\n  \
        tailrace token expire lWqVzAlQQxKcnbfmFZsVdw --in 10m --user alice")]
    Expire(ExpireArguments),
}

#[derive(Debug, Args)]
pub(super) struct CommonArguments {
    /// Use it without TLS to another machine: the answer has secrets that those who read the network could
    /// log in with
    #[arg(long)]
    pub(super) without_tls: bool,
    #[command(flatten)]
    pub(super) ask: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// The user that the token stands for; others than oneself need the right to create-tokens
    #[arg(long, value_name = "NAME", value_parser = user)]
    pub(super) owner: Option<String>,
    /// Another user who may renew and end it, and see its secret; may be repeated
    #[arg(long, value_name = "NAME", value_parser = user)]
    pub(super) renewer: Vec<String>,
    /// How long it can be renewed: 12h, 2d [default: what the server allows]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) max_lifetime: Option<Duration>,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Only tokens of this user, or that it may renew; may be repeated
    #[arg(long, value_name = "NAME", value_parser = user)]
    pub(super) owner: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct RenewArguments {
    /// The token
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// How long from now [default: what the server allows]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(super) period: Option<Duration>,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct ExpireArguments {
    /// The token
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// When, from now on [default: now, and the token is removed]
    #[arg(long = "in", value_name = "TIME", value_parser = parse_duration)]
    pub(super) period: Option<Duration>,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

/// A name without a type. `User:alice` here would become `User:User:alice`, which is nobody.
fn user(text: &str) -> Result<String, String> {
    match text.strip_prefix("User:") {
        Some(rest) => Err(format!("expected a name; write {rest}")),
        None if text.is_empty() => Err("it is empty".to_owned()),
        None => Ok(text.to_owned()),
    }
}

impl TokenVerb {
    pub(super) fn common(&self) -> &CommonArguments {
        match self {
            Self::Create(arguments) => &arguments.common,
            Self::List(arguments) => &arguments.common,
            Self::Renew(arguments) => &arguments.common,
            Self::Expire(arguments) => &arguments.common,
        }
    }
}
