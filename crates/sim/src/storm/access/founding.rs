//! The users and rules with which a run begins.

use tailrace_identity::acl::Acl;
use tailrace_identity::quota::QuotaKey;
use tailrace_identity::scram::ScramVerifier;
use tailrace_metadata::{Command, QuotaLimit, ScramChange};
use tailrace_types::TimestampMs;

use super::known::quota_of;
use super::model::{self, RULES, rule};
use super::names::{
    DEPUTY, ITERATIONS, MECHANISM, SLOW, SLOW_BYTES_PER_SECOND, STORM, WATCHED, password, salt,
};

/// The commands that make the users and their rules, before the faults.
pub(in crate::storm) fn founding(now: TimestampMs) -> Vec<Command> {
    let by = || "User:founder".to_owned();
    let users = [STORM, DEPUTY, SLOW].into_iter().chain(WATCHED);
    let mut commands: Vec<_> = users
        .map(|user| {
            let text = password(user, 0);
            let verifier =
                ScramVerifier::from_password(MECHANISM, &text, salt(user, 0).as_bytes(), ITERATIONS);
            let verifier = verifier.expect("a legal password");
            let change = ScramChange::Set { verifier, keep_previous_until: None };
            Command::AlterScramCredential { user: user.to_owned(), change, by: by(), now }
        })
        .collect();
    let mut rules: Vec<Acl> = model::everything(STORM).into_iter().chain(model::everything(SLOW)).collect();
    rules.push(model::deputys_right());
    for user in WATCHED {
        let allowed = (0..RULES.len()).filter(|number| model::is_usual(*number));
        rules.extend(allowed.map(|number| rule(user, number)));
        rules.push(model::inboxes(user));
    }
    commands.push(Command::CreateAcls(rules));
    let key = QuotaKey::ProducerByteRate;
    let limit = QuotaLimit::new(key, SLOW_BYTES_PER_SECOND).expect("a legal limit");
    let set = [(key, limit)].into();
    commands.push(Command::AlterClientQuota { entity: quota_of(SLOW), set, remove: Vec::new() });
    commands
}
