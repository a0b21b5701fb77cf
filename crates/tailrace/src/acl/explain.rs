//! `tailrace acl explain`: which rule decides. The server says it, since only the server knows its super
//! users, its default and the subjects of its topics.

use std::process::ExitCode;

use bytes::Bytes;
use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, usage};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_kafka_wire::messages::DescribeAclsRequest;
use tailrace_kafka_wire::own_fields::{self, Reason, Verdict};
use tailrace_kafka_wire::{ErrorCode, TaggedFields};

use super::arguments::ExplainArguments;
use super::resources::{Resource, resources};
use super::rule::Rule;
use super::words::{Kind, Operation, Pattern};
use crate::client::{Cluster, block_on, check, retrying};
use crate::shown::shown;

/// One request that somebody might make.
struct Question {
    principal: String,
    operation: Operation,
    resource: Resource,
    host: Option<String>,
}

/// What decides on it.
enum Decision {
    /// No rules are in force.
    NoRules,
    By(Verdict, Option<Rule>),
}

pub(super) fn run(arguments: &ExplainArguments) -> Result<ExitCode, Failure> {
    let question = question(arguments).map_err(usage)?;
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.common.connect).await?;
        let decision = ask(&mut cluster, &question).await?;
        match arguments.common.output {
            Output::Text => print(&text(&question, &decision))?,
            Output::Json => print_json(&to_json(&question, &decision))?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn question(arguments: &ExplainArguments) -> Result<Question, String> {
    let mut principals = arguments.who.names();
    let (Some(principal), None) = (principals.next(), principals.next()) else {
        return Err("name one user, with --user or --principal".to_owned());
    };
    if principal == "User:*" {
        return Err("name one user: '*' is everybody".to_owned());
    }
    let mut resources = resources(&arguments.resources, Pattern::LITERAL).into_iter();
    let (Some(resource), None) = (resources.next(), resources.next()) else {
        return Err("name one resource, as for `tailrace acl add`".to_owned());
    };
    if arguments.resources.prefixed {
        return Err("name the resource itself, without --prefixed".to_owned());
    }
    let operation = arguments.operation;
    if !resource.kind.operations().contains(&operation) {
        let kind = resource.kind;
        return Err(format!("a {kind} has no operation '{operation}'; it has {}", kind.operation_words()));
    }
    Ok(Question { principal, operation, resource, host: arguments.host.map(|host| host.to_string()) })
}

async fn ask(cluster: &mut Cluster, question: &Question) -> Result<Decision, Failure> {
    let request = DescribeAclsRequest {
        resource_type_filter: question.resource.kind.0,
        resource_name_filter: Some(question.resource.name.clone()),
        pattern_type_filter: question.resource.pattern.0,
        principal_filter: Some(question.principal.clone()),
        host_filter: question.host.clone(),
        operation: question.operation.0,
        permission_type: super::words::Permission::ANY.0,
        unknown_tagged_fields: TaggedFields::of(own_fields::EXPLAIN, Bytes::new()),
    };
    let answer = retrying(cluster, async |cluster| {
        let answer = cluster.any().await?.call(&request).await?;
        if ErrorCode::from_code(answer.error_code) == Some(ErrorCode::SecurityDisabled) {
            return Ok(None);
        }
        check(answer.error_code, answer.error_message.as_ref(), || "cannot explain".to_owned())?;
        Ok(Some(answer))
    })
    .await?;
    let Some(answer) = answer else { return Ok(Decision::NoRules) };
    let verdict = answer.unknown_tagged_fields.get(own_fields::EXPLAIN);
    let verdict = verdict.and_then(|data| Verdict::decode(data));
    let verdict = verdict.ok_or(
        "the server does not explain its decisions; `tailrace acl list --topic NAME` shows the rules that apply",
    )?;
    Ok(Decision::By(verdict, answer.resources.into_iter().flat_map(Rule::from_resource).next()))
}

/// Two lines or three: the decision, its reason, and what else matters.
fn text(question: &Question, decision: &Decision) -> String {
    let Question { principal, operation, resource, host } = question;
    let name = match resource.kind {
        Kind::CLUSTER => String::new(),
        _ => format!(" {}", shown(&resource.name)),
    };
    let from = host.as_ref().map(|host| format!(" from {host}")).unwrap_or_default();
    let asked = format!("{} {operation} {}{name}{from}", shown(principal), resource.kind);
    match decision {
        Decision::NoRules => {
            format!("allowed: {asked}\nthe server has no rules: authorizer.class.name is not set\n")
        }
        Decision::By(verdict, rule) => {
            let result = match (verdict.is_allowed, verdict.is_partial) {
                (true, true) => "allowed in part",
                (true, false) => "allowed",
                (false, _) => "denied",
            };
            let tried = match verdict.is_tried {
                true => "rules are only tried (tailrace.authorizer.report.only): nothing is refused\n",
                false => "",
            };
            format!("{result}: {asked}\n{}\n{tried}", reason(question, verdict, rule.as_ref()))
        }
    }
}

fn reason(question: &Question, verdict: &Verdict, rule: Option<&Rule>) -> String {
    let Question { principal, resource, .. } = question;
    match (verdict.reason, rule) {
        (Reason::SuperUser, _) => {
            format!("{} is one of super.users, who may do everything: rules do not count", shown(principal))
        }
        (Reason::Rule, Some(rule)) if rule.kind != resource.kind => {
            format!("rule: {rule}; it counts because topics and subjects share their records")
        }
        (Reason::Rule, Some(rule)) => format!("rule: {rule}"),
        (Reason::Rule, None) => "a rule that the server does not name".to_owned(),
        (Reason::AuditTopic, _) => {
            "this is the topic of the audit log: super users and users with alter on the \
             cluster may read it, nobody may write or delete it, and rules for topics do not count"
                .to_owned()
        }
        (Reason::DefaultBesideRules, _) => default_beside_rules(question),
        (Reason::DefaultWithoutRules, _) => default_without_rules(question, verdict),
    }
}

fn default_beside_rules(Question { operation, resource, .. }: &Question) -> String {
    let none = "none of them matches this user, address and operation";
    match resource.kind {
        Kind::SUBJECT => format!(
            "default: there are rules for this subject, for its topic, or for other subjects that the user may \
             {operation}, and none of them allows this one"
        ),
        Kind::TOPIC => format!(
            "default: there are rules for this topic or its subjects, and {none}; those for subjects count if they \
             cover all subjects of the topic"
        ),
        kind => format!("default: there are rules for this {kind}, and {none}"),
    }
}

fn default_without_rules(Question { operation, resource, .. }: &Question, verdict: &Verdict) -> String {
    const EVERYONE: &str = "allow.everyone.if.no.acl.found";
    let (kind, is_allowed) = (resource.kind, verdict.is_allowed);
    if kind != Kind::SUBJECT {
        return format!("default: there is no rule for this {kind}, and {EVERYONE} is {is_allowed}");
    }
    match is_allowed {
        true => format!(
            "default: no topic has this subject, and no rule says which subjects the user may {operation}, so these \
             are all; or a topic has it, no rule is about either, and {EVERYONE} is true"
        ),
        false => {
            format!("default: a topic has this subject, there is no rule for either, and {EVERYONE} is false")
        }
    }
}

fn to_json(question: &Question, decision: &Decision) -> Value {
    let (verdict, rule) = match decision {
        Decision::NoRules => (None, None),
        Decision::By(verdict, rule) => (Some(verdict), rule.as_ref()),
    };
    let reason = match verdict.map(|verdict| verdict.reason) {
        None => "no-rules",
        Some(Reason::SuperUser) => "super-user",
        Some(Reason::Rule) => "rule",
        Some(Reason::DefaultBesideRules | Reason::DefaultWithoutRules) => "default",
        Some(Reason::AuditTopic) => "audit-topic",
    };
    json!({
        "allowed": verdict.is_none_or(|verdict| verdict.is_allowed),
        "partly": verdict.is_some_and(|verdict| verdict.is_partial),
        "report_only": verdict.is_some_and(|verdict| verdict.is_tried),
        "reason": reason,
        "rule": rule.map(Rule::to_json),
        "principal": question.principal,
        "operation": question.operation.to_string(),
        "resource_type": question.resource.kind.to_string(),
        "resource_name": question.resource.name,
        "host": question.host,
    })
}

#[cfg(test)]
mod tests {
    use super::super::words::Permission;
    use super::*;

    fn asked(kind: Kind, name: &str) -> Question {
        let resource = Resource { kind, name: name.to_owned(), pattern: Pattern::LITERAL };
        Question { principal: "User:a".to_owned(), operation: Operation::READ, resource, host: None }
    }

    #[test]
    fn the_rule_of_the_other_door_is_said_to_be_one() {
        let rule = Rule {
            kind: Kind::SUBJECT,
            name: "t.>".to_owned(),
            pattern: Pattern::LITERAL,
            principal: "User:*".to_owned(),
            host: "*".to_owned(),
            operation: Operation::READ,
            permission: Permission::DENY,
        };
        let verdict = Verdict { is_allowed: false, is_partial: false, is_tried: true, reason: Reason::Rule };
        let shown = text(&asked(Kind::TOPIC, "t"), &Decision::By(verdict, Some(rule.clone())));
        assert_eq!(
            shown,
            "denied: User:a read topic t\n\
             rule: User:*: deny read on subject t.>; it counts because topics and subjects share their records\n\
             rules are only tried (tailrace.authorizer.report.only): nothing is refused\n"
        );
        let json = to_json(&asked(Kind::TOPIC, "t"), &Decision::By(verdict, Some(rule)));
        assert_eq!((&json["allowed"], &json["reason"]), (&json!(false), &json!("rule")));
        assert_eq!((&json["report_only"], &json["rule"]["resource_type"]), (&json!(true), &json!("subject")));
    }

    #[test]
    fn every_default_says_which_setting_or_which_other_rules_decide() {
        let said = |kind, is_allowed, reason| {
            let verdict = Verdict { is_allowed, is_partial: false, is_tried: false, reason };
            text(&asked(kind, "x"), &Decision::By(verdict, None))
        };
        for (kind, is_allowed, reason, words) in [
            (Kind::TOPIC, true, Reason::SuperUser, "User:a is one of super.users, who may do everything"),
            (
                Kind::GROUP,
                false,
                Reason::DefaultWithoutRules,
                "no rule for this group, and allow.everyone.if.no.acl.found is false",
            ),
            (
                Kind::TOPIC,
                true,
                Reason::DefaultWithoutRules,
                "no rule for this topic, and allow.everyone.if.no.acl.found is true",
            ),
            (
                Kind::GROUP,
                false,
                Reason::DefaultBesideRules,
                "there are rules for this group, and none of them matches",
            ),
            (Kind::TOPIC, false, Reason::DefaultBesideRules, "count if they cover all subjects of the topic"),
            (
                Kind::SUBJECT,
                true,
                Reason::DefaultWithoutRules,
                "no rule says which subjects the user may read",
            ),
            (
                Kind::SUBJECT,
                false,
                Reason::DefaultWithoutRules,
                "a topic has this subject, there is no rule for either",
            ),
            (Kind::SUBJECT, false, Reason::DefaultBesideRules, "none of them allows this one"),
            (Kind::TOPIC, false, Reason::AuditTopic, "this is the topic of the audit log"),
        ] {
            let said = said(kind, is_allowed, reason);
            assert!(said.contains(words), "{said}");
            assert!(said.starts_with(if is_allowed { "allowed" } else { "denied" }), "{said}");
        }
    }

    #[test]
    fn a_server_without_rules_allows_everything() {
        let json = to_json(&asked(Kind::TOPIC, "t"), &Decision::NoRules);
        assert_eq!((&json["allowed"], &json["reason"]), (&json!(true), &json!("no-rules")));
    }
}
