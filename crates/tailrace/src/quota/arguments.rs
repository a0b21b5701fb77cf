//! The command line of `tailrace quota`.

use clap::{Args, Subcommand};

use super::entity::EntityArguments;
use super::limits::{LimitArguments, key};
use crate::client::{AskArguments, LOGIN_USER, second_user_name};

#[derive(Debug, Args)]
pub(crate) struct QuotaArguments {
    #[command(subcommand)]
    pub(super) verb: QuotaVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum QuotaVerb {
    /// Limit a user, a client id or an address.
    #[command(
        after_help = "Each node applies a quota on its own: three nodes let three times as much pass. All \
        clients of a user share the user's quota.\n\nExamples:\n  \
        tailrace quota set --user alice --producer-bytes 10MB/s --consumer-bytes 20MB/s\n  \
        tailrace quota set --default-user --default-client-id --producer-bytes 1MB/s\n  \
        tailrace quota set --default-ip --connections 50\n  \
        tailrace quota set --client-id app --limit request_percentage=25"
    )]
    Set(SetArguments),
    /// Show quotas: all, or those with this user, client id or address.
    #[command(after_help = "Examples:\n  tailrace quota list\n  tailrace quota list --user alice -o json")]
    List(ListArguments),
    /// Remove quotas of a user, a client id or an address.
    #[command(after_help = "Examples:\n  tailrace quota remove --user alice\n  \
        tailrace quota remove --user alice --limit producer_byte_rate")]
    Remove(RemoveArguments),
}

#[derive(Debug, Args)]
#[command(mut_group("entity", |group| group.required(true)))]
#[command(mut_arg(LOGIN_USER, second_user_name))]
pub(super) struct SetArguments {
    #[command(flatten)]
    pub(super) entity: EntityArguments,
    #[command(flatten)]
    pub(super) limits: LimitArguments,
    /// Only check whether it would work
    #[arg(long)]
    pub(super) validate_only: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
#[command(mut_arg(LOGIN_USER, second_user_name))]
pub(super) struct ListArguments {
    #[command(flatten)]
    pub(super) entity: EntityArguments,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
#[command(mut_group("entity", |group| group.required(true)))]
#[command(mut_arg(LOGIN_USER, second_user_name))]
pub(super) struct RemoveArguments {
    #[command(flatten)]
    pub(super) entity: EntityArguments,
    /// Only this quota, by Kafka's name or by that of its option; may be repeated
    #[arg(short, long, value_name = "KEY", value_parser = key)]
    pub(super) limit: Vec<String>,
    /// Succeed if there is no such quota
    #[arg(long)]
    pub(super) if_exists: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}
