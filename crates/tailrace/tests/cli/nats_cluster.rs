//! NATS clients of three real nodes: messages and INFO while nodes come and go, and the records of a
//! capturing topic.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Server, http_get, until};

/// Longest wait for any condition.
const PATIENCE: Duration = Duration::from_secs(60);

/// An election may take long on a busy machine.
const PATIENT: &str = "tailrace.nats.capture.forward.timeout.ms=60000";

fn start_node(dir: &Path, node: u32, seed: Option<&str>) -> (Server, String) {
    let (id, data) = (node.to_string(), dir.join(format!("node{node}")));
    let own = ["--node-id", &id, "--cluster-listen", "127.0.0.1:0", "--set", PATIENT];
    let seed = seed.map(|seed| ["--seed", seed]);
    let more = [&own[..], seed.as_ref().map_or(&[], |seed| &seed[..])].concat();
    let server = Server::start_on(&data, "127.0.0.1:0", "127.0.0.1:0", &more);
    let cluster = server.ready.split_whitespace().find_map(|word| word.strip_prefix("cluster="));
    let cluster = cluster.expect("the ready line names the address for other nodes").to_owned();
    (server, cluster)
}

/// Three nodes, all of them voters of the metadata log: any of them may die.
fn three(dir: &Path) -> (BTreeMap<u32, Server>, String) {
    let (first, seed) = start_node(dir, 1, None);
    let mut nodes = BTreeMap::from([(1, first)]);
    for node in [2, 3] {
        nodes.insert(node, start_node(dir, node, Some(&seed)).0);
    }
    let promoted = || {
        let logs = (1..=3).map(|node| dir.join(format!("node{node}.stderr")));
        let logs = logs.map(|log| std::fs::read_to_string(log).unwrap_or_default());
        let is_promotion =
            |line: &&str| line.contains("changing the members") && line.contains("change=Promote");
        logs.map(|log| log.lines().filter(is_promotion).count()).sum::<usize>()
    };
    until("all three nodes vote", || promoted() >= 2);
    (nodes, seed)
}

/// A plain NATS connection.
struct Client {
    input: BufReader<TcpStream>,
}

/// Operations of a server that matter here.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Message { subject: String, payload: String },
    Info(serde_json::Value),
    Pong,
}

impl Client {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(&server.nats).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Self { input: BufReader::new(stream) };
        client.send("CONNECT {\"verbose\":false,\"protocol\":1,\"headers\":true,\"no_responders\":true}\r\n");
        client.sync();
        client
    }

    fn send(&mut self, text: &str) {
        self.input.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn publish(&mut self, subject: &str, reply: &str, payload: &str) {
        self.send(&format!("PUB {subject} {reply} {}\r\n{payload}\r\n", payload.len()));
    }

    fn next(&mut self) -> Said {
        loop {
            let mut line = String::new();
            assert_ne!(self.input.read_line(&mut line).unwrap(), 0, "the server closed");
            let words: Vec<_> = line.split_whitespace().collect();
            match words[0] {
                "PING" => self.send("PONG\r\n"),
                "PONG" => return Said::Pong,
                "INFO" => return Said::Info(serde_json::from_str(line[4..].trim()).unwrap()),
                "MSG" | "HMSG" => {
                    let length: usize = words.last().unwrap().parse().unwrap();
                    let mut bytes = vec![0; length + 2];
                    self.input.read_exact(&mut bytes).unwrap();
                    let payload = String::from_utf8(bytes[..length].to_vec()).unwrap();
                    return Said::Message { subject: words[1].to_owned(), payload };
                }
                _ => panic!("{line}"),
            }
        }
    }

    /// The next message: subject and payload.
    fn message(&mut self) -> (String, String) {
        loop {
            if let Said::Message { subject, payload } = self.next() {
                return (subject, payload);
            }
        }
    }

    /// Messages that came before the PONG.
    fn sync(&mut self) -> Vec<String> {
        self.send("PING\r\n");
        let mut before = Vec::new();
        loop {
            match self.next() {
                Said::Pong => return before,
                Said::Message { payload, .. } => before.push(payload),
                Said::Info(_) => {}
            }
        }
    }
}

/// Returns once `to` knows the subscriptions of `of`. `subject` must be unused on both.
fn known(of: &mut Client, to: &mut Client, subject: &str) {
    of.send(&format!("SUB {subject} known\r\n"));
    of.sync();
    let deadline = Instant::now() + PATIENCE;
    loop {
        to.publish(subject, "", "probe");
        to.sync();
        if of.sync().iter().any(|payload| payload == "probe") {
            break;
        }
        assert!(Instant::now() < deadline, "the other node hears of it");
        std::thread::sleep(Duration::from_millis(10));
    }
    of.send("UNSUB known\r\n");
    of.sync();
}

