//! Lets clients in, or not, where that may need a question to the service of an auth callout.
//!
//! The server asks in the account of the service, with what the client has presented. No answer within the
//! authentication timeout is a refusal, and so is an answer in which anything is not as expected.

use std::sync::Arc;

use tailrace_identity::Denied;
use tailrace_identity::nats_accounts::callout::{
    Authority, CALLOUT_SUBJECT, ConnectOptions as Options, Expected, Question, QuestionClient, QuestionError,
    SealWith, ServerInfo, XKEY_HEADER,
};
use tailrace_identity::nats_accounts::jwt::{KeyKind, SigningKey};
use tailrace_nats_wire::{ConnectOptions, HEADER_LINE, Message};

use super::callout::{Callout, seed};
use super::clock::now_s;
use super::operator::Claimed;
use super::{Asker, Permissions, given};
use crate::burst::Burst;
use crate::client::{Client, TransportKind};
use crate::front::NatsFront;

/// A client about whom the service is asked: what it has presented, and the challenge that it had.
struct Applicant<'a> {
    client: &'a Client,
    connect: &'a ConnectOptions,
    nonce: &'a str,
}

/// Lets a client in, or not: as the users say, or the service.
pub(crate) async fn admit(
    front: &NatsFront,
    client: &Client,
    connect: &ConnectOptions,
    nonce: &str,
    asker: &Asker,
) -> Result<Arc<Permissions>, Denied> {
    let auth = front.auth();
    let known = auth.authenticate(connect, nonce, asker).await;
    match auth.callout().filter(|callout| callout.is_asked_about(&known)) {
        None => known,
        Some(callout) => ask(front, callout, &Applicant { client, connect, nonce }, asker).await,
    }
}

async fn ask(
    front: &NatsFront,
    callout: &Callout,
    applicant: &Applicant<'_>,
    asker: &Asker,
) -> Result<Arc<Permissions>, Denied> {
    let refuse = |reason: &dyn std::fmt::Display| {
        tracing::info!(caller = %asker.client, %reason, "the callout did not let a NATS client in");
        Denied::Unknown
    };
    let user_key = SigningKey::new(KeyKind::User, &seed()).ok_or(Denied::Unknown)?;
    let patience = front.limits().auth_timeout;
    let expires_at_s = now_s().saturating_add(i64::try_from(patience.as_secs()).unwrap_or(i64::MAX).max(1));
    let body = question(front, callout, applicant, user_key.public(), expires_at_s);
    let body = body.map_err(|reason| refuse(&reason))?;
    let headers = callout.curve_key.as_ref().map(|key| {
        [HEADER_LINE, b"\r\n", XKEY_HEADER.as_bytes(), b": ", key.public().as_bytes(), b"\r\n\r\n"].concat()
    });
    let account = front.accounts().get(callout.settings.account.as_str());
    let Some((reply, answer)) = account.ask(patience) else {
        return Err(refuse(&"too many questions wait for an answer"));
    };
    let message = Message {
        subject: CALLOUT_SUBJECT.as_bytes(),
        reply: Some(&reply),
        headers: headers.as_deref(),
        payload: &body,
    };
    let heard = {
        let mut burst = Burst::default();
        let heard = account.router().publish(&mut burst, &message, |_| {});
        burst.finish(front.metrics());
        heard
    };
    if heard == 0 {
        return Err(refuse(&"it is not connected"));
    }
    let answer = answer.await.map_err(|_| refuse(&"it gave no answer"))?;
    let accounts = front.auth().accounts();
    let expected = Expected {
        settings: &callout.settings,
        server_key: callout.key.public(),
        user_key: user_key.public(),
        curve_key: callout.curve_key.as_ref(),
        authority: Authority::Configured { accounts: &accounts },
    };
    let let_in = expected.check(&answer, asker.connection, now_s()).map_err(|reason| refuse(&reason))?;
    let claimed = Claimed { claims: let_in.claims, user: let_in.user };
    let permissions = front.auth().permissions(Arc::clone(&claimed.user.user), asker, None);
    Ok(Arc::new(permissions.with_claims(claimed)))
}

fn question(
    front: &NatsFront,
    callout: &Callout,
    applicant: &Applicant<'_>,
    user_key: &str,
    expires_at_s: i64,
) -> Result<Vec<u8>, QuestionError> {
    let Applicant { client, connect, nonce } = *applicant;
    let info = front.server_info();
    let host = client.peer.ip().to_canonical().to_string();
    let text = |text: &'_ Option<String>| -> String { given(text).unwrap_or_default().to_owned() };
    let [jwt, nkey, signature, auth_token, user, pass] =
        [&connect.jwt, &connect.nkey, &connect.sig, &connect.auth_token, &connect.user, &connect.pass]
            .map(text);
    let presented = if user.is_empty() { &nkey } else { &user };
    let question = Question {
        settings: &callout.settings,
        server: ServerInfo { name: &info.server_name, host: &info.host, version: &info.version, cluster: "" },
        user_key,
        client: QuestionClient {
            host: &host,
            id: client.id,
            user: presented,
            name: &connect.name,
            kind: "Client",
            client_type: match client.transport {
                TransportKind::Plain | TransportKind::Tls => "nats",
                TransportKind::WebSocket => "websocket",
            },
            nonce: if signature.is_empty() { "" } else { nonce },
        },
        options: Options {
            jwt: &jwt,
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
        expires_at_s,
    };
    let mut nonce = [0; 24];
    nonce.copy_from_slice(&seed()[..24]);
    let seal_with = callout.curve_key.as_ref().map(|key| SealWith { key, nonce });
    question.message(&callout.key, seal_with, now_s())
}
