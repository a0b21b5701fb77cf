//! A Kafka server of one node that does nothing but keep users, rules and quotas, as Kafka 4.3 does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use tailrace_kafka_wire::messages::alter_client_quotas_request::EntryData;
use tailrace_kafka_wire::messages::api_versions_response::ApiVersion;
use tailrace_kafka_wire::messages::create_acls_request::AclCreation;
use tailrace_kafka_wire::messages::metadata_response::MetadataResponseBroker;
use tailrace_kafka_wire::messages::*;
use tailrace_kafka_wire::{
    ApiKey, ErrorCode, Message, Reader, RequestHeader, Response, decode_body, frame_bytes, response_frame,
};

/// The requests that it answers, with their highest versions.
const SERVED: [(ApiKey, i16); 9] = [
    (ApiKey::Metadata, 12),
    (ApiKey::ApiVersions, 4),
    (ApiKey::DescribeAcls, 3),
    (ApiKey::CreateAcls, 3),
    (ApiKey::DeleteAcls, 3),
    (ApiKey::DescribeClientQuotas, 1),
    (ApiKey::AlterClientQuotas, 1),
    (ApiKey::DescribeUserScramCredentials, 0),
    (ApiKey::AlterUserScramCredentials, 0),
];
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// A part of an entity, by its type; `None` is the default.
type Parts = BTreeMap<String, Option<String>>;

/// What a server of Kafka keeps of a password, before it derives its keys.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) iterations: i32,
    pub(crate) salt: Vec<u8>,
    pub(crate) salted_password: Vec<u8>,
}

#[derive(Default)]
struct State {
    /// By name and number of the mechanism.
    users: BTreeMap<(String, i8), Stored>,
    rules: Vec<AclCreation>,
    quotas: BTreeMap<Parts, BTreeMap<String, f64>>,
    /// The number of filters in each DeleteAcls.
    deletions: Vec<usize>,
}

/// The running server. It ends with the test's process.
pub(crate) struct FakeAdmin {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
}

impl FakeAdmin {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let (kept, port) = (Arc::clone(&state), listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream.unwrap(), port, &state));
            }
        });
        Self { address, state }
    }

    /// The stored password of a user.
    pub(crate) fn stored(&self, user: &str, mechanism: i8) -> Option<Stored> {
        self.state.lock().unwrap().users.get(&(user.to_owned(), mechanism)).cloned()
    }

    /// The number of filters in each DeleteAcls so far.
    pub(crate) fn deletions(&self) -> Vec<usize> {
        self.state.lock().unwrap().deletions.clone()
    }
}

fn serve(mut stream: TcpStream, port: u16, state: &Mutex<State>) {
    loop {
        let mut prefix = [0; 4];
        if stream.read_exact(&mut prefix).is_err() {
            return;
        }
        let mut body = vec![0; frame_bytes(prefix, REQUEST_BYTES_MAX).unwrap() as usize];
        stream.read_exact(&mut body).unwrap();
        let mut reader = Reader::new(body.into());
        let header = RequestHeader::decode(&mut reader).unwrap();
        let mut call = Call { stream: &mut stream, header, reader: Some(reader) };
        let state = &mut *state.lock().unwrap();
        match call.header.api_key {
            ApiKey::ApiVersions => call.answer(&versions()),
            ApiKey::Metadata => call.answer(&metadata(port)),
            ApiKey::DescribeUserScramCredentials => {
                let request = call.body();
                call.answer(&state.describe_users(&request));
            }
            ApiKey::AlterUserScramCredentials => {
                let request = call.body();
                call.answer(&state.alter_users(request));
            }
            ApiKey::DescribeAcls => {
                let request = call.body();
                call.answer(&state.describe_acls(&request));
            }
            ApiKey::CreateAcls => {
                let request = call.body();
                call.answer(&state.create_acls(request));
            }
            ApiKey::DeleteAcls => {
                let request = call.body();
                call.answer(&state.delete_acls(&request));
            }
            ApiKey::DescribeClientQuotas => {
                let request = call.body();
                call.answer(&state.describe_quotas(&request));
            }
            ApiKey::AlterClientQuotas => {
                let request = call.body();
                call.answer(&state.alter_quotas(request));
            }
            other => panic!("{other:?} is not served"),
        }
    }
}

struct Call<'a> {
    stream: &'a mut TcpStream,
    header: RequestHeader,
    reader: Option<Reader>,
}

