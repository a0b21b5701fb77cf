//! Lets clients in, or not, where that may need a question to the service of an auth callout.
//!
//! The server asks in the account of the service, with what the client has presented. No answer within the
//! authentication timeout is a refusal, and so is an answer in which anything is not as expected.

use std::sync::Arc;

use tailrace_identity::nats_accounts::callout::{
    Authority, CALLOUT_SUBJECT, CalloutDenied, ConnectOptions as Options, Expected, Question, QuestionClient,
    QuestionError, SealWith, ServerInfo, XKEY_HEADER,
};
use tailrace_identity::nats_accounts::jwt::{KeyKind, SigningKey, UserClaims};
use tailrace_identity::nats_accounts::{AccountName, CalloutSettings};
use tailrace_nats_wire::{ConnectOptions, HEADER_LINE, Message};

use super::callout::{Callouts, Service, seed};
use super::clock::now_s;
use super::login::{Mechanism, Refused, given};
use super::operator::Claimed;
use super::{Asker, Permissions};
use crate::client::{Client, TransportKind};
use crate::front::NatsFront;
use crate::speaker::Speaker;

/// A client about whom a service is asked: what it has presented, and the challenge that it had.
struct Applicant<'a> {
    client: &'a Client,
    connect: &'a ConnectOptions,
    nonce: &'a str,
    /// What its claims say, with an operator.
    claims: Option<&'a UserClaims>,
}

/// Lets a client in, or not: as the users say, or a service.
pub(crate) async fn admit(
    front: &NatsFront,
    client: &Client,
    connect: &ConnectOptions,
    nonce: &str,
    asker: &Asker,
) -> Result<Arc<Permissions>, Refused> {
    let auth = front.auth();
    let known = auth.authenticate(connect, nonce, asker).await;
    let Some(callouts) = auth.callouts() else { return known };
    let operator = auth.operator().map(|operator| &**operator);
    let Some(service) = callouts.service(operator, &known) else { return known };
    let claims = known.ok().and_then(|known| Some(Arc::clone(&known.claimed()?.claims)));
    let applicant = Applicant { client, connect, nonce, claims: claims.as_deref() };
    ask(front, callouts, &service, &applicant, asker).await.map_err(|reason| {
        let mechanism = Mechanism::Callout;
        match &applicant.claims {
            Some(claims) => {
                let who = format_args!("user {}/{}: {reason}", claims.account(), claims.subject());
                Refused::new(mechanism, who)
            }
            None => Refused::of(connect, mechanism, reason),
        }
    })
}

