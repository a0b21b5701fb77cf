//! A client that comes to each node at the end, through both doors. A node that has lost room for connections
//! or requests during the faults would turn it away.

use tailrace_env::time::{self, Duration};
use tailrace_kafka_wire::messages::MetadataRequest;

use super::client::Client;
use super::nats::{ANSWER_TIMEOUT, Said, Talk};
use super::sasl::Login;

const METADATA: i16 = 12;

/// Pause before a node is asked again.
const AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn run(mut client: Client, nodes: u8) {
    client.history.lock().begins();
    while !client.is_ending() {
        time::sleep(AGAIN).await;
    }
    for node in 1..=nodes {
        while !(is_served_by_kafka(&mut client, node).await && is_served_by_nats(&client, node).await) {
            time::sleep(AGAIN).await;
        }
        client.count("a node served a visitor at the end");
    }
    client.history.lock().finishes();
}

async fn is_served_by_kafka(client: &mut Client, node: u8) -> bool {
    let request = MetadataRequest {
        topics: Some(Vec::new()),
        unknown_tagged_fields: client.weight(),
        ..Default::default()
    };
    client.ask(node, METADATA, &request).await.is_some()
}

async fn is_served_by_nats(client: &Client, node: u8) -> bool {
    let visit = async {
        let mut talk = Talk::open_at(node, Login::of_clients(&client.history).as_ref(), "").await?;
        talk.next().await
    };
    matches!(time::timeout(ANSWER_TIMEOUT, visit).await, Ok(Ok(Said::Pong)))
}
