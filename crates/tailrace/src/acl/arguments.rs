//! The command line of `tailrace acl`.

use std::net::IpAddr;

use clap::{Arg, ArgGroup, Args, Subcommand};

use super::words::Operation;
use crate::client::{AskArguments, LOGIN_USER, second_user_name};

#[derive(Debug, Args)]
pub(crate) struct AclArguments {
    #[command(subcommand)]
    pub(super) verb: AclVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum AclVerb {
    /// Allow or deny users something.
    #[command(
        after_help = "Read, write, delete and alter allow describe as well. A denial wins over everything that \
        allows.\n\nExamples:\n  tailrace acl add --user billing --consumer --topic orders --group billing\n  \
        tailrace acl add --user shop --producer --topic orders\n  \
        tailrace acl add --user shop --operation read,write --topic shop. --prefixed\n  \
        tailrace acl add --principal 'User:*' --operation read --topic secrets --deny\n  \
        tailrace acl add --user ops --operation alter,describe --cluster"
    )]
    Add(AddArguments),
    /// Show rules: all, or those that apply to a user, a topic, a group...
    #[command(
        after_help = "With a name it shows each rule that applies to that name: its own, those of its \
        prefixes, and those of '*'.\n\nExamples:\n  tailrace acl list\n  tailrace acl list --topic orders\n  \
        tailrace acl list --user billing -o json"
    )]
    List(ListArguments),
    /// Remove rules, after showing them and asking.
    #[command(
        after_help = "Only rules of exactly these names are removed. Removing a denial may allow something: \
        --allow leaves denials alone.\n\nExamples:\n  \
        tailrace acl remove --user billing --topic orders\n  tailrace acl remove --user bob --yes\n  \
        tailrace acl remove --topic shop. --prefixed --operation write"
    )]
    Remove(RemoveArguments),
    /// Say whether a user may do something, and which rule decides.
    #[command(
        after_help = "Without --host, only rules for all addresses allow something, and denials for any \
        address count.\n\nExamples:\n  \
        tailrace acl explain --user shop --operation write --topic orders\n  \
        tailrace acl explain --user shop --operation read --subject 'orders.>' --host 10.0.0.5 -o json"
    )]
    Explain(ExplainArguments),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("who").multiple(true))]
pub(super) struct PrincipalArguments {
    /// A user; may be repeated. '*' is everybody, ANONYMOUS those who do not log in
    #[arg(long, value_name = "NAME", value_parser = user, group = "who")]
    user: Vec<String>,
    /// The same with its type, as Kafka's tools write it; may be repeated
    #[arg(long, value_name = "User:NAME", value_parser = principal, group = "who")]
    principal: Vec<String>,
}

impl PrincipalArguments {
    /// As rules name them.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.user.iter().map(|user| format!("User:{user}")).chain(self.principal.iter().cloned())
    }
}

#[derive(Debug, Args)]
pub(super) struct ResourceArguments {
    /// A topic; may be repeated. '*' is every topic
    #[arg(short, long, value_name = "NAME", value_parser = name)]
    pub(super) topic: Vec<String>,
    /// A consumer or share group; may be repeated. '*' is every group
    #[arg(short, long, value_name = "NAME", value_parser = name)]
    pub(super) group: Vec<String>,
    /// A transactional id; may be repeated. '*' is every id
    #[arg(long, value_name = "ID", value_parser = name)]
    pub(super) transactional_id: Vec<String>,
    /// The cluster
    #[arg(long)]
    pub(super) cluster: bool,
    /// NATS subjects, with wildcards; may be repeated. 'orders.> workers' is a queue group
    #[arg(long, value_name = "SUBJECT", value_parser = name)]
    pub(super) subject: Vec<String>,
    /// A delegation token; may be repeated. '*' is every token
    #[arg(long, value_name = "ID", value_parser = name)]
    pub(super) delegation_token: Vec<String>,
    /// A user as the owner of delegation tokens; may be repeated. '*' is every user
    #[arg(long, value_name = "User:NAME", value_parser = owner)]
    pub(super) token_owner: Vec<String>,
    /// The names are beginnings of names
    #[arg(long, conflicts_with = "cluster")]
    pub(super) prefixed: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true))]
