//! The rules to add, and the filters for rules, that a command line means.

use super::arguments::{AddArguments, FilterArguments, ResourceArguments};
use super::rule::{CLUSTER_NAME, Filter, Rule};
use super::words::{Kind, Operation, Pattern, Permission};

/// Most rules in one request: the limit of Kafka's servers.
const RULES_MAX: usize = 10_000;
/// Most filters of one run. Each is a request.
const FILTERS_MAX: usize = 1_000;

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

/// A resource, or all whose names begin like this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Resource {
    kind: Kind,
    name: String,
    pattern: Pattern,
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
    let mut grants = Vec::new();
    for resource in resources(&arguments.resources, pattern) {
        if resource.pattern == Pattern::PREFIXED && resource.name == "*" {
            return Err(
                "with --prefixed, '*' means names that begin with an asterisk; leave out --prefixed for \
                every name"
                    .to_owned(),
            );
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
                Err(format!("a {kind} has no operation '{operation}'; it has {}", words(kind)))
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

fn words(kind: Kind) -> String {
    let words: Vec<String> = kind.operations().iter().map(ToString::to_string).collect();
    words.join(", ")
}

fn resources(arguments: &ResourceArguments, pattern: Pattern) -> Vec<Resource> {
    let named = |kind: Kind, names: &[String]| {
        names.iter().map(|name| Resource { kind, name: name.clone(), pattern }).collect::<Vec<_>>()
    };
    let cluster = arguments.cluster.then(|| Resource {
        kind: Kind::CLUSTER,
        name: CLUSTER_NAME.to_owned(),
        pattern: Pattern::LITERAL,
    });
    let topics = named(Kind::TOPIC, &arguments.topic);
    let groups = named(Kind::GROUP, &arguments.group);
    let ids = named(Kind::TRANSACTIONAL_ID, &arguments.transactional_id);
    topics.into_iter().chain(groups).chain(ids).chain(cluster).collect()
}

/// The filters: each principal with each resource and each operation. `pattern` is for names without
/// `--prefixed`.
///
/// # Errors
/// There are too many.
pub(super) fn filters(arguments: &FilterArguments, pattern: Pattern) -> Result<Vec<Filter>, String> {
    let pattern = if arguments.resources.prefixed { Pattern::PREFIXED } else { pattern };
    let principals = or_any(arguments.who.names().collect());
    let resources = or_any(resources(&arguments.resources, pattern));
    let operations = or_any(arguments.operation.clone());
    let count = principals.len().saturating_mul(resources.len()).saturating_mul(operations.len());
    if count > FILTERS_MAX {
        return Err(format!("that is {count} questions for the server; {FILTERS_MAX} are the most at once"));
    }
    let permission = match (arguments.allow, arguments.deny) {
        (true, _) => Permission::ALLOW,
        (_, true) => Permission::DENY,
        _ => Permission::ANY,
    };
    let mut filters = Vec::with_capacity(count);
    for principal in &principals {
        for resource in &resources {
            let of_resource = operations.iter().map(|operation| Filter {
                kind: resource.as_ref().map_or(Kind::ANY, |resource| resource.kind),
                name: resource.as_ref().map(|resource| resource.name.clone()),
                pattern: resource.as_ref().map_or(Pattern::ANY, |resource| resource.pattern),
                principal: principal.clone(),
                host: arguments.host.clone(),
                operation: operation.unwrap_or(Operation::ANY),
                permission,
            });
            filters.extend(of_resource);
        }
    }
    Ok(filters)
}

/// Each of the list, or the single `None` of an empty one.
fn or_any<T>(list: Vec<T>) -> Vec<Option<T>> {
    if list.is_empty() { vec![None] } else { list.into_iter().map(Some).collect() }
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
            (&many, "that is 10201 rules"),
        ] {
            let error = added(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
        for line in [
            "add --topic t --operation read",
            "add --user a --operation read",
            "add --user a --topic t",
            "add --user a --topic t --operation read --producer",
            "add --user a --producer --group g",
            "add --user a --consumer --topic t",
            "add --user a --producer --topic t --deny",
            "add --user a --cluster --prefixed --operation alter",
            "add --user a --topic t --operation any",
            "remove",
            "remove --operation read",
            "remove --user a --allow --deny",
        ] {
            let words = std::iter::once("acl").chain(line.split(' '));
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }

    fn asked(line: &str, pattern: Pattern) -> Vec<Filter> {
        match verb(line) {
            AclVerb::List(arguments) => filters(&arguments.filter, pattern).unwrap(),
            AclVerb::Remove(arguments) => filters(&arguments.filter, pattern).unwrap(),
            _ => panic!("{line}: no filter"),
        }
    }

    #[test]
    fn filters_name_what_was_named_and_leave_the_rest_open() {
        let any = Filter {
            kind: Kind::ANY,
            name: None,
            pattern: Pattern::ANY,
            principal: None,
            host: None,
            operation: Operation::ANY,
            permission: Permission::ANY,
        };
        let of =
            |kind, name: &str, pattern| Filter { kind, name: Some(name.to_owned()), pattern, ..any.clone() };
        let alice = |filter: Filter| Filter { principal: Some("User:alice".to_owned()), ..filter };
        let topic = of(Kind::TOPIC, "t", Pattern::MATCH);
        for (line, expected) in [
            ("list", vec![any.clone()]),
            ("list --user alice", vec![alice(any.clone())]),
            ("list --topic t", vec![topic.clone()]),
            ("list --topic t --prefixed", vec![of(Kind::TOPIC, "t", Pattern::PREFIXED)]),
            ("list --topic t --deny", vec![Filter { permission: Permission::DENY, ..topic.clone() }]),
            ("list --host *", vec![Filter { host: Some("*".to_owned()), ..any.clone() }]),
            ("list --cluster", vec![of(Kind::CLUSTER, CLUSTER_NAME, Pattern::LITERAL)]),
            (
                "list --user alice --topic t --group g --operation read",
                vec![
                    alice(Filter { operation: Operation::READ, ..topic }),
                    alice(Filter { operation: Operation::READ, ..of(Kind::GROUP, "g", Pattern::MATCH) }),
                ],
            ),
        ] {
            assert_eq!(asked(line, Pattern::MATCH), expected, "{line}");
        }
        let remove = asked("remove --topic t --allow", Pattern::LITERAL);
        let literal = of(Kind::TOPIC, "t", Pattern::LITERAL);
        assert_eq!(remove, [Filter { permission: Permission::ALLOW, ..literal }]);
    }
}
