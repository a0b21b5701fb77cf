//! From a request to its answer.

use std::sync::Arc;

use tailrace_env::time::Duration;
use tailrace_jetstream::api::bodies::MessageGet;
use tailrace_jetstream::api::{Request, has_level};
use tailrace_jetstream::error::{ApiError, ErrorKind};

use super::asked::{Asked, Speaker, Spoken};
use super::pulls::{Ended, PullCall};
use super::requests::{ApiCall, RequestCall, TooMany};
use super::shared::JetStream;
use super::{acks, change, consumers, direct, flow, lists, messages, pulls, state};
use crate::server::NatsServer;

/// Time in which a request is answered, from when it came. Clients wait for five seconds.
const PATIENCE: Duration = Duration::from_secs(4);

/// Carries out what a session has handed over.
pub(crate) async fn answer(server: Arc<NatsServer>, call: ApiCall) {
    let Some(jetstream) = server.front.jetstream() else { return };
    let call = match call {
        ApiCall::Acks(calls) => {
            let Some(_turn) = jetstream.queue.turn().await else { return };
            return acks::carry(&server, jetstream, calls).await;
        }
        ApiCall::Flow(call) => {
            let Some(_turn) = jetstream.queue.turn().await else { return };
            return flow::carry(&server, jetstream, call).await;
        }
        ApiCall::Request(call) => call,
    };
    if let Some(Request::ConsumerNext { stream, consumer }) = Request::parse(&call.subject, None) {
        let (stream, consumer) = (stream.into(), consumer.into());
        return pull(&server, jetstream, call, stream, consumer).await;
    }
    request(&server, jetstream, &call).await;
}

/// Serves a pull request, which may wait for long.
async fn pull(
    server: &Arc<NatsServer>,
    jetstream: &JetStream,
    mut call: Box<RequestCall>,
    stream: Box<str>,
    consumer: Box<str>,
) {
    let Some(inbox) = call.reply.clone() else { return };
    call.leave_queue();
    let pull = PullCall {
        account: Arc::clone(&call.account),
        caller: call.caller.clone(),
        stream,
        consumer,
        body: std::mem::take(&mut call.body),
        inbox,
        level: call.level.take(),
    };
    if pulls::serve(server, jetstream, &pull).await == Ended::Nobody {
        let caller = &call.caller;
        Asked { server, jetstream, caller, call: &call }.say_no_responders().await;
    }
}

/// Answers a request.
async fn request(server: &Arc<NatsServer>, jetstream: &JetStream, call: &RequestCall) {
    let Some(_turn) = jetstream.queue.turn().await else { return };
    let Some(request) = Request::parse(&call.subject, None) else { return };
    let left = PATIENCE.saturating_sub(call.came.elapsed());
    let caller = call.caller.within(left);
    let asked = Asked { server, jetstream, caller: &caller, call };
    let spoken = match left.is_zero() {
        // After a flood, nobody waits for these any more. They must not hold up those that come now.
        true => too_late(asked, &request).await,
        false => carry_out(asked, &request).await,
    };
    match spoken {
        Spoken::Done => jetstream.count(false),
        Spoken::Failed => jetstream.count(true),
        Spoken::NoResponders => asked.say_no_responders().await,
    }
}

/// Refuses a request that has waited for too long, without carrying it out.
async fn too_late(asked: Asked<'_>, request: &Request<'_>) -> Spoken {
    let TooMany { headers, payload } = TooMany::of(request);
    Speaker::of(asked).say(headers.as_deref(), &payload).await;
    Spoken::Failed
}

async fn carry_out(asked: Asked<'_>, request: &Request<'_>) -> Spoken {
    let is_there = Arc::ptr_eq(&asked.call.account, asked.server.front.accounts().topics());
    let Some(kind) = request.answer_type() else {
        return if is_there { direct(asked, request).await } else { Spoken::NoResponders };
    };
    if !has_level(asked.call.level.as_deref()) {
        return asked.refuse(kind, ErrorKind::RequiredApiLevel.into()).await;
    }
    if !is_there {
        return asked.refuse(kind, ErrorKind::NotEnabledForAccount.into()).await;
    }
    let body = &*asked.call.body;
    match *request {
        Request::AccountInfo => asked.tell(kind, lists::account(asked).await).await,
        Request::StreamCreate { stream } => asked.tell(kind, change::create(asked, stream, body).await).await,
        Request::StreamUpdate { stream } => asked.tell(kind, change::update(asked, stream, body).await).await,
        Request::StreamDelete { stream } => asked.tell(kind, change::delete(asked, stream, body).await).await,
        Request::StreamPurge { stream } => asked.tell(kind, change::purge(asked, stream, body).await).await,
        Request::StreamInfo { stream } => asked.tell(kind, state::answer(asked, stream, body).await).await,
        Request::StreamNames => asked.tell(kind, lists::names(asked, body)).await,
        Request::StreamList => asked.tell(kind, lists::list(asked, body).await).await,
        Request::MessageGet { stream } => asked.tell(kind, messages::get(asked, stream, body).await).await,
        Request::ConsumerCreate(_)
        | Request::ConsumerNames { .. }
        | Request::ConsumerList { .. }
        | Request::ConsumerInfo { .. }
        | Request::ConsumerDelete { .. }
        | Request::ConsumerPause { .. }
        | Request::ConsumerUnpin { .. }
        | Request::ConsumerReset { .. }
        | Request::ConsumerStepDown { .. }
        | Request::ConsumerRemovePeer { .. }
        | Request::ConsumerEvacuatePeer { .. } => consumers::answer(asked, request, kind).await,
        _ => absent(asked, request, kind).await,
    }
}

