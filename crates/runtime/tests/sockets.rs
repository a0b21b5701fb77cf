//! Sockets of the real world: every waiting task is woken, whatever was read and written before.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::future::poll_fn;
use std::io::{self, IoSlice, Write as _};
use std::os::fd::AsFd as _;

use tailrace_env::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tailrace_env::net::{self, BufferSizes, Stream};
use tailrace_env::time::{self, Duration};
use tailrace_env::{join, task};

/// No step here takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

async fn pair() -> (Stream, Stream) {
    tailrace_runtime::install();
    let listener = net::listen("a.setting", "127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (near, far) = join!(net::connect(&address), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

/// Sends two bytes, so that the second may arrive while the first is read, and waits until both were
/// answered.
async fn ask(near: Stream) {
    const ROUNDS: usize = 10_000;
    let (mut reader, mut writer) = near.into_split();
    for _ in 0..ROUNDS {
        writer.write_all(b"1").await.unwrap();
        writer.write_all(b"2").await.unwrap();
        assert_eq!(reader.read_u8().await.unwrap(), b'3');
    }
    // Dropping the writer ends this direction. The other one continues.
    drop(writer);
    assert_eq!(reader.read_u8().await.unwrap(), b'4');
}

async fn answer(mut far: Stream) {
    let (mut bytes, mut there) = ([0; 5], 0);
    while let count @ 1.. = far.read(&mut bytes).await.unwrap() {
        there += count;
        if there == 2 {
            far.write_all(b"3").await.unwrap();
            there = 0;
        }
    }
    far.write_all(b"4").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_arrives_while_something_is_read_wakes_the_reader() {
    let mut tasks = task::JoinSet::new();
    for _ in 0..4 {
        let (near, far) = pair().await;
        tasks.spawn(ask(near));
        tasks.spawn(answer(far));
    }
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    };
    time::timeout(PATIENCE, all).await.expect("every waiting task is woken");
}

/// Writes until the socket is full. Returns how many bytes it accepted.
async fn fill(stream: &Stream) -> usize {
    poll_fn(|cx| stream.poll_write_ready(cx)).await.unwrap();
    let mut taken = 0;
    loop {
        match stream.try_write(&[IoSlice::new(&[7; 50_000]), IoSlice::new(&[7; 50_000])], false) {
            Ok(bytes) => taken += bytes,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                return taken;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_socket_wakes_its_writer_when_there_is_room() {
    let (near, mut far) = pair().await;
    near.set_buffers(BufferSizes { send: Some(32 * 1024), receive: None }).unwrap();
    let reading = task::spawn(async move {
        let (mut bytes, mut read) = (vec![0; 10_000], 0);
        while let count @ 1.. = far.read(&mut bytes).await.unwrap() {
            read += count;
        }
        read
    });
    let filling = async {
        let mut taken = 0;
        for _ in 0..50 {
            taken += fill(&near).await;
        }
        taken
    };
    let taken = time::timeout(PATIENCE, filling).await.expect("there is room again and again");
    drop(near);
    assert_eq!(reading.await.unwrap(), taken);
}

#[tokio::test]
async fn a_part_of_a_file_follows_its_header() {
    let (near, mut far) = pair().await;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"0123456789").unwrap();
    poll_fn(|cx| near.poll_write_ready(cx)).await.unwrap();
    assert_eq!(near.try_write(&[IoSlice::new(b"head "), IoSlice::new(b"of ")], true).unwrap(), 8);
    assert_eq!(near.try_send_file(file.as_fd(), 3, 4).unwrap(), 4);
    assert_eq!(near.try_send_file(file.as_fd(), 8, 100).unwrap(), 2);
    assert_eq!(near.try_send_file(file.as_fd(), 10, 100).unwrap(), 0, "the file has ended");
    drop(near);
    let mut all = Vec::new();
    far.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"head of 345689");
}

#[tokio::test]
async fn who_has_ended_its_direction_still_reads() {
    let (mut near, mut far) = pair().await;
    near.write_all(b"ask").await.unwrap();
    near.shutdown().await.unwrap();
    let mut asked = Vec::new();
    far.read_to_end(&mut asked).await.unwrap();
    assert_eq!(asked, b"ask");
    far.write_all(b"answer").await.unwrap();
    drop(far);
    let mut answer = Vec::new();
    near.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
    near.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_address_that_is_taken_is_named_with_its_setting() {
    tailrace_runtime::install();
    let listener = net::listen("a.setting", "localhost:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let error = net::listen("a.setting", &address).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address} (a.setting): ")), "{error}");
    drop(listener);
    let refused = net::connect(&address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let unknown = net::listen("a.setting", "no port").await;
    assert!(unknown.is_err());
}