impl Call<'_> {
    fn body<M: Message>(&mut self) -> M {
        decode_body(self.reader.take().unwrap(), self.header.api_version).unwrap()
    }

    fn answer<R: Response>(&mut self, answer: &R) {
        let frame = response_frame(self.header.correlation_id, self.header.api_version, answer).unwrap();
        self.stream.write_all(&frame.into_bytes().unwrap()).unwrap();
    }
}

fn versions() -> ApiVersionsResponse {
    let api = |(key, max_version): (ApiKey, i16)| ApiVersion {
        api_key: key.code(),
        min_version: key.stable_versions().min,
        max_version,
        ..Default::default()
    };
    ApiVersionsResponse { api_keys: SERVED.into_iter().map(api).collect(), ..Default::default() }
}

fn metadata(port: u16) -> MetadataResponse {
    let broker = MetadataResponseBroker {
        node_id: 1,
        host: "127.0.0.1".to_owned(),
        port: port.into(),
        ..Default::default()
    };
    MetadataResponse { brokers: vec![broker], controller_id: 1, ..Default::default() }
}

impl State {
    fn describe_users(
        &self,
        request: &DescribeUserScramCredentialsRequest,
    ) -> DescribeUserScramCredentialsResponse {
        use tailrace_kafka_wire::messages::describe_user_scram_credentials_response::*;
        let mut found: BTreeMap<String, Vec<CredentialInfo>> = BTreeMap::new();
        for named in request.users.iter().flatten() {
            found.insert(named.name.clone(), Vec::new());
        }
        let wants_all = found.is_empty();
        for ((name, mechanism), stored) in &self.users {
            if wants_all || found.contains_key(name) {
                let iterations = stored.iterations;
                let info = CredentialInfo { mechanism: *mechanism, iterations, ..Default::default() };
                found.entry(name.clone()).or_default().push(info);
            }
        }
        let result = |(user, credential_infos): (String, Vec<CredentialInfo>)| {
            let code =
                if credential_infos.is_empty() { ErrorCode::ResourceNotFound } else { ErrorCode::None };
            let error_code = code.code();
            DescribeUserScramCredentialsResult { user, error_code, credential_infos, ..Default::default() }
        };
        let results = found.into_iter().map(result).collect();
        DescribeUserScramCredentialsResponse { results, ..Default::default() }
    }

    /// Refuses two changes of a user in one request, as Kafka does.
    fn alter_users(
        &mut self,
        request: AlterUserScramCredentialsRequest,
    ) -> AlterUserScramCredentialsResponse {
        use tailrace_kafka_wire::messages::alter_user_scram_credentials_response::*;
        let mut results = Vec::new();
        let mut result = |user: String, code: ErrorCode| {
            let error_code = code.code();
            results.push(AlterUserScramCredentialsResult { user, error_code, ..Default::default() });
        };
        if request.deletions.len() + request.upsertions.len() > 1 {
            result(String::new(), ErrorCode::DuplicateResource);
            return AlterUserScramCredentialsResponse { results, ..Default::default() };
        }
        for set in request.upsertions {
            let stored = Stored {
                iterations: set.iterations,
                salt: set.salt.to_vec(),
                salted_password: set.salted_password.to_vec(),
            };
            self.users.insert((set.name.clone(), set.mechanism), stored);
            result(set.name, ErrorCode::None);
        }
        for deletion in request.deletions {
            let found = self.users.remove(&(deletion.name.clone(), deletion.mechanism));
            let missing = match deletion.mechanism {
                1 | 2 => ErrorCode::ResourceNotFound,
                _ => ErrorCode::UnsupportedSaslMechanism,
            };
            result(deletion.name, found.map_or(missing, |_| ErrorCode::None));
        }
        AlterUserScramCredentialsResponse { results, ..Default::default() }
    }

    fn describe_acls(&self, request: &DescribeAclsRequest) -> DescribeAclsResponse {
        use tailrace_kafka_wire::messages::describe_acls_response::*;
        let is_wanted = |rule: &&AclCreation| {
            let name = request.resource_name_filter.as_deref();
            let pattern = match (request.pattern_type_filter, name) {
                (1, None) => true,
                (2, Some(name)) => match rule.resource_pattern_type {
                    4 => name.starts_with(&rule.resource_name),
                    _ => rule.resource_name == name || rule.resource_name == "*",
                },
                (pattern, name) => {
                    pattern == rule.resource_pattern_type
                        && name.is_none_or(|name| name == rule.resource_name)
                }
            };
            pattern
                && [1, rule.resource_type].contains(&request.resource_type_filter)
                && request.principal_filter.as_ref().is_none_or(|wanted| *wanted == rule.principal)
                && request.host_filter.as_ref().is_none_or(|wanted| *wanted == rule.host)
                && [1, rule.operation].contains(&request.operation)
                && [1, rule.permission_type].contains(&request.permission_type)
        };
        let resource = |rule: &AclCreation| DescribeAclsResource {
            resource_type: rule.resource_type,
            resource_name: rule.resource_name.clone(),
            pattern_type: rule.resource_pattern_type,
            acls: vec![AclDescription {
                principal: rule.principal.clone(),
                host: rule.host.clone(),
                operation: rule.operation,
                permission_type: rule.permission_type,
                ..Default::default()
            }],
            ..Default::default()
        };
        let resources = self.rules.iter().filter(is_wanted).map(resource).collect();
        DescribeAclsResponse { resources, ..Default::default() }
    }

