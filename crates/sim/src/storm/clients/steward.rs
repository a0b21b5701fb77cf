//! An administrator who creates and deletes rules, changes, disables and removes users, makes and ends
//! delegation tokens, and sets and removes quotas, while everything goes on.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tailrace_env::time::{self, Duration, Instant};
use tailrace_identity::acl::Acl;
use tailrace_kafka_wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use tailrace_kafka_wire::messages::create_acls_request::AclCreation;
use tailrace_kafka_wire::messages::delete_acls_request::DeleteAclsFilter;
use tailrace_kafka_wire::messages::{
    AlterClientQuotasRequest, AlterUserScramCredentialsRequest, CreateAclsRequest,
    CreateDelegationTokenRequest, DeleteAclsRequest, ExpireDelegationTokenRequest,
};
use tailrace_kafka_wire::{TaggedFields, own_fields};
use tailrace_metadata::AccessImage;

use super::client::{Client, below, index, pause};
use super::sasl;
use crate::storm::access::{
    Entity, ITERATIONS, MECHANISM, RULES, Secret, WATCHED, is_usual, password, rule, salt,
};

pub(super) const CREATE_ACLS: i16 = 3;
pub(super) const DELETE_ACLS: i16 = 3;
const ALTER_CREDENTIALS: i16 = 0;
const CREATE_TOKEN: i16 = 3;
const EXPIRE_TOKEN: i16 = 2;
const ALTER_QUOTAS: i16 = 1;

/// Pauses between two changes.
const PAUSE: Duration = Duration::from_millis(40);
const PAUSE_MS: u64 = 220;

/// A request without an answer may be carried out until then.
const LATE: Duration = Duration::from_secs(6);

/// An unusual state of a rule is made with this probability, in percent, when the rule is looked at.
const UNUSUAL_PERCENT: u64 = 45;

/// The quota of watched users, if they have one: bytes per second.
const BYTES_PER_SECOND: f64 = 400.0;

struct Steward {
    client: Client,
    /// Until when each entity may change because of a request without an answer.
    doubtful: BTreeMap<Entity, Instant>,
    tokens: Vec<Token>,
}

struct Token {
    id: String,
    hmac: Bytes,
    has_ended: bool,
}

/// `number` identifies the client in the history, after the nodes.
pub(super) async fn run(client: Client, number: usize) {
    client.history.lock().begins();
    let mut steward = Steward { client, doubtful: BTreeMap::new(), tokens: Vec::new() };
    while !steward.client.history.lock().has_ended(number) {
        time::sleep(PAUSE).await;
        pause(PAUSE_MS).await;
        if steward.change().await {
            steward.client.history.lock().done(number);
        }
    }
    steward.client.history.lock().finishes();
}

impl Steward {
    /// Makes some change. Returns true if it was acknowledged.
    async fn change(&mut self) -> bool {
        // Any node may have the newest rules. What it says is only used to choose.
        let Some(access) = self.client.history.lock().access.newest() else { return false };
        let user = WATCHED[index(WATCHED.len())];
        match below(16) {
            0..7 => self.change_rule(&access, user).await,
            7..9 => self.rotate(user).await,
            9..11 => self.switch(&access, user).await,
            11 => self.remove(&access, user).await,
            12..15 => self.change_token(user).await,
            _ => self.change_quota(&access, user).await,
        }
    }

    async fn change_rule(&mut self, access: &AccessImage, user: &'static str) -> bool {
        let number = index(RULES.len());
        let acl = rule(user, number);
        let is_there = access.acls().contains(&acl);
        let is_wanted = if is_there == is_usual(number) && below(100) < UNUSUAL_PERCENT {
            !is_there
        } else {
            is_usual(number)
        };
        self.put_rule(&acl, is_wanted).await
    }

