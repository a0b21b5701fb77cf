//! What the system account is told at intervals and when the server stops, as by nats-server.

use std::sync::Arc;

use tailrace_env::time::{self, Duration, Instant};

use super::events::{self, publish};
use super::server;
use crate::front::NatsFront;
use crate::server::NatsServer;

/// Time until the server's numbers are published first. It doubles up to [`STATISTICS_PAUSE`].
const FIRST_STATISTICS: Duration = Duration::from_millis(250);

/// Time between two publications of the server's numbers.
const STATISTICS_PAUSE: Duration = Duration::from_secs(10);

/// Time between two publications of an account's number of connections that does not change.
const CONNECTIONS_PAUSE: Duration = Duration::from_secs(30);

/// Publishes the server's numbers, and how many connections each account has, until the task is dropped.
pub async fn report_regularly(server: Arc<NatsServer>) {
    let front = &server.front;
    let mut pause = FIRST_STATISTICS;
    let mut next_count = Instant::now() + CONNECTIONS_PAUSE;
    loop {
        time::sleep(pause).await;
        pause = (pause * 2).min(STATISTICS_PAUSE);
        statistics(front).await;
        if Instant::now() >= next_count {
            next_count += CONNECTIONS_PAUSE;
            let accounts = front.accounts().all().into_iter();
            for account in accounts.filter(|account| account.connections() > 0) {
                events::count_again(front, account.name()).await;
            }
        }
    }
}

/// Publishes the server's numbers.
pub(super) async fn statistics(front: &NatsFront) {
    let subject = format!("$SYS.SERVER.{}.STATSZ", front.server_info().server_id);
    publish(front, &subject, || super::wanted::statistics(front)).await;
}

/// Tells that clients are asked to connect to another node, before the server stops.
pub async fn announce_retirement(front: &NatsFront) {
    ends(front, "LAMEDUCK").await;
}

/// Tells that the server stops.
pub async fn announce_stop(front: &NatsFront) {
    ends(front, "SHUTDOWN").await;
}

async fn ends(front: &NatsFront, how: &str) {
    publish(front, &format!("$SYS.SERVER.{}.{how}", front.server_info().server_id), || server(front)).await;
}
