//! Frames for NATS clients: one queue, its order, its bound.

use std::pin::pin;
use std::task::{Context, Waker};

use super::super::frame::FrameKind;
use super::super::incoming::give_way;
use super::*;
use tailrace_env::task;

/// Sends a payload and returns the outcome.
fn send(node: &Node, frame: NatsFrame, payload: &[u8]) -> Result<(), NatsUnsent> {
    node.peers.send_nats(NodeId(2), frame, payload.len(), |out| out.put_slice(payload))
}

async fn next(node: &mut Node) -> (NodeId, NatsFrame, Bytes) {
    node.wait_for(|event| match event {
        Event::Nats(from, frame, payload) => Some((from, frame, payload)),
        _ => None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interest_and_messages_arrive_in_one_order() {
    let (one, mut two) = pair().await;
    let payload =
        |n: u32| if n.is_multiple_of(500) { vec![n as u8 | 1; 300_000] } else { n.to_le_bytes().to_vec() };
    let kind = |n: u32| if n.is_multiple_of(3) { NatsFrame::Interest } else { NatsFrame::Message };
    for n in 0..5_000 {
        send(&one, kind(n), &payload(n)).unwrap();
        // Other traffic does not change the order.
        assert!(one.peers.send(NodeId(2), group(1), append(1, 2, n.into(), b"batch")));
    }
    for n in 0..5_000 {
        assert_eq!(next(&mut two).await, (NodeId(1), kind(n), payload(n).into()), "number {n}");
    }
    assert_eq!(one.counts().frames_sent(FrameKind::NatsInterest), 1_667);
    assert_eq!(one.counts().frames_sent(FrameKind::NatsMessage), 3_333);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_word_of_subscriptions_has_room_of_its_own() {
    let mut setup = Setup::new(1);
    setup.options.nats_bytes_max = 100_000;
    setup.options.frame_bytes_max = 6 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let one = setup.start().await;
    let address = listener.local_addr().unwrap().to_string();
    assert_eq!(send(&one, NatsFrame::Message, b"x"), Err(NatsUnsent::Down));
    one.peers.set_nodes(vec![PeerNode { node: NodeId(2), address }]);
    // It reads nothing.
    let _raw = Raw::answer(&listener, 2).await;
    until(|| one.peers.is_up(NodeId(2))).await;
    assert_eq!(send(&one, NatsFrame::Message, &vec![1; 7 << 20]), Err(NatsUnsent::TooLarge));
    let mut sent = 0;
    while send(&one, NatsFrame::Message, &[1; 50_000]).is_ok() {
        sent += 1;
        assert!(sent < 10_000, "the sockets take so much");
        if sent % 2 == 0 {
            task::yield_now().await;
        }
    }
    assert_eq!(send(&one, NatsFrame::Message, &[1; 100_000]), Err(NatsUnsent::QueueFull));
    assert_eq!(send(&one, NatsFrame::Interest, &[1; 100_000]), Ok(()));
    assert!(one.peers.nats_pending(NodeId(2)) >= 100_000);
    let mut more = 0;
    while send(&one, NatsFrame::Interest, &[1; 100_000]).is_ok() {
        more += 100_000;
        assert!(more <= 2 * NATS_INTEREST_RESERVE_BYTES, "it is bounded");
        assert!(one.peers.nats_pending(NodeId(2)) <= 100_000 + NATS_INTEREST_RESERVE_BYTES);
    }
    one.stop().await;
}

#[tokio::test]
async fn a_frame_that_the_receiver_does_not_understand_ends_the_connection() {
    let (mut one, two) = pair().await;
    one.connected(2).await;
    send(&one, NatsFrame::Interest, b"").unwrap();
    one.disconnected(2).await;
    until(|| two.counts().cuts("misplaced_frame") == 1).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_message_that_takes_long_keeps_nothing_else_of_its_link_waiting() {
    let (one, mut two) = pair().await;
    two.nats_takes_long.store(true, Ordering::Relaxed);
    for number in 0..3 {
        send(&one, NatsFrame::Message, &[number]).unwrap();
        assert_eq!(next(&mut two).await.2, [number].as_slice());
        two.wait_for(|event| matches!(event, Event::NatsGoesOn).then_some(())).await;
        assert!(one.peers.send(NodeId(2), group(1), append(1, 2, number.into(), b"batch")));
        assert!(one.peers.send(NodeId(2), group(1), heartbeat(1, 2, number.into())));
        two.messages(2).await;
        let answer =
            one.peers.request(NodeId(2), RequestKind::Append, Bytes::from_static(b"x"), PATIENCE).await;
        assert!(answer.is_ok(), "{answer:?}");
    }
    two.nats_takes_long.store(false, Ordering::Relaxed);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_noticed_while_a_message_takes_long() {
    let mut setup = Setup::new(2);
    setup.options.silence_max = Duration::from_millis(300);
    let mut two = setup.start().await;
    two.nats_takes_long.store(true, Ordering::Relaxed);
    let mut raw = Raw::link(&two, 1).await;
    raw.stream.write_all(b"\x02\0\0\0\x0ax").await.unwrap();
    next(&mut two).await;
    until(|| two.counts().cuts("silent") == 1).await;
    two.stop().await;
}

/// A receiver with a message that takes some more turns, or that has used up a turn.
struct Busy {
    turns: usize,
    is_due: bool,
    fresh: bool,
}

impl NatsReceiver for Busy {
    fn take(&mut self, _: NatsFrame, _: Bytes) -> Result<(), &'static str> {
        Ok(())
    }

    fn is_due(&mut self) -> bool {
        self.is_due
    }

    fn is_under_way(&self) -> bool {
        self.turns > 0
    }

    fn go_on(&mut self) {
        self.turns -= 1;
        self.fresh = true;
    }

    fn settle(&mut self) -> bool {
        self.is_due = false;
        std::mem::replace(&mut self.fresh, false)
    }
}

/// Returns how often it yields, and the turns that are left.
fn yields(receiver: &mut Busy, frames_since: &mut Instant, has_frame: bool) -> (usize, usize) {
    let mut yields = 0;
    {
        let mut way = pin!(give_way(receiver, frames_since, has_frame));
        while way.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            yields += 1;
        }
    }
    (yields, receiver.turns)
}

#[test]
fn others_have_their_turn_where_messages_have_taken_one_and_where_no_frame_is_left() {
    tailrace_runtime::install();
    for (is_due, has_frame, expected) in
        [(false, true, 0), (true, true, 1), (false, false, 1), (true, false, 1)]
    {
        let mut receiver = Busy { turns: 0, is_due, fresh: true };
        let found = yields(&mut receiver, &mut Instant::now(), has_frame);
        assert_eq!(found, (expected, 0), "due: {is_due}, frames left: {has_frame}");
    }
}

#[test]
fn a_message_that_takes_long_and_the_frames_of_its_link_take_turns() {
    tailrace_runtime::install();
    let mut receiver = Busy { turns: 3, is_due: false, fresh: true };
    // The clock may be anywhere, but not that late.
    let mut just_now = Instant::now() + Duration::from_secs(3600);
    assert_eq!(yields(&mut receiver, &mut just_now, true), (0, 3), "frames have their turn");
    assert_eq!(yields(&mut receiver, &mut just_now, false), (1, 2), "there are none");
    let mut long_ago = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let before = long_ago;
    assert_eq!(yields(&mut receiver, &mut long_ago, true), (1, 1), "they have had it");
    assert!(long_ago > before, "now it is theirs again");
}
