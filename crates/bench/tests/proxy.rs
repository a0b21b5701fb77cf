//! Each kind of trouble that a proxy makes must be visible as such.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tailrace_bench::proxy::{Proxy, ProxyOptions, Trouble};
use tailrace_bench::systems::{EchoProtocol, EchoServer};

const MS: Duration = Duration::from_millis(1);

fn proxy(server: &EchoServer, to_server: Trouble, to_client: Trouble, resets: Vec<Duration>) -> Proxy {
    let listen = "127.0.0.1:0".parse().unwrap();
    let upstream = server.address().to_string();
    Proxy::start(ProxyOptions { listen, upstream, to_server, to_client, resets, seed: 1 }).unwrap()
}

fn echo(stream: &mut TcpStream, bytes: &[u8]) -> Duration {
    let begun = Instant::now();
    let mut copy = stream.try_clone().unwrap();
    let sent = bytes.to_vec();
    let writing = std::thread::spawn(move || copy.write_all(&sent).unwrap());
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    writing.join().unwrap();
    assert_eq!(back, bytes);
    begun.elapsed()
}

#[test]
fn without_trouble_it_is_transparent() {
    let server = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let proxy = proxy(&server, Trouble::default(), Trouble::default(), Vec::new());
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| n.wrapping_mul(n) as u8).collect();
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    echo(&mut stream, &bytes);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn latency_bandwidth_and_stalls_take_their_time() {
    let server = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let slow = Trouble { latency: 50 * MS, ..Trouble::default() };
    let narrow = Trouble { bandwidth: 1_000_000, ..Trouble::default() };
    let proxy_slow = proxy(&server, slow.clone(), slow, Vec::new());
    let took = echo(&mut TcpStream::connect(proxy_slow.address()).unwrap(), b"x");
    assert!(took >= 100 * MS && took < 2000 * MS, "{took:?}");
    let proxy_narrow = proxy(&server, narrow, Trouble::default(), Vec::new());
    let took = echo(&mut TcpStream::connect(proxy_narrow.address()).unwrap(), &vec![1; 300_000]);
    assert!(took >= 290 * MS && took < 3000 * MS, "{took:?}");
    // A cut in one direction: the request arrives, the answer waits.
    let cut = Trouble { stalls: std::iter::once(Duration::ZERO..400 * MS).collect(), ..Trouble::default() };
    let proxy_cut = proxy(&server, Trouble::default(), cut, Vec::new());
    let took = echo(&mut TcpStream::connect(proxy_cut.address()).unwrap(), b"x");
    assert!(took >= 350 * MS && took < 3000 * MS, "{took:?}");
}

#[test]
fn resets_are_resets() {
    let server = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let proxy = proxy(&server, Trouble::default(), Trouble::default(), vec![300 * MS]);
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    echo(&mut stream, b"before");
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // The next connection is not affected by that reset.
    echo(&mut TcpStream::connect(proxy.address()).unwrap(), b"after");
}