    fn create_acls(&mut self, request: CreateAclsRequest) -> CreateAclsResponse {
        use tailrace_kafka_wire::messages::create_acls_response::AclCreationResult;
        let results = request.creations.iter().map(|_| AclCreationResult::default()).collect();
        for rule in request.creations {
            if !self.rules.contains(&rule) {
                self.rules.push(rule);
            }
        }
        CreateAclsResponse { results, ..Default::default() }
    }

    /// Takes only filters that name every part of a rule.
    fn delete_acls(&mut self, request: &DeleteAclsRequest) -> DeleteAclsResponse {
        use tailrace_kafka_wire::messages::delete_acls_response::*;
        self.deletions.push(request.filters.len());
        let mut results = Vec::new();
        for filter in &request.filters {
            let wanted = AclCreation {
                resource_type: filter.resource_type_filter,
                resource_name: filter.resource_name_filter.clone().unwrap(),
                resource_pattern_type: filter.pattern_type_filter,
                principal: filter.principal_filter.clone().unwrap(),
                host: filter.host_filter.clone().unwrap(),
                operation: filter.operation,
                permission_type: filter.permission_type,
                ..Default::default()
            };
            let count = self.rules.len();
            self.rules.retain(|rule| *rule != wanted);
            let matching = DeleteAclsMatchingAcl {
                resource_type: wanted.resource_type,
                resource_name: wanted.resource_name,
                pattern_type: wanted.resource_pattern_type,
                principal: wanted.principal,
                host: wanted.host,
                operation: wanted.operation,
                permission_type: wanted.permission_type,
                ..Default::default()
            };
            let matching_acls = vec![matching; count - self.rules.len()];
            results.push(DeleteAclsFilterResult { matching_acls, ..Default::default() });
        }
        DeleteAclsResponse { filter_results: results, ..Default::default() }
    }

    fn describe_quotas(&self, request: &DescribeClientQuotasRequest) -> DescribeClientQuotasResponse {
        use tailrace_kafka_wire::messages::describe_client_quotas_response::*;
        let is_wanted = |parts: &Parts| {
            let matches = request.components.iter().all(|component| {
                // Exact, or the default: a name or none.
                parts.get(&component.entity_type).is_some_and(|name| *name == component.r#match)
            });
            matches && (!request.strict || parts.len() == request.components.len())
        };
        let entry = |(parts, values): (&Parts, &BTreeMap<String, f64>)| EntryData {
            entity: parts
                .iter()
                .map(|(kind, name)| EntityData {
                    entity_type: kind.clone(),
                    entity_name: name.clone(),
                    ..Default::default()
                })
                .collect(),
            values: values
                .iter()
                .map(|(key, value)| ValueData { key: key.clone(), value: *value, ..Default::default() })
                .collect(),
            ..Default::default()
        };
        let entries = self.quotas.iter().filter(|(parts, _)| is_wanted(parts)).map(entry).collect();
        DescribeClientQuotasResponse { entries: Some(entries), ..Default::default() }
    }

    fn alter_quotas(&mut self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse {
        use tailrace_kafka_wire::messages::alter_client_quotas_response as response;
        let entries = request.entries.iter().map(|_| response::EntryData::default()).collect();
        if !request.validate_only {
            request.entries.into_iter().for_each(|entry| self.alter_quota(entry));
        }
        AlterClientQuotasResponse { entries, ..Default::default() }
    }

    fn alter_quota(&mut self, entry: EntryData) {
        let parts: Parts =
            entry.entity.into_iter().map(|part| (part.entity_type, part.entity_name)).collect();
        let quotas = self.quotas.entry(parts.clone()).or_default();
        for op in entry.ops {
            match op.remove {
                true => drop(quotas.remove(&op.key)),
                false => drop(quotas.insert(op.key, op.value)),
            }
        }
        if quotas.is_empty() {
            self.quotas.remove(&parts);
        }
    }
}
