//! The rules that a command line of `tailrace acl add` means.

use super::arguments::AddArguments;
use super::resources::{Resource, resources};
use super::rule::Rule;
use super::words::{Kind, Operation, Pattern, Permission};

/// Most rules in one request: the limit of Kafka's servers.
const RULES_MAX: usize = 10_000;

/// The rules to add.
///
/// # Errors
/// What does not fit together.
pub(super) fn rules(arguments: &AddArguments) -> Result<Vec<Rule>, String> {
    let mut grants = grants(arguments)?;
    grants.sort();
    grants.dedup();
    let hosts = if arguments.host.is_empty() { vec!["*".to_owned()] } else { arguments.host.clone() };
    let principals: Vec<String> = arguments.who.names().collect();
    let count = grants.len().saturating_mul(hosts.len()).saturating_mul(principals.len());
    if count > RULES_MAX {
        return Err(format!("that is {count} rules; at most {RULES_MAX} can be added at once"));
    }
    let permission = if arguments.deny { Permission::DENY } else { Permission::ALLOW };
    let mut rules = Vec::with_capacity(count);
    for principal in &principals {
        for host in &hosts {
            rules.extend(grants.iter().map(|grant| grant.to_rule(principal, host, permission)));
        }
    }
    rules.sort();
    rules.dedup();
    Ok(rules)
}

/// An operation on a resource.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    resource: Resource,
    operation: Operation,
}

impl Grant {
    fn to_rule(&self, principal: &str, host: &str, permission: Permission) -> Rule {
        let Resource { kind, name, pattern } = self.resource.clone();
        let (principal, host) = (principal.to_owned(), host.to_owned());
        Rule { kind, name, pattern, principal, host, operation: self.operation, permission }
    }
}

fn grants(arguments: &AddArguments) -> Result<Vec<Grant>, String> {
    let pattern = if arguments.resources.prefixed { Pattern::PREFIXED } else { Pattern::LITERAL };
    let resources = resources(&arguments.resources, pattern);
    if resources.is_empty() {
        return Err(
            "say what the rule is about: --topic, --group, --transactional-id, --cluster or --subject"
                .to_owned(),
        );
    }
    let mut grants = Vec::new();
    for resource in resources {
        if resource.pattern == Pattern::PREFIXED && resource.name == "*" {
            return Err(
                "with --prefixed, '*' means names that begin with an asterisk; leave out --prefixed for \
                every name"
                    .to_owned(),
            );
        }
        if resource.pattern == Pattern::PREFIXED && resource.kind == Kind::SUBJECT {
            return Err("subjects have wildcards, as in 'orders.>'; leave out --prefixed".to_owned());
        }
        let operations = operations(arguments, resource.kind)?;
        grants
            .extend(operations.into_iter().map(|operation| Grant { resource: resource.clone(), operation }));
    }
    Ok(grants)
}

