//! What a consumer costs.

use super::*;

#[test]
fn an_idle_consumer_has_less_than_two_kilobytes() {
    let mut rig = Rig::new(rules(), &"x".repeat(1_000));
    rig.pull("a", "1000").seen();
    for seq in 1..=1_000 {
        rig.ack(seq, "");
    }
    let bytes = size_of::<Consumer>() + rig.consumer.pending.bytes();
    assert!(bytes < 2 * 1024, "{bytes} bytes");
}

#[test]
fn a_pending_message_has_about_sixty_bytes_at_most() {
    let mut rig = Rig::new(Rules { max_ack_pending: 0, ..rules() }, &"x".repeat(10_000));
    rig.pull("a", "10000").seen();
    let each = rig.consumer.pending.bytes() / 10_000;
    assert!(each <= 66, "{each} bytes each");
}

#[test]
fn a_waiting_request_has_about_two_hundred_bytes() {
    assert!(size_of::<crate::consumer::waiting::Request>() <= 176);
}