#[test]
fn clients_of_three_nodes_talk_to_each_other_and_learn_who_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (mut nodes, _) = three(dir.path());
    let mut clients: Vec<_> = nodes.values().map(Client::connect).collect();
    let addresses: Vec<_> = nodes.values().map(|node| node.nats.clone()).collect();
    let (one, rest) = clients.split_first_mut().unwrap();
    let (two, three) = rest.split_first_mut().unwrap();
    let three = &mut three[0];
    two.send("SUB service workers 1\r\nSUB news.> 2\r\n");
    three.send("SUB news.* 1\r\nSUB news.a 2\r\n");
    known(two, one, "known.2");
    known(three, one, "known.3");
    // A request with a new inbox, and its reply.
    one.send("SUB inbox.1 1\r\n");
    one.publish("service", "inbox.1", "question");
    assert_eq!(two.message(), ("service".to_owned(), "question".to_owned()));
    two.publish("inbox.1", "", "answer");
    assert_eq!(one.message(), ("inbox.1".to_owned(), "answer".to_owned()));
    one.publish("nobody", "inbox.1", "question");
    let (subject, status) = one.message();
    assert!(subject == "inbox.1" && status.starts_with("NATS/1.0 503"), "{status}");
    for n in 0..100 {
        one.publish("news.a", "", &n.to_string());
    }
    for n in 0..100 {
        assert_eq!(two.message().1, n.to_string());
        assert_eq!([three.message().1, three.message().1], [n.to_string(), n.to_string()]);
    }
    assert_eq!((two.sync().len(), three.sync().len()), (0, 0), "nothing twice");
    // A new connection is sent all three addresses. An existing one is told that one of them is gone.
    let told = |info: &serde_json::Value| -> BTreeSet<String> {
        let urls = info["connect_urls"].as_array().cloned().unwrap_or_default();
        urls.iter().map(|url| url.as_str().unwrap().to_owned()).collect()
    };
    let page = http_get(&nodes[&1].http, "/varz");
    assert!(addresses.iter().all(|address| page.contains(address.as_str())), "{page}");
    nodes.remove(&3).unwrap().kill();
    let left: BTreeSet<_> = addresses[..2].iter().cloned().collect();
    loop {
        match one.next() {
            Said::Info(info) if told(&info) == left => break,
            _ => {}
        }
    }
}

/// Publishes with 16 messages in flight. Returns the acknowledged and the refused ones.
fn publish_for_acks(client: &mut Client, range: std::ops::Range<u32>) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let (mut acknowledged, mut refused, mut sent) = (BTreeSet::new(), BTreeSet::new(), range.start);
    client.send("SUB acks.* acks\r\n");
    while acknowledged.len() + refused.len() < range.len() {
        while sent < range.end && sent - range.start < (acknowledged.len() + refused.len()) as u32 + 16 {
            client.publish(
                &format!("kept.{}", sent % 7),
                &format!("acks.{sent}"),
                &format!("message {sent}"),
            );
            sent += 1;
        }
        let (subject, payload) = client.message();
        let number: u32 = subject.strip_prefix("acks.").unwrap().parse().unwrap();
        let ack: serde_json::Value = serde_json::from_str(&payload).unwrap();
        let known = if ack["error"].is_null() { &mut acknowledged } else { &mut refused };
        assert!(known.insert(number), "one answer for each: {payload}");
    }
    client.send("UNSUB acks\r\n");
    (acknowledged, refused)
}

/// Acknowledged messages are stored exactly once, whichever node leads and whichever dies.
#[test]
fn captured_messages_are_stored_once_though_their_leaders_are_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut nodes, seed) = three(dir.path());
    let create =
        ["topic", "create", "kept", "--partitions", "3", "--replication-factor", "3", "--subjects", "kept.>"];
    nodes[&1].output(&create);
    let known_to_all = |nodes: &BTreeMap<u32, Server>| {
        for node in nodes.values() {
            until("every node captures", || {
                let mut client = Client::connect(node);
                client.send("SUB probe 1\r\n");
                client.publish("kept.probe", "probe", "probe");
                let answer = client.message().1;
                answer.contains("\"seq\"") && !answer.contains("error")
            });
        }
    };
    known_to_all(&nodes);
    let mut acknowledged = BTreeSet::new();
    let mut possible = BTreeSet::new();
    for (round, victim) in [(0, 1), (1, 2)] {
        let server = nodes.remove(&victim).unwrap();
        let survivor = Client::connect(&nodes[&3]);
        let range = round * 3000..(round + 1) * 3000;
        possible.extend(range.clone());
        let publishing = std::thread::spawn(move || {
            let mut survivor = survivor;
            let begun = publish_for_acks(&mut survivor, range.start..range.start + 500);
            let rest =
                std::thread::spawn(move || publish_for_acks(&mut survivor, range.start + 500..range.end));
            (begun, rest)
        });
        let (begun, rest) = publishing.join().unwrap();
        server.kill();
        let rest = rest.join().unwrap();
        assert!(begun.1.is_empty() && rest.1.is_empty(), "refused: {:?} {:?}", begun.1, rest.1);
        acknowledged.extend(begun.0.into_iter().chain(rest.0));
        nodes.insert(victim, start_node(dir.path(), victim, Some(&seed_of(&nodes, &seed))).0);
        known_to_all(&nodes);
    }
    let metrics = http_get(&nodes[&3].http, "/metrics");
    let retries = "tailrace_nats_capture_forward_retries_total ";
    let retried = metrics.lines().find_map(|line| line.strip_prefix(retries)).unwrap();
    assert_ne!(retried, "0", "the deaths came between messages and their answers");
    let text = nodes[&3].consume_text("kept", &[]);
    let mut found: BTreeMap<u32, u32> = BTreeMap::new();
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("message ") {
            *found.entry(number.parse().unwrap()).or_default() += 1;
        }
    }
    let missing: Vec<_> = acknowledged.iter().filter(|number| !found.contains_key(number)).collect();
    let doubled: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
    assert!(missing.is_empty() && doubled.is_empty(), "missing {missing:?}, doubled {doubled:?}");
    assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), possible);
}

/// The seed for a node that starts again.
fn seed_of(nodes: &BTreeMap<u32, Server>, first: &str) -> String {
    let ready = nodes.values().next().map(|node| node.ready.clone()).unwrap_or_default();
    let word = ready.split_whitespace().find_map(|word| word.strip_prefix("cluster="));
    word.unwrap_or(first).to_owned()
}
