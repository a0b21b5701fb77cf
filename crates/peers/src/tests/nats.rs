//! What NATS clients' nodes tell each other: one queue, its order, its bound.

use std::pin::pin;
use std::task::{Context, Waker};

use super::super::frame::FrameKind;
use super::super::incoming::give_way;
use super::*;
use tailrace_env::task;

/// Sends a payload; what became of it.
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
        // Other traffic does not come between.
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

/// Who has taken a message that takes some more turns.
struct Busy {
    turns: usize,
    fresh: bool,
}

impl NatsReceiver for Busy {
    fn take(&mut self, _: NatsFrame, _: Bytes) -> Result<(), &'static str> {
        Ok(())
    }

    fn is_due(&mut self) -> bool {
        self.turns > 0
    }

    fn go_on(&mut self) {
        self.turns -= 1;
        self.fresh = true;
    }

    fn settle(&mut self) -> bool {
        std::mem::replace(&mut self.fresh, false)
    }
}

#[test]
fn others_have_their_turn_where_messages_take_long_and_where_no_frame_is_left() {
    tailrace_runtime::install();
    for (turns, has_frame, expected) in [(0, true, 0), (3, true, 3), (0, false, 1), (3, false, 4)] {
        let mut receiver = Busy { turns, fresh: true };
        let mut way = pin!(give_way(&mut receiver, has_frame));
        let mut yields = 0;
        while way.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            yields += 1;
        }
        assert_eq!(yields, expected, "{turns} turns, frames left: {has_frame}");
    }
}