/// The operations on resources of this kind.
fn operations(arguments: &AddArguments, kind: Kind) -> Result<Vec<Operation>, String> {
    if !arguments.producer && !arguments.consumer {
        let fits =
            |operation: &Operation| *operation == Operation::ALL || kind.operations().contains(operation);
        return match arguments.operation.iter().find(|operation| !fits(operation)) {
            Some(operation) => {
                Err(format!("a {kind} has no operation '{operation}'; it has {}", kind.operation_words()))
            }
            None => Ok(arguments.operation.clone()),
        };
    }
    let (produces, consumes) = (arguments.producer, arguments.consumer);
    let of_producer: &[Operation] = match kind {
        Kind::TOPIC => &[Operation::WRITE, Operation::DESCRIBE, Operation::CREATE],
        Kind::TRANSACTIONAL_ID => &[Operation::WRITE, Operation::DESCRIBE],
        _ => &[],
    };
    let of_consumer: &[Operation] = match kind {
        Kind::TOPIC => &[Operation::READ, Operation::DESCRIBE],
        Kind::GROUP => &[Operation::READ],
        _ => &[],
    };
    let chosen = [(produces, of_producer), (consumes, of_consumer)].into_iter();
    let operations: Vec<_> =
        chosen.filter(|(is_wanted, _)| *is_wanted).flat_map(|(_, operations)| operations).copied().collect();
    let verb = if produces { "--producer" } else { "--consumer" };
    if operations.is_empty() { Err(format!("{verb} needs no {kind}; leave it out")) } else { Ok(operations) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::acl::arguments::AclVerb;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        verb: AclVerb,
    }

    fn verb(line: &str) -> AclVerb {
        let words = std::iter::once("acl").chain(line.split(' '));
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).verb
    }

    fn added(line: &str) -> Result<Vec<String>, String> {
        let AclVerb::Add(arguments) = verb(line) else { panic!("{line}: not an addition") };
        Ok(rules(&arguments)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn rules_are_every_combination_of_what_was_named() {
        for (line, expected) in [
            ("add --user a --topic t --operation read", &["User:a: allow read on topic t"][..]),
            (
                "add --principal User:a --user b --topic t --group g --operation read,DESCRIBE",
                &[
                    "User:a: allow read on topic t",
                    "User:a: allow describe on topic t",
                    "User:b: allow read on topic t",
                    "User:b: allow describe on topic t",
                    "User:a: allow read on group g",
                    "User:a: allow describe on group g",
                    "User:b: allow read on group g",
                    "User:b: allow describe on group g",
                ],
            ),
            (
                "add --user * --topic t. --prefixed --operation all --deny --host 10.0.0.5 --host ::1",
                &[
                    "User:*: deny all on topic prefix t., from 10.0.0.5",
                    "User:*: deny all on topic prefix t., from ::1",
                ],
            ),
            ("add --user a --cluster --operation alter", &["User:a: allow alter on cluster"]),
            ("add --user a --subject a.> --operation read", &["User:a: allow read on subject a.>"]),
            (
                "add --user a --token-owner User:b --operation create-tokens",
                &["User:a: allow create-tokens on user User:b"],
            ),
            (
                "add --user a --delegation-token x --operation describe",
                &["User:a: allow describe on delegation-token x"],
            ),
            (
                "add --user a --user a --topic t --topic t --operation read,read",
                &["User:a: allow read on topic t"],
            ),
        ] {
            assert_eq!(added(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn producers_and_consumers_get_what_they_need() {
        for (line, expected) in [
            (
                "add --user a --producer --topic t --transactional-id x",
                &[
                    "User:a: allow write on topic t",
                    "User:a: allow create on topic t",
                    "User:a: allow describe on topic t",
                    "User:a: allow write on transactional-id x",
                    "User:a: allow describe on transactional-id x",
                ][..],
            ),
            (
                "add --user a --consumer --topic t --group g",
                &[
                    "User:a: allow read on topic t",
                    "User:a: allow describe on topic t",
                    "User:a: allow read on group g",
                ],
            ),
            (
                "add --user a --consumer --producer --topic t --group g --prefixed",
                &[
                    "User:a: allow read on topic prefix t",
                    "User:a: allow write on topic prefix t",
                    "User:a: allow create on topic prefix t",
                    "User:a: allow describe on topic prefix t",
                    "User:a: allow read on group prefix g",
                ],
            ),
        ] {
            assert_eq!(added(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let many = (0..101).map(|number| format!(" --user u{number} --topic t{number}")).collect::<String>();
        let many = format!("add{many} --operation read");
        for (line, expected) in [
            ("add --user a --group g --operation write", "a group has no operation 'write'; it has read, "),
            ("add --user a --cluster --operation read", "a cluster has no operation 'read'"),
            ("add --user a --topic * --prefixed --operation read", "leave out --prefixed"),
            ("add --user a --producer --topic t --group g", "--producer needs no group"),
            ("add --user a --producer --topic t --cluster", "--producer needs no cluster"),
            ("add --user a --consumer --topic t --group g --transactional-id x", "needs no transactional-id"),
            ("add --user a --operation read", "say what the rule is about: --topic"),
            ("add --user a --subject a --operation delete", "a subject has no operation 'delete'"),
            ("add --user a --subject a --operation read --prefixed", "subjects have wildcards"),
            (&many, "that is 10201 rules"),
        ] {
            let error = added(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
        for line in [
            "add --topic t --operation read",
            "add --user a --topic t",
            "add --user a --topic t --operation read --producer",
            "add --user a --producer --group g",
            "add --user a --consumer --topic t",
            "add --user a --producer --topic t --deny",
            "add --user a --cluster --prefixed --operation alter",
            "add --user a --topic t --operation any",
        ] {
            let words = std::iter::once("acl").chain(line.split(' '));
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }
}
