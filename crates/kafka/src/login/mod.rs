//! Logins of clients: SASL (KIP-12, KIP-43, KIP-152, KIP-255), SaslHandshake (17) and SaslAuthenticate (36),
//! and logging in again on the same connection (KIP-368).
//!
//! A connection starts anonymous. SaslHandshake chooses a mechanism, and its tokens follow: in
//! SaslAuthenticate requests, or after version 0 of the handshake as frames of their own. If a login is
//! required, nothing but ApiVersions comes before it. A failed login is answered after a delay, and the
//! connection is closed.
//!
//! A client that has shown a certificate is logged in by it when the connection begins. A login with SASL may
//! follow, and counts instead. If the certificate names no user, it must follow.
//!
//! Deliberately not here: who the users are and whether a proof holds (node: `access`, identity: `scram`,
//! `oauth`), and what a user may do.

mod exchange;
pub(crate) mod state;

use std::sync::Arc;
use tailrace_env::time::{self, Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use tailrace_config::KafkaAuthentication;
use tailrace_kafka_wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use tailrace_kafka_wire::{ApiKey, ErrorCode};
use tailrace_node::Node;
use tailrace_node::access::LoggedIn;

use self::exchange::{Failed, Mechanism, Step};
use self::state::{Done, Framing, Progress};
use crate::closed::Closed;
use crate::context::{Context, Decided};
use crate::outbox::ReplyPart;
use crate::server::KafkaServer;
use crate::session::ClientSession;

/// Longest time until a client must log in again. Tokens may be valid until the year 9999, and clients
/// compute with this time in nanoseconds.
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// How logins with a delegation token are called in metrics and in the audit log.
const DELEGATION_TOKEN: &str = "delegation-token";

/// Answers a frame that has no header: a token after version 0 of the handshake. `None` if the frame is a
/// request.
pub(crate) async fn naked_frame(
    server: &Arc<KafkaServer>,
    session: &ClientSession,
    body: &Bytes,
) -> Option<Result<Decided, Closed>> {
    if !session.login().expects_naked_frame() {
        return None;
    }
    Some(match take_token(server, session, body).await {
        Ok(taken) => {
            let mut frame = BytesMut::with_capacity(4 + taken.answer.len());
            // Answers of mechanisms are far smaller than 2 GiB.
            frame.put_u32(taken.answer.len() as u32);
            frame.extend_from_slice(&taken.answer);
            Ok(Decided::Reply(vec![ReplyPart::Bytes(frame.freeze())]))
        }
        // There is no way to say why.
        Err(Failed { .. }) => Err(Closed::LoginFailed),
    })
}

/// Decides whether a request may be carried out at this point of the connection.
///
/// # Errors
/// It may not: the connection must be closed.
pub(crate) fn check(server: &KafkaServer, session: &ClientSession, key: ApiKey) -> Result<(), Closed> {
    let mut login = session.login();
    let (is_required, nameless) = (login.is_required, login.nameless);
    match &mut login.progress {
        Progress::None if key == ApiKey::SaslHandshake || !is_required => Ok(()),
        Progress::None if key == ApiKey::ApiVersions => Ok(()),
        Progress::None => Err(match nameless {
            Some(reason) => Closed::NamelessCertificate { reason },
            None => Closed::NoLogin { api: key.name() },
        }),
        Progress::Started(_) if key == ApiKey::SaslAuthenticate => Ok(()),
        Progress::Started(_) | Progress::Busy => Err(Closed::NoLogin { api: key.name() }),
        Progress::Done(done) => {
            if done.ends.is_some_and(|ends| Instant::now() >= ends) && key != ApiKey::SaslHandshake {
                return Err(Closed::LoginExpired);
            }
            if done.holds(&server.node) { Ok(()) } else { Err(Closed::CredentialChanged) }
        }
    }
}

/// Answers SaslHandshake.
pub(crate) fn handshake(context: &Context, request: &SaslHandshakeRequest) -> Result<Decided, Closed> {
    let listener = &context.session.came_by.settings;
    let mechanisms = listener.mechanisms.clone();
    let answer = |code: ErrorCode| {
        let mechanisms = mechanisms.clone();
        context.reply(SaslHandshakeResponse { error_code: code.code(), mechanisms })
    };
    if listener.authentication == KafkaAuthentication::None {
        return Ok(Decided::Reply(answer(ErrorCode::IllegalSaslState)?));
    }
    let mut login = context.session.login();
    let before = match std::mem::replace(&mut login.progress, Progress::Busy) {
        Progress::None => None,
        Progress::Done(done) if done.is_by_certificate() => None,
        Progress::Done(done) if done.may_repeat() => Some(done),
        other => {
            login.progress = other;
            return Ok(Decided::Reply(answer(ErrorCode::IllegalSaslState)?));
        }
    };
    let wanted = Mechanism::from_name(&request.mechanism).filter(|_| mechanisms.contains(&request.mechanism));
    let Some(mechanism) = wanted else {
        return Ok(Decided::Last(answer(ErrorCode::UnsupportedSaslMechanism)?, Closed::LoginFailed));
    };
    let framing = if context.version() == 0 { Framing::Naked } else { Framing::Requests };
    login.start(mechanism, framing, before);
    Ok(Decided::Reply(answer(ErrorCode::None)?))
}

/// Answers SaslAuthenticate.
pub(crate) async fn authenticate(
    context: Context,
    request: SaslAuthenticateRequest,
) -> Result<Decided, Closed> {
    let refuse = |code: ErrorCode, message: String| SaslAuthenticateResponse {
        error_code: code.code(),
        error_message: Some(message),
        ..Default::default()
    };
    if !context.session.login().has_started() {
        let message = "SaslAuthenticate request received before or after a login.".to_owned();
        let answer = refuse(ErrorCode::IllegalSaslState, message);
        return Ok(Decided::Reply(context.reply(answer)?));
    }
    match take_token(&context.server, &context.session, &request.auth_bytes).await {
        Ok(Taken { answer, lifetime }) => {
            let session_lifetime_ms = lifetime.map_or(0, |left| i64::try_from(left.as_millis()).unwrap_or(0));
            let answer = SaslAuthenticateResponse {
                auth_bytes: answer.into(),
                session_lifetime_ms,
                ..Default::default()
            };
            Ok(Decided::Reply(context.reply(answer)?))
        }
        Err(Failed { message, .. }) => {
            let answer = refuse(ErrorCode::SaslAuthenticationFailed, message);
            Ok(Decided::Last(context.reply(answer)?, Closed::LoginFailed))
        }
    }
}

/// An accepted token.
struct Taken {
    answer: Vec<u8>,
    /// The time until the client must log in again, after the last token.
    lifetime: Option<Duration>,
}

/// Takes a token of the client. A failure is recorded, and returned after its delay.
async fn take_token(
    server: &Arc<KafkaServer>,
    session: &ClientSession,
    token: &[u8],
) -> Result<Taken, Failed> {
    let arrived = Instant::now();
    let started = session.login().take_started();
    let Some(mut started) = started else { return Err(Failed::out_of_order()) };
    let step = started.exchange.take(&server.node, token).await;
    let mechanism = started.mechanism.name();
    let failed = match step {
        Ok(Step::Continue(answer)) => {
            session.login().progress = Progress::Started(started);
            return Ok(Taken { answer, lifetime: None });
        }
        Ok(Step::Refuse { answer, reason }) => {
            // Recorded now: the client may leave without the last message.
            let delay = server.node.login_failed(session.caller(), mechanism, &reason);
            time::sleep(delay.saturating_sub(arrived.elapsed())).await;
            session.login().progress = Progress::Started(started);
            return Ok(Taken { answer, lifetime: None });
        }
        Err(failed) if failed.is_recorded => return Err(failed),
        Ok(Step::Done { answer, logged_in }) => {
            match started.before.as_ref().map(|before| before.check(mechanism, &logged_in)) {
                None | Some(Ok(())) => {
                    let lifetime = lifetime(&server.node, &logged_in);
                    session.log_in(&logged_in);
                    let how = if logged_in.is_delegated() { DELEGATION_TOKEN } else { mechanism };
                    server.node.login_succeeded(session.caller(), how);
                    session.login().finish(Done::new(mechanism, logged_in, lifetime));
                    return Ok(Taken { answer, lifetime });
                }
                Some(Err(failed)) => failed,
            }
        }
        Err(failed) => failed,
    };
    let delay = server.node.login_failed(session.caller(), mechanism, &failed.reason);
    time::sleep(delay.saturating_sub(arrived.elapsed())).await;
    Err(failed)
}

/// Returns the time until the client must log in again: what is left of its credential, or
/// `connections.max.reauth.ms` if that is shorter. `None` if neither ends.
fn lifetime(node: &Node, logged_in: &LoggedIn) -> Option<Duration> {
    let setting = Some(node.config().connections_max_reauth_ms).filter(|ms| *ms > 0);
    // On the wire 0 would mean that there is no end.
    let left = node.login_time_left(logged_in).map(|left| left.clamp(Duration::from_millis(1), LIFETIME_MAX));
    setting.map(Duration::from_millis).into_iter().chain(left).min()
}
