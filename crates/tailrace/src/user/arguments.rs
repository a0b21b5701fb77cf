//! The command line of `tailrace user`.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use tailrace_cli::text::units::parse_duration;

use crate::client::{
    AskArguments, ClientError, LOGIN_PASSWORD_FILE, Password, ScramMechanism, TERMINAL, second_password_name,
};

/// Fewest iterations of a credential: the least that clients accept, and the default of Kafka's tools.
pub(super) const ITERATIONS_MIN: u32 = 4_096;
/// Most iterations that a server of Kafka stores.
pub(super) const ITERATIONS_MAX: u32 = 16_384;

#[derive(Debug, Args)]
pub(crate) struct UserArguments {
    #[command(subcommand)]
    pub(super) verb: UserVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum UserVerb {
    /// Add a user with a password.
    #[command(
        after_help = "The password is hashed before it is sent. A new user has no rights where ACLs are \
        enforced: see `tailrace acl add --help`.\n\nExamples:\n  tailrace user add alice\n  \
        tailrace user add billing --password-file billing.txt --mechanism scram-sha-256,scram-sha-512\n  \
        tailrace user add bob --sasl-user admin --sasl-password-file admin.txt --tls-ca ca.pem"
    )]
    Add(AddArguments),
    /// Show users, their mechanisms, iterations and state. Passwords are never shown.
    List(ListArguments),
    /// Give a user another password, for each mechanism that it has.
    #[command(
        after_help = "Connections that are logged in with the old password end, unless it is kept.\n\n\
        Examples:\n  tailrace user rotate alice\n  \
        tailrace user rotate billing --password-file billing-2.txt --keep-old 1h"
    )]
    Rotate(RotateArguments),
    /// Remove users: their passwords, not their ACLs and quotas.
    Remove(RemoveArguments),
    /// Let a user log in no more. It keeps its passwords, ACLs and quotas, and its connections end.
    Disable(SwitchArguments),
    /// Let a disabled user log in again, with the passwords that it has.
    Enable(SwitchArguments),
}

#[derive(Debug, Args)]
pub(super) struct NewPasswordArguments {
    /// File with the new password on one line, or - for standard input. Without it, or if standard input is
    /// the terminal, you are asked
    #[arg(long = "password-file", value_name = "FILE")]
    new_password_file: Option<PathBuf>,
    /// Send it without TLS to another machine: those who read the network could log in with it
    #[arg(long)]
    pub(super) without_tls: bool,
}

impl NewPasswordArguments {
    /// Reads the file or standard input, or asks twice.
    pub(super) fn read(&self, user: &str) -> Result<Password, ClientError> {
        let instead = "name a file with --password-file, or - for standard input";
        let wrong = |place: String| move |reason| ClientError::Password { place, reason };
        match self.new_password_file.as_deref() {
            Some(path) if path != Path::new(TERMINAL) => {
                Password::from_file(path).map_err(wrong(path.display().to_string()))
            }
            Some(_) if !std::io::stdin().is_terminal() => {
                Password::from_input().map_err(wrong("standard input".to_owned()))
            }
            Some(_) | None => {
                Password::ask_twice(&format!("new password of {user}"), instead).map_err(|reason| {
                    ClientError::Password { place: format!("the new password of '{user}'"), reason }
                })
            }
        }
    }
}

#[derive(Debug, Args)]
#[command(mut_arg(LOGIN_PASSWORD_FILE, second_password_name))]
pub(super) struct AddArguments {
    /// Name: at most 255 bytes, without control characters, not '*' and not ANONYMOUS
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// How the user may log in: scram-sha-256, scram-sha-512; comma list, may be repeated
    #[arg(
        short,
        long,
        value_name = "NAME",
        value_enum,
        value_delimiter = ',',
        hide_possible_values = true,
        ignore_case = true,
        default_value = "scram-sha-256"
    )]
    mechanism: Vec<ScramMechanism>,
    /// Iterations of the hash, 4096 to 16384: more make a stolen hash harder to guess, and logins slower
    #[arg(long, value_name = "N", default_value_t = ITERATIONS_MIN, value_parser = iterations())]
    pub(super) iterations: u32,
    #[command(flatten)]
    pub(super) password: NewPasswordArguments,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

impl AddArguments {
    /// Each mechanism once, in order.
    pub(super) fn mechanisms(&self) -> Vec<ScramMechanism> {
        let wanted = |mechanism: &ScramMechanism| self.mechanism.contains(mechanism);
        ScramMechanism::ALL.into_iter().filter(wanted).collect()
    }
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Users; none for all
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
#[command(mut_arg(LOGIN_PASSWORD_FILE, second_password_name))]
pub(super) struct RotateArguments {
    /// The user
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// Iterations of the hash, 4096 to 16384 [default: as many as before]
    #[arg(long, value_name = "N", value_parser = iterations())]
    pub(super) iterations: Option<u32>,
    /// How long the old password works as well: 30m, 1h, 7d. The salt and the iterations stay the same
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "iterations")]
    pub(super) keep_old: Option<Duration>,
    #[command(flatten)]
    pub(super) password: NewPasswordArguments,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArguments {
    /// Users
    #[arg(value_name = "NAME", required = true)]
    pub(super) names: Vec<String>,
    /// Succeed if a user does not exist
    #[arg(long)]
    pub(super) if_exists: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct SwitchArguments {
    /// The user
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

fn iterations() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(ITERATIONS_MIN)..=i64::from(ITERATIONS_MAX))
}

impl UserVerb {
    pub(super) fn common(&self) -> &AskArguments {
        match self {
            Self::Add(arguments) => &arguments.common,
            Self::List(arguments) => &arguments.common,
            Self::Rotate(arguments) => &arguments.common,
            Self::Remove(arguments) => &arguments.common,
            Self::Disable(arguments) | Self::Enable(arguments) => &arguments.common,
        }
    }
}