/// Why a client was not let in after a question to a service.
#[derive(Debug, thiserror::Error)]
enum NotLetIn {
    #[error("the server cannot make a key")]
    NoKey,
    #[error("the account has no callout any more")]
    NoCallout,
    #[error("the question: {0}")]
    Question(#[from] QuestionError),
    #[error("too many questions wait for an answer of the callout's service")]
    TooMany,
    #[error("the callout's service is not connected")]
    NotConnected,
    #[error("the callout's service gave no answer")]
    NoAnswer,
    #[error(transparent)]
    Denied(#[from] CalloutDenied),
}

async fn ask(
    front: &NatsFront,
    callouts: &Callouts,
    service: &Service<'_>,
    applicant: &Applicant<'_>,
    asker: &Asker,
) -> Result<Arc<Permissions>, NotLetIn> {
    let settings = service.settings().ok_or(NotLetIn::NoCallout)?;
    let user_key = SigningKey::new(KeyKind::User, &seed()).ok_or(NotLetIn::NoKey)?;
    let curve_key = settings.xkey.as_ref().map(|_| &callouts.curve_key);
    let answer = answer(front, callouts, settings, applicant, user_key.public()).await?;
    let accounts = front.auth().accounts();
    let find = |name: &AccountName| match service {
        Service::OfAccount(_, operator) => operator.account_of(name).ok(),
        Service::Configured(_) => None,
    };
    let expected = Expected {
        settings,
        server_key: callouts.key.public(),
        user_key: user_key.public(),
        curve_key,
        authority: match service {
            Service::Configured(_) => Authority::Configured { accounts: &accounts },
            Service::OfAccount(asked, _) => Authority::Operator { asked, account: &find },
        },
    };
    let let_in = expected.check(&answer, asker.connection, now_s())?;
    let asked = match service {
        Service::Configured(_) => None,
        Service::OfAccount(asked, _) => Some(asked.id().clone()),
    };
    let claimed = Claimed { claims: let_in.claims, user: let_in.user, asked };
    let permissions = front.auth().permissions(Arc::clone(&claimed.user.user), asker, None);
    Ok(Arc::new(permissions.with_claims(claimed).proved_by(Mechanism::Callout)))
}

/// Puts the question, and waits for the answer.
async fn answer(
    front: &NatsFront,
    callouts: &Callouts,
    settings: &CalloutSettings,
    applicant: &Applicant<'_>,
    user_key: &str,
) -> Result<Vec<u8>, NotLetIn> {
    let patience = front.limits().auth_timeout;
    let expires_at_s = now_s().saturating_add(i64::try_from(patience.as_secs()).unwrap_or(i64::MAX).max(1));
    let body = question(front, callouts, settings, applicant, Asked { user_key, expires_at_s })?;
    let headers = settings.xkey.as_ref().map(|_| {
        let key = callouts.curve_key.public().as_bytes();
        [HEADER_LINE, b"\r\n", XKEY_HEADER.as_bytes(), b": ", key, b"\r\n\r\n"].concat()
    });
    let account = front.accounts().get(settings.account.as_str());
    let (reply, answer) = account.ask(patience).ok_or(NotLetIn::TooMany)?;
    let message = Message {
        subject: CALLOUT_SUBJECT.as_bytes(),
        reply: Some(&reply),
        headers: headers.as_deref(),
        payload: &body,
    };
    if Speaker::new(front).say(account.router(), &message).await == 0 {
        return Err(NotLetIn::NotConnected);
    }
    answer.await.map_err(|_| NotLetIn::NoAnswer)
}

/// The key that the answer must name, and until when it is waited for.
struct Asked<'a> {
    user_key: &'a str,
    expires_at_s: i64,
}

fn question(
    front: &NatsFront,
    callouts: &Callouts,
    settings: &CalloutSettings,
    applicant: &Applicant<'_>,
    asked: Asked<'_>,
) -> Result<Vec<u8>, QuestionError> {
    let Applicant { client, connect, nonce, claims } = *applicant;
    let info = front.server_info();
    let host = client.peer.ip().to_canonical().to_string();
    let text = |text: &'_ Option<String>| -> String { given(text).unwrap_or_default().to_owned() };
    let [jwt, nkey, signature, auth_token, user, pass] =
        [&connect.jwt, &connect.nkey, &connect.sig, &connect.auth_token, &connect.user, &connect.pass]
            .map(text);
    let sentinel = front.auth().operator().and_then(|operator| operator.sentinel()).unwrap_or_default();
    // As in nats-server: the key or the name that was presented, or else the key of the claims.
    let presented = [nkey.as_str(), &user, claims.map_or("", UserClaims::subject)];
    let presented = presented.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let question = Question {
        settings,
        server: ServerInfo { name: &info.server_name, host: &info.host, version: &info.version, cluster: "" },
        user_key: asked.user_key,
        client: QuestionClient {
            host: &host,
            id: client.id,
            user: presented,
            name: &connect.name,
            tags: claims.map_or(&[][..], UserClaims::tags),
            name_tag: claims.map_or("", UserClaims::name),
            kind: "Client",
            client_type: match client.transport {
                TransportKind::Plain | TransportKind::Tls => "nats",
                TransportKind::WebSocket => "websocket",
            },
            nonce: if signature.is_empty() { "" } else { nonce },
        },
        options: Options {
            jwt: if jwt.is_empty() { sentinel } else { &jwt },
            nkey: &nkey,
            signature: &signature,
            auth_token: &auth_token,
            user: &user,
            password: &pass,
            name: &connect.name,
            lang: &connect.lang,
            version: &connect.version,
            protocol: u32::try_from(connect.protocol).unwrap_or(0),
        },
        tls: None,
        expires_at_s: asked.expires_at_s,
    };
    let mut nonce = [0; 24];
    nonce.copy_from_slice(&seed()[..24]);
    let seal_with = settings.xkey.as_ref().map(|_| SealWith { key: &callouts.curve_key, nonce });
    question.message(&callouts.key, seal_with, now_s())
}
