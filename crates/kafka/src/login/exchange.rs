//! The tokens of one login, for each mechanism.

use std::sync::Arc;

use tailrace_env::random;
use tailrace_identity::oauth::{Failure, InitialResponse, is_failure_acknowledged};
use tailrace_identity::scram::{ScramMechanism, ScramProof, ScramStart};
use tailrace_identity::{PlainDenied, PlainLogin, UserName};
use tailrace_node::Node;
use tailrace_node::access::{LoggedIn, TokenRefused};

/// A mechanism that tailrace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    Scram(ScramMechanism),
    OAuthBearer,
}

impl Mechanism {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let others = [Self::Plain, Self::OAuthBearer];
        let found = others.into_iter().find(|mechanism| mechanism.name() == name);
        found.or_else(|| ScramMechanism::from_name(name).map(Self::Scram))
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(mechanism) => mechanism.name(),
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }
}

/// A failed login.
#[derive(Debug)]
pub(super) struct Failed {
    /// What the client is told. It does not say which half was wrong.
    pub(super) message: String,
    /// The reason, for the log.
    pub(super) reason: String,
    /// Whether it was logged and counted before.
    pub(super) is_recorded: bool,
}

impl Failed {
    fn new(mechanism: Mechanism, reason: impl ToString) -> Self {
        let message = match mechanism {
            Mechanism::Plain => "Authentication failed: Invalid username or password".to_owned(),
            Mechanism::Scram(_) | Mechanism::OAuthBearer => format!(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism {}",
                mechanism.name()
            ),
        };
        Self { message, reason: reason.to_string(), is_recorded: false }
    }

    pub(super) fn out_of_order() -> Self {
        let reason = "a token came although none was expected".to_owned();
        Self { message: reason.clone(), reason, is_recorded: false }
    }

    pub(super) fn other_mechanism(now: &str, before: &str) -> Self {
        let message = format!(
            "SASL mechanism '{now}' requested by client is not supported for re-authentication of mechanism '{before}'"
        );
        Self { reason: message.clone(), message, is_recorded: false }
    }

    pub(super) fn other_user(before: &str, now: &str) -> Self {
        let (before, now) = (before.escape_debug(), now.escape_debug());
        let message =
            format!("Cannot change principals during re-authentication from User.{before}: User.{now}");
        Self { reason: message.clone(), message, is_recorded: false }
    }
}

/// The result of a token.
pub(super) enum Step {
    /// The client continues after this answer.
    Continue(Vec<u8>),
    /// The login has failed, but the client must answer this before it ends.
    Refuse { answer: Vec<u8>, reason: String },
    /// The login is complete.
    Done { answer: Vec<u8>, logged_in: LoggedIn },
}

/// The server's side of one login.
#[derive(Debug)]
pub(super) enum Exchange {
    /// Nothing has arrived.
    New(Mechanism),
    /// The challenge of SCRAM was sent.
    Challenged {
        mechanism: ScramMechanism,
        proof: Box<ScramProof>,
        /// Whether the user is the id of a delegation token.
        is_token: bool,
    },
    /// A token was refused, and the client was told so in JSON. Its answer is due, and then the login fails.
    Refused(String),
    /// It has ended.
    Ended,
}

impl Exchange {
    pub(super) fn new(mechanism: Mechanism) -> Self {
        Self::New(mechanism)
    }

