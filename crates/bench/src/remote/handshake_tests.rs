use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use super::super::agent::{Agent, AgentOptions};
use super::super::link::server_config;
use super::*;

fn key(seed: u8) -> Key {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, format!("{seed:02x}").repeat(32)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, mode).unwrap();
    Key::read(&path).unwrap()
}

/// An agent's side of one handshake, and its address.
fn agent(key: Key, version: Version) -> (String, JoinHandle<Result<(), RemoteError>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = server_config().unwrap();
    let body = move || {
        let (stream, _) = listener.accept().unwrap();
        with_coordinator(stream, &config, &key, &version, || Ok(())).map(|_| ())
    };
    (address, thread::spawn(body))
}

fn coordinator(address: &str, key: &Key, version: &Version) -> Result<(), RemoteError> {
    with_agent(TcpStream::connect(address).unwrap(), key, version).map(|_| ())
}

#[test]
fn the_right_key_and_version_are_let_in() {
    let (address, agent) = agent(key(1), Version::own());
    coordinator(&address, &key(1), &Version::own()).unwrap();
    agent.join().unwrap().unwrap();
}

#[test]
fn another_key_is_told_at_both_ends() {
    let (address, agent) = agent(key(1), Version::own());
    let told = coordinator(&address, &key(2), &Version::own()).unwrap_err().to_string();
    assert!(told.contains("key is a different one"), "{told}");
    let told = agent.join().unwrap().unwrap_err().to_string();
    assert!(told.contains("the coordinator does not have the same key"), "{told}");
}

#[test]
fn another_version_is_told_at_both_ends() {
    for other in [
        Version { protocol: 999, ..Version::own() },
        Version { tailrace: "0.0.9\x1b[31m".to_owned(), ..Version::own() },
    ] {
        let (address, agent) = agent(key(1), Version::own());
        let told = coordinator(&address, &key(1), &other).unwrap_err().to_string();
        assert!(told.contains("versions differ: the agent is tailrace"), "{told}");
        assert!(told.contains("999") || told.contains("0.0.9[31m with protocol 1"), "{told}");
        let told = agent.join().unwrap().unwrap_err().to_string();
        assert!(told.starts_with("versions differ"), "{told}");
    }
}

/// A man in the middle with his own certificate, who forwards each end's messages frame by frame.
fn in_the_middle(upstream: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = server_config().unwrap();
    thread::spawn(move || {
        let until = Instant::now() + HANDSHAKE_TIMEOUT;
        let mut front = Link::server(listener.accept().unwrap().0, &config, FRAME_BYTES_MAX).unwrap();
        let mut back = Link::client(TcpStream::connect(upstream).unwrap(), FRAME_BYTES_MAX).unwrap();
        front.shake_hands(until).unwrap();
        back.shake_hands(until).unwrap();
        // The proof goes there, and the refusal comes back. There would be more if the proof were accepted.
        while let Ok(Some(frame)) = front.receive(until) {
            back.send(&frame).unwrap();
            let Ok(Some(answer)) = back.receive(until) else { return };
            front.send(&answer).unwrap();
        }
    });
    address
}

#[test]
fn nobody_can_stand_in_the_middle() {
    let (address, agent) = agent(key(1), Version::own());
    let told = coordinator(&in_the_middle(address), &key(1), &Version::own()).unwrap_err().to_string();
    assert!(told.contains("there is a man in the middle"), "{told}");
    let told = agent.join().unwrap().unwrap_err().to_string();
    assert!(told.contains("there is a man in the middle"), "{told}");
}

#[test]
fn an_agent_that_sends_a_proof_back_is_not_believed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = server_config().unwrap();
    let mirror = thread::spawn(move || {
        let until = Instant::now() + HANDSHAKE_TIMEOUT;
        let mut link = Link::server(listener.accept().unwrap().0, &config, FRAME_BYTES_MAX).unwrap();
        link.shake_hands(until).unwrap();
        let frame = link.receive(until).unwrap().unwrap();
        link.send(&frame).unwrap();
    });
    let told = coordinator(&address, &key(1), &Version::own()).unwrap_err().to_string();
    assert!(told.contains("the agent does not have the same key"), "{told}");
    mirror.join().unwrap();
}

/// A complete agent, and its log.
fn whole_agent() -> (Agent, std::sync::mpsc::Receiver<String>) {
    let (told, log) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let options = AgentOptions::new("127.0.0.1:0".to_owned(), key(1));
    let tell = move |text: &str| drop(told.lock().unwrap().send(text.to_owned()));
    (Agent::start(options, Arc::new(tell)).unwrap(), log)
}

#[test]
fn strangers_hold_nobody_up() {
    let (agent, log) = whole_agent();
    let address = agent.address().to_string();
    // Garbage is refused at once.
    let mut garbage = TcpStream::connect(&address).unwrap();
    garbage.write_all(&[b'x'; 4096]).unwrap();
    let told = log.recv_timeout(HANDSHAKE_TIMEOUT).unwrap();
    assert!(told.starts_with("refused ") && told.contains("TLS failed"), "{told}");
    // Peers that send nothing, or send the start of a handshake and no more; there are more of them than
    // places.
    let mut silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for stream in silent.iter_mut().skip(20) {
        stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).unwrap();
    }
    // The first ones were displaced.
    silent[0].set_read_timeout(Some(HANDSHAKE_TIMEOUT)).unwrap();
    assert_eq!(silent[0].read(&mut [0; 1]).unwrap(), 0);
    coordinator(&address, &key(1), &Version::own()).unwrap();
    // A frame of 4 GiB from a peer without the key.
    let mut link = Link::client(TcpStream::connect(&address).unwrap(), usize::MAX).unwrap();
    link.shake_hands(Instant::now() + HANDSHAKE_TIMEOUT).unwrap();
    link.send(&vec![b'P'; 2000]).unwrap();
    let told = std::iter::from_fn(|| log.recv_timeout(HANDSHAKE_TIMEOUT).ok())
        .find(|told| told.contains("2000 bytes"));
    assert!(told.unwrap().contains("expected at most 1024"));
}

#[test]
fn silence_ends() {
    let begun = Instant::now();
    let (agent, log) = whole_agent();
    let _silent = TcpStream::connect(agent.address()).unwrap();
    let told = log.recv_timeout(HANDSHAKE_TIMEOUT * 4).unwrap();
    assert!(told.contains("the handshake took too long") && begun.elapsed() >= HANDSHAKE_TIMEOUT, "{told}");
}

#[test]
fn a_second_coordinator_is_told_that_the_agent_is_busy() {
    let (agent, _log) = whole_agent();
    let address = agent.address().to_string();
    let first = with_agent(TcpStream::connect(&address).unwrap(), &key(1), &Version::own()).unwrap();
    let told = coordinator(&address, &key(1), &Version::own()).unwrap_err().to_string();
    assert_eq!(told, "the agent is busy with another coordinator");
    drop(first);
    // It is free again as soon as it has noticed.
    let until = Instant::now() + HANDSHAKE_TIMEOUT;
    while let Err(error) = coordinator(&address, &key(1), &Version::own()) {
        assert!(error.to_string().contains("busy") && Instant::now() < until, "{error}");
        thread::sleep(Duration::from_millis(10));
    }
}
