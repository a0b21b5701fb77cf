//! A server with StandardAuthorizer: what a client may not do changes nothing and tells nothing. Clients are
//! ANONYMOUS, or log in by PLAIN.

mod each_api;
mod explain;
mod filters;
mod hiding;
mod operations;
mod records;
mod subjects;

use tailrace_identity::acl::{
    ANONYMOUS, Acl, CLUSTER_NAME, Operation, PatternKind, Permission, ResourceKind,
};
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use tailrace_metadata::{Command, ScramChange};
use tailrace_node::Caller;

use crate::common::rig::now;
use crate::common::{Client, OK, TestServer, error};

/// A password, for every user.
const PASSWORD: &str = "open sesame";

/// A right: an operation on a resource.
type Right<'a> = (Operation, ResourceKind, &'a str);

/// The right to do something to the cluster.
fn of_cluster(operation: Operation) -> Right<'static> {
    (operation, ResourceKind::Cluster, CLUSTER_NAME)
}

struct Rig {
    server: TestServer,
    /// A super user.
    admin: Client,
}

impl Rig {
    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(more: &[(&str, &str)]) -> Self {
        let settings = [
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("super.users", "User:admin"),
            ("sasl.enabled.mechanisms", "PLAIN"),
            ("tailrace.kafka.authentication", "requested"),
        ];
        let server = TestServer::with(&[&settings[..], more].concat()).await;
        make_user(&server, "admin").await;
        let admin = logged_in(&server, "admin").await;
        Self { server, admin }
    }

    async fn anonymous(&self) -> Client {
        self.server.connect().await
    }

    /// Makes a user, and returns a client that is logged in.
    async fn user(&self, name: &str) -> Client {
        make_user(&self.server, name).await;
        logged_in(&self.server, name).await
    }

    /// Gives rights to everybody who is not logged in.
    async fn allow(&self, rights: &[Right<'_>]) {
        self.allow_user(ANONYMOUS, rights).await;
    }

    async fn allow_user(&self, user: &str, rights: &[Right<'_>]) {
        let acls = rights.iter().map(|&right| acl(user, right, Permission::Allow)).collect();
        self.execute(Command::CreateAcls(acls)).await;
    }

    async fn deny(&self, right: Right<'_>) {
        self.execute(Command::CreateAcls(vec![acl(ANONYMOUS, right, Permission::Deny)])).await;
    }

    /// Takes rights away again.
    async fn forget(&self, rights: &[Right<'_>]) {
        let acls = rights.iter().map(|&right| acl(ANONYMOUS, right, Permission::Allow)).collect();
        self.execute(Command::DeleteAcls(acls)).await;
    }

    async fn execute(&self, command: Command) {
        self.server.node().execute(Caller::internal(), command).await.expect("the command is legal");
    }
}

fn acl(user: &str, (operation, kind, name): Right<'_>, permission: Permission) -> Acl {
    Acl {
        kind,
        name: name.to_owned(),
        pattern: PatternKind::Literal,
        principal: format!("User:{user}"),
        host: "*".to_owned(),
        operation,
        permission,
    }
}

async fn make_user(server: &TestServer, user: &str) {
    let verifier = ScramVerifier::from_password(ScramMechanism::Sha256, PASSWORD, b"salt", 4096);
    let change =
        ScramChange::Set { verifier: verifier.expect("a legal password"), keep_previous_until: None };
    let (user, by) = (user.to_owned(), "User:admin".to_owned());
    let command = Command::AlterScramCredential { user, change, by, now: now() };
    server.node().execute(Caller::internal(), command).await.expect("the user can be made");
}

async fn logged_in(server: &TestServer, user: &str) -> Client {
    let mut client = server.connect().await;
    let handshake = SaslHandshakeRequest { mechanism: "PLAIN".to_owned() };
    assert_eq!(error(client.call(1, &handshake).await.error_code), OK);
    let auth_bytes = format!("\0{user}\0{PASSWORD}").into_bytes().into();
    let answer = client.call(2, &SaslAuthenticateRequest { auth_bytes, ..Default::default() }).await;
    assert_eq!(error(answer.error_code), OK, "{:?}", answer.error_message);
    client
}

/// Reports whether a code says that a right is missing.
fn is_refusal(code: ErrorCode) -> bool {
    [
        ErrorCode::TopicAuthorizationFailed,
        ErrorCode::GroupAuthorizationFailed,
        ErrorCode::ClusterAuthorizationFailed,
        ErrorCode::TransactionalIdAuthorizationFailed,
    ]
    .contains(&code)
}