    /// Takes the next token.
    ///
    /// # Errors
    /// The login failed.
    pub(super) async fn take(&mut self, node: &Arc<Node>, token: &[u8]) -> Result<Step, Failed> {
        match std::mem::replace(self, Self::Ended) {
            Self::New(Mechanism::Plain) => plain(node, token).await,
            Self::New(Mechanism::Scram(mechanism)) => {
                let start = ScramStart::parse(mechanism, token)
                    .map_err(|error| Failed::new(Mechanism::Scram(mechanism), error))?;
                let is_token = start.is_token();
                let found = match is_token {
                    true => node.token_user(start.user(), mechanism).await,
                    false => Ok(node.scram_user(start.user(), mechanism)),
                };
                let found = found.map_err(|error| Failed::new(Mechanism::Scram(mechanism), error))?;
                let (proof, answer) = start.challenge(found.verifier, found.may_log_in, &nonce());
                let proof = Box::new(proof.or(found.previous));
                *self = Self::Challenged { mechanism, proof, is_token };
                Ok(Step::Continue(answer))
            }
            Self::Challenged { mechanism, proof, is_token } => {
                let mechanism = Mechanism::Scram(mechanism);
                let user = proof.user().clone();
                let proven =
                    proof.finish(token).map_err(|error| Failed::new(mechanism, of_user(&user, error)))?;
                let logged_in = match is_token {
                    true => node.token_login(&user),
                    false => node.logged_in(user.clone(), proven.verifier),
                };
                let logged_in = logged_in.map_err(|error| Failed::new(mechanism, of_user(&user, error)))?;
                Ok(Step::Done { answer: proven.answer, logged_in })
            }
            Self::New(Mechanism::OAuthBearer) => {
                let step = bearer(node, token).await?;
                if let Step::Refuse { answer, .. } = &step {
                    *self = Self::Refused(String::from_utf8_lossy(answer).into_owned());
                }
                Ok(step)
            }
            Self::Refused(message) => {
                let failed = Failed::new(Mechanism::OAuthBearer, "the token was refused");
                let failed = Failed { is_recorded: true, ..failed };
                // Anything else could be a second attempt, which is not looked at.
                Err(if is_failure_acknowledged(token) { Failed { message, ..failed } } else { failed })
            }
            Self::Ended => Err(Failed::out_of_order()),
        }
    }
}

/// Checks the client's first message of OAUTHBEARER (RFC 7628). A refused token is told in JSON. A message
/// that is malformed, or asks for the rights of another user, fails at once, as in Kafka.
async fn bearer(node: &Arc<Node>, message: &[u8]) -> Result<Step, Failed> {
    let failed = |reason: &dyn ToString| Failed::new(Mechanism::OAuthBearer, reason.to_string());
    let message = InitialResponse::parse(message).map_err(|error| failed(&error))?;
    match node.check_token(&message).await {
        Ok(logged_in) => Ok(Step::Done { answer: Vec::new(), logged_in }),
        Err(TokenRefused::OtherUser) => Err(failed(&TokenRefused::OtherUser)),
        Err(
            error @ (TokenRefused::NotEnabled
            | TokenRefused::Token(_)
            | TokenRefused::Expired
            | TokenRefused::Disabled),
        ) => {
            Ok(Step::Refuse { answer: Failure::default().to_json().into_bytes(), reason: error.to_string() })
        }
    }
}

async fn plain(node: &Arc<Node>, token: &[u8]) -> Result<Step, Failed> {
    let failed = |reason: &dyn ToString| Failed::new(Mechanism::Plain, reason.to_string());
    let login = PlainLogin::parse(token).map_err(|error| failed(&error))?;
    let user = login.user().clone();
    let checked = node.check_password(user.clone(), login.password()).await;
    // Asking for the rights of another user fails only after the password was checked.
    match (login.accept(checked.is_ok()), checked) {
        (Ok(_), Ok(logged_in)) => Ok(Step::Done { answer: Vec::new(), logged_in }),
        (Err(PlainDenied::OtherUser), _) => Err(failed(&of_user(&user, PlainDenied::OtherUser))),
        (_, Err(error)) => Err(failed(&of_user(&user, error))),
        (Err(denied @ PlainDenied::WrongPassword), Ok(_)) => Err(failed(&of_user(&user, denied))),
    }
}

fn of_user(user: &UserName, reason: impl std::fmt::Display) -> String {
    format!("user {}: {reason}", user.as_str().escape_debug())
}

fn nonce() -> [u8; 24] {
    let mut nonce = [0; 24];
    let (first, second) = nonce.split_at_mut(16);
    first.copy_from_slice(&random::bytes16());
    second.copy_from_slice(&random::bytes16()[..8]);
    nonce
}