    async fn put_rule(&mut self, acl: &Acl, is_wanted: bool) -> bool {
        let entity = Entity::Rule(acl.clone());
        self.begin(&entity);
        let node = self.client.any_node();
        let code = if is_wanted {
            let request = CreateAclsRequest { creations: vec![creation(acl)], ..Default::default() };
            let answer = self.client.ask(node, CREATE_ACLS, &request).await;
            answer.and_then(|answer| Some(answer.results.first()?.error_code))
        } else {
            let request = DeleteAclsRequest { filters: vec![filter(acl)], ..Default::default() };
            let answer = self.client.ask(node, DELETE_ACLS, &request).await;
            // A node that does not know the rule yet finds nothing to delete.
            answer.and_then(|answer| {
                let result = answer.filter_results.first()?;
                (!result.matching_acls.is_empty() || result.error_code != 0).then_some(result.error_code)
            })
        };
        let what = if is_wanted { "a rule was created" } else { "a rule was deleted" };
        self.end(entity, is_wanted.to_string(), code, what)
    }

    /// Sets another password. A user who was removed exists again.
    async fn rotate(&mut self, user: &'static str) -> bool {
        let generation = self.client.history.lock().access.next_password(user);
        let (text, salt) = (password(user, generation), salt(user, generation));
        let upsertion = ScramCredentialUpsertion {
            name: user.to_owned(),
            mechanism: MECHANISM.code(),
            iterations: i32::try_from(ITERATIONS).expect("a small number"),
            salt: Bytes::from(salt.clone()),
            salted_password: sasl::salt(&text, salt.as_bytes(), ITERATIONS).into(),
            ..Default::default()
        };
        let request = AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() };
        self.alter(Entity::Password(user), request, salt, "a password was changed").await
    }

    /// Disables a user, or enables it again.
    async fn switch(&mut self, access: &AccessImage, user: &'static str) -> bool {
        let Some(stored) = access.user(user) else { return self.rotate(user).await };
        let disables = stored.disabled.is_none();
        let deletion = ScramCredentialDeletion {
            name: user.to_owned(),
            mechanism: own_fields::NO_MECHANISM,
            unknown_tagged_fields: TaggedFields::of(
                own_fields::SWITCH_USER,
                Bytes::from(vec![u8::from(disables)]),
            ),
        };
        let request = AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() };
        let what = if disables { "a user was disabled" } else { "a user was enabled" };
        self.alter(Entity::Disabled(user), request, disables.to_string(), what).await
    }

    async fn remove(&mut self, access: &AccessImage, user: &'static str) -> bool {
        if access.user(user).is_none_or(|stored| stored.disabled.is_some()) {
            return self.switch(access, user).await;
        }
        let deletion = ScramCredentialDeletion {
            name: user.to_owned(),
            mechanism: MECHANISM.code(),
            ..Default::default()
        };
        let request = AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() };
        self.alter(Entity::Password(user), request, String::new(), "a user was removed").await
    }

    async fn alter(
        &mut self,
        entity: Entity,
        request: AlterUserScramCredentialsRequest,
        state: String,
        what: &'static str,
    ) -> bool {
        self.begin(&entity);
        let answer = self.client.ask(self.client.any_node(), ALTER_CREDENTIALS, &request).await;
        let code = answer.and_then(|answer| Some(answer.results.first()?.error_code));
        self.end(entity, state, code, what)
    }

    /// Makes a token for a user, or ends one.
    async fn change_token(&mut self, user: &'static str) -> bool {
        let living = self.tokens.iter().position(|token| !token.has_ended);
        match living {
            Some(living) if below(2) == 0 => self.end_token(living).await,
            _ => self.make_token(user).await,
        }
    }

    async fn make_token(&mut self, user: &'static str) -> bool {
        let request = CreateDelegationTokenRequest {
            owner_principal_type: Some("User".to_owned()),
            owner_principal_name: Some(user.to_owned()),
            max_lifetime_ms: -1,
            ..Default::default()
        };
        let node = self.client.any_node();
        let Some(answer) = self.client.ask(node, CREATE_TOKEN, &request).await else { return false };
        if answer.error_code != 0 {
            return false;
        }
        self.client.count("a token was made");
        let secret = Secret::Token { id: answer.token_id.clone(), hmac: STANDARD.encode(&answer.hmac) };
        self.client.history.lock().access.has_token(user, secret);
        // It ends with its owner, too, so only its end is certain.
        self.tokens.push(Token { id: answer.token_id, hmac: answer.hmac, has_ended: false });
        true
    }

    async fn end_token(&mut self, which: usize) -> bool {
        let token = &self.tokens[which];
        let (entity, hmac) = (Entity::Token(token.id.clone()), token.hmac.clone());
        self.begin(&entity);
        let request = ExpireDelegationTokenRequest { hmac, expiry_time_period_ms: -1, ..Default::default() };
        let answer = self.client.ask(self.client.any_node(), EXPIRE_TOKEN, &request).await;
        let code = answer.map(|answer| answer.error_code);
        // Whatever the answer is, the next attempt is for another one.
        self.tokens[which].has_ended = true;
        self.end(entity, false.to_string(), code, "a token was ended")
    }

    async fn change_quota(&mut self, access: &AccessImage, user: &'static str) -> bool {
        let entity = Entity::Quota(user);
        let remove = entity.state(access) == "true";
        self.begin(&entity);
        let named = EntityData {
            entity_type: "user".to_owned(),
            entity_name: Some(user.to_owned()),
            ..Default::default()
        };
        let limit = OpData {
            key: "producer_byte_rate".to_owned(),
            value: BYTES_PER_SECOND,
            remove,
            ..Default::default()
        };
        let entry = EntryData { entity: vec![named], ops: vec![limit], ..Default::default() };
        let request = AlterClientQuotasRequest { entries: vec![entry], ..Default::default() };
        let answer = self.client.ask(self.client.any_node(), ALTER_QUOTAS, &request).await;
        let code = answer.and_then(|answer| Some(answer.entries.first()?.error_code));
        let what = if remove { "a quota was removed" } else { "a quota was set" };
        self.end(entity, (!remove).to_string(), code, what)
    }

    fn begin(&mut self, entity: &Entity) {
        self.doubtful.retain(|_, until| *until > Instant::now());
        self.client.history.lock().access.doubt(entity);
    }

    /// Records the answer to a change.
    fn end(&mut self, entity: Entity, state: String, code: Option<i16>, what: &'static str) -> bool {
        match code {
            Some(0) => {
                self.client.count(what);
                if !self.doubtful.contains_key(&entity) {
                    self.client.history.lock().access.expect(entity, state);
                }
                true
            }
            // Refusals may come after a first attempt whose answer was lost between nodes.
            Some(_) | None => {
                self.doubtful.insert(entity, Instant::now() + LATE);
                false
            }
        }
    }
}

/// Asks for a rule.
pub(super) fn creation(acl: &Acl) -> AclCreation {
    AclCreation {
        resource_type: acl.kind.code(),
        resource_name: acl.name.clone(),
        resource_pattern_type: acl.pattern.code(),
        principal: acl.principal.clone(),
        host: acl.host.clone(),
        operation: acl.operation.code(),
        permission_type: acl.permission.code(),
        ..Default::default()
    }
}

/// Names a rule to delete.
pub(super) fn filter(acl: &Acl) -> DeleteAclsFilter {
    DeleteAclsFilter {
        resource_type_filter: acl.kind.code(),
        resource_name_filter: Some(acl.name.clone()),
        pattern_type_filter: acl.pattern.code(),
        principal_filter: Some(acl.principal.clone()),
        host_filter: Some(acl.host.clone()),
        operation: acl.operation.code(),
        permission_type: acl.permission.code(),
        ..Default::default()
    }
}