#[command(mut_group("who", |group| group.required(true)))]
#[command(mut_arg(LOGIN_USER, second_user_name))]
pub(super) struct AddArguments {
    #[command(flatten)]
    pub(super) who: PrincipalArguments,
    /// all, read, write, create, delete, alter, describe, describe-configs, alter-configs, idempotent-write,
    /// two-phase-commit, cluster-action, create-tokens, describe-tokens; comma list, may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = Operation::parse, group = "what")]
    pub(super) operation: Vec<Operation>,
    /// What producers need: write, describe and create the topics, write and describe the transactional ids
    #[arg(long, group = "what", requires = "topic", conflicts_with = "operation")]
    pub(super) producer: bool,
    /// What consumers need: read and describe the topics, read the groups
    #[arg(long, group = "what", requires = "topic", requires = "group", conflicts_with = "operation")]
    pub(super) consumer: bool,
    #[command(flatten)]
    pub(super) resources: ResourceArguments,
    /// Only from this address; may be repeated [default: from everywhere]
    #[arg(long, value_name = "ADDRESS", value_parser = host)]
    pub(super) host: Vec<String>,
    /// Deny instead of allowing
    #[arg(long, conflicts_with_all = ["producer", "consumer"])]
    pub(super) deny: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

/// Which rules a verb is about.
#[derive(Debug, Args)]
pub(super) struct FilterArguments {
    #[command(flatten)]
    pub(super) who: PrincipalArguments,
    #[command(flatten)]
    pub(super) resources: ResourceArguments,
    /// Only this operation, as for `acl add`; comma list, may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = Operation::parse)]
    pub(super) operation: Vec<Operation>,
    /// Only rules for exactly this address; '*' for rules for all addresses
    #[arg(long, value_name = "ADDRESS")]
    pub(super) host: Option<String>,
    /// Only rules that allow
    #[arg(long, conflicts_with = "deny")]
    pub(super) allow: bool,
    /// Only rules that deny
    #[arg(long)]
    pub(super) deny: bool,
}

#[derive(Debug, Args)]
#[command(mut_arg(LOGIN_USER, second_user_name))]
pub(super) struct ListArguments {
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
#[command(mut_arg(LOGIN_USER, second_user_name))]
pub(super) struct RemoveArguments {
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
    /// Succeed if there is no such rule
    #[arg(long)]
    pub(super) if_exists: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
#[command(mut_group("who", |group| group.required(true)))]
#[command(mut_arg(LOGIN_USER, second_user_name), mut_args(only_one))]
pub(super) struct ExplainArguments {
    #[command(flatten)]
    pub(super) who: PrincipalArguments,
    /// The operation, as for `acl add`
    #[arg(long, value_name = "NAME", value_parser = Operation::parse)]
    pub(super) operation: Operation,
    #[command(flatten)]
    pub(super) resources: ResourceArguments,
    /// The address of the user
    #[arg(long, value_name = "ADDRESS")]
    pub(super) host: Option<IpAddr>,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

/// Takes from the help what does not hold for a verb with a single user and a single resource.
fn only_one(argument: Arg) -> Arg {
    match argument.get_help().map(|help| help.to_string().replace("; may be repeated", "")) {
        Some(help) => argument.help(help),
        None => argument,
    }
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// A user with its type, or every user.
fn owner(text: &str) -> Result<String, String> {
    if text == "*" { Ok(text.to_owned()) } else { principal(text) }
}

/// A name without a type. `User:alice` here would become `User:User:alice`, which is nobody.
fn user(text: &str) -> Result<String, String> {
    match text.strip_prefix("User:") {
        Some(rest) => Err(format!("expected a name; write --user {rest} or --principal {text}")),
        None => name(text),
    }
}

fn principal(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(text.to_owned()),
        _ => Err("expected TYPE:NAME, as in User:alice".to_owned()),
    }
}

/// Servers compare addresses, never names.
fn host(text: &str) -> Result<String, String> {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    let is_network = |address: IpAddr| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    };
    match text == "*" || address.parse().is_ok_and(is_network) {
        true => Ok(text.to_owned()),
        false => {
            Err("expected an address, a network as in 10.0.0.0/8, or '*'; names are not resolved".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_networks_or_everything() {
        for text in ["*", "10.0.0.5", "::1", "10.0.0.0/8", "fd00::/8", "0.0.0.0/0"] {
            assert_eq!(host(text), Ok(text.to_owned()));
        }
        for wrong in
            ["", "localhost", "10.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.0/", "10.0.0.0/-1", "*/8"]
        {
            assert!(host(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn principals_have_a_type_and_users_have_none() {
        assert_eq!(principal("User:alice"), Ok("User:alice".to_owned()));
        assert_eq!(principal("User:a:b"), Ok("User:a:b".to_owned()));
        for wrong in ["alice", "User:", ":alice", ""] {
            assert!(principal(wrong).is_err(), "{wrong}");
        }
        assert_eq!(user("a:b"), Ok("a:b".to_owned()));
        assert!(user("User:alice").unwrap_err().contains("--user alice or --principal User:alice"));
        assert!(user("").is_err());
    }
}
