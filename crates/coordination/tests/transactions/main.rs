//! The transaction coordinator without I/O: conversations with golden replies, and a network that loses,
//! delays and repeats messages.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod network;
mod script;
mod world;

macro_rules! conversations {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            script::play(stringify!($name), include_str!(concat!("conversations/", stringify!($name), ".txt")));
        })*
    };
}

conversations!(
    classic,
    epoch_per_transaction,
    initialization,
    exhaustion,
    time,
    restarts,
    questions,
    waiting
);