async fn direct(asked: Asked<'_>, request: &Request<'_>) -> Spoken {
    let body = &*asked.call.body;
    match *request {
        Request::DirectGet { stream } => direct::answer(asked, stream, MessageGet::parse_direct(body)).await,
        Request::DirectGetLast { stream, subject } => {
            direct::answer(asked, stream, MessageGet::parse_direct_last(subject, body)).await
        }
        // The caller has taken the others.
        _ => Spoken::NoResponders,
    }
}

/// Answers requests for what is not there yet: as nats-server would if it found nothing, or with an error
/// that says so.
async fn absent(asked: Asked<'_>, request: &Request<'_>, kind: &'static str) -> Spoken {
    let not_yet = |error, what: &str| ApiError::because(error, format!("{what} not supported yet"));
    let refusal = match *request {
        Request::MessageDelete { .. } => not_yet(ErrorKind::StreamMsgDeleteFailed, "deleting messages is"),
        Request::StreamSnapshot { .. } => not_yet(ErrorKind::StreamSnapshot, "snapshots are"),
        Request::StreamRestore { .. } => not_yet(ErrorKind::StreamRestore, "restoring streams is"),
        _ if asked.server.node.is_alone() => ErrorKind::ClusterRequired.into(),
        _ => not_yet(ErrorKind::StreamGeneral, "moving the replicas of streams through JetStream's API is"),
    };
    asked.refuse(kind, refusal).await
}

#[cfg(test)]
mod tests {
    use tailrace_nats_wire::Message;

    use super::super::requests::{Requests, Taken};
    use super::*;
    use crate::testing::{server_in, subscriber};

    #[tokio::test]
    async fn a_request_that_waited_too_long_is_refused_and_not_carried_out() {
        let folder = tempfile::TempDir::new().unwrap();
        let (running, server) = server_in(&folder, &[("tailrace.jetstream.enable", "true")]).await;
        let client = subscriber(&server.front, b"r", None, 1);
        let jetstream = server.front.jetstream().unwrap();
        let account = server.front.accounts().topics();
        for (waited, made) in [(PATIENCE, 0), (Duration::ZERO, 1)] {
            let (mut requests, reply) = (Requests::default(), Some(&b"r"[..]));
            let (subject, payload) = (b"$JS.API.STREAM.CREATE.S", br#"{"name":"S"}"#);
            let message = Message { subject, reply, headers: None, payload };
            assert!(matches!(requests.take(jetstream, account, &client, &message), Taken::Done));
            let Some(ApiCall::Request(mut call)) = requests.drain().pop() else { panic!("it is a request") };
            call.came = call.came - waited;
            answer(Arc::clone(&server), ApiCall::Request(call)).await;
            assert_eq!(jetstream.count_streams(&server.node.image()), made);
        }
        assert_eq!(client.sent().0, 2, "both are answered");
        let stats = jetstream.api_stats(0);
        assert_eq!((stats.total, stats.errors), (2, 1));
        running.stop().await;
    }

    #[tokio::test]
    async fn configurations_that_take_long_do_not_pile_up() {
        let folder = tempfile::TempDir::new().unwrap();
        let (running, server) = server_in(&folder, &[("tailrace.jetstream.enable", "true")]).await;
        let client = subscriber(&server.front, b"r", None, 1);
        let jetstream = server.front.jetstream().unwrap();
        let account = server.front.accounts().topics();
        let create = || {
            let mut requests = Requests::default();
            let (subject, payload) = (b"$JS.API.STREAM.CREATE.S", br#"{"name":"S"}"#);
            let message = Message { subject, reply: Some(b"r"), headers: None, payload };
            assert!(matches!(requests.take(jetstream, account, &client, &message), Taken::Done));
            answer(Arc::clone(&server), requests.drain().pop().unwrap())
        };
        let (one, two) = (jetstream.judging.acquire().await, jetstream.judging.acquire().await);
        create().await;
        assert_eq!(jetstream.count_streams(&server.node.image()), 0);
        drop((one, two));
        create().await;
        assert_eq!(jetstream.count_streams(&server.node.image()), 1);
        running.stop().await;
    }
}
