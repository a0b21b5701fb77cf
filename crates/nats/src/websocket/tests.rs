use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tailrace_env::{select, task};

use flate2::{Compress, Compression, FlushCompress};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

use super::closing::ClosingFrame;
use super::decoder::{Decoder, Event};
use super::stream::WebSocket;
use super::*;
use crate::close::CloseReason;

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

fn limits() -> WebSocketLimits {
    WebSocketLimits { frame_bytes_max: 1 << 20, inflated_bytes_max: 100_000 }
}

/// Encodes a frame as a client does.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        length @ 0..=125 => out.push(MASKED | u8::try_from(length).unwrap()),
        length @ 126..=65_535 => {
            out.push(MASKED | 126);
            out.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            out.push(MASKED | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ MASK[at % 4]));
    out
}

fn deflated(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 1024);
    let mut compressor = Compress::new(Compression::best(), false);
    compressor.compress_vec(payload, &mut out, FlushCompress::Sync).unwrap();
    assert_eq!(compressor.total_in(), payload.len() as u64);
    assert!(out.ends_with(&DEFLATE_END));
    out.truncate(out.len() - 4);
    out
}

/// Decodes all of `bytes`, offered in pieces of `step`, with room for `room` bytes at a time.
fn decode(bytes: &[u8], step: usize, room: usize) -> Result<(Vec<u8>, Vec<Event>), WebSocketError> {
    let mut decoder = Decoder::new(limits(), true);
    let (mut plain, mut events, mut input) = (Vec::new(), Vec::new(), Vec::new());
    for piece in bytes.chunks(step) {
        input.extend_from_slice(piece);
        loop {
            let mut output = vec![0; room];
            let progress = decoder.advance(&mut input, &mut output)?;
            input.drain(..progress.taken);
            plain.extend_from_slice(&output[..progress.given]);
            let moved = progress.taken > 0 || progress.given > 0;
            events.extend(progress.event);
            if !moved {
                break;
            }
        }
    }
    Ok((plain, events))
}

#[test]
fn frames_of_every_kind_come_out_the_same_however_they_arrive() {
    let long: Vec<u8> = (0..70_000u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let compressed = deflated(&long);
    let (head, tail) = compressed.split_at(compressed.len() / 3);
    let bytes = [
        frame(FINAL | opcode::BINARY, b"CONNECT {}\r\n"),
        frame(FINAL | opcode::TEXT, b"PING\r\n"),
        frame(opcode::BINARY, b"PUB a"),
        frame(FINAL | opcode::PING, b"are you there"),
        frame(opcode::CONTINUATION, b""),
        frame(FINAL | opcode::CONTINUATION, b" 2\r\nok\r\n"),
        frame(FINAL | opcode::PONG, b"unasked"),
        frame(FINAL | opcode::BINARY, &[7; 300]),
        // RFC 7692, section 7.2.3.1.
        frame(FINAL | COMPRESSED | opcode::BINARY, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]),
        frame(COMPRESSED | opcode::BINARY, head),
        frame(FINAL | opcode::PING, b""),
        frame(FINAL | opcode::CONTINUATION, tail),
        // Section 7.2.3.4: a block marked as the last one.
        frame(FINAL | COMPRESSED | opcode::BINARY, &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00]),
        frame(FINAL | opcode::BINARY, b""),
        frame(FINAL | COMPRESSED | opcode::BINARY, &[0]),
        frame(FINAL | opcode::CLOSE, &[3, 0xe8, b'b', b'y', b'e']),
        frame(FINAL | opcode::BINARY, b"nothing is read after it"),
    ]
    .concat();
    let expected =
        [b"CONNECT {}\r\nPING\r\nPUB a 2\r\nok\r\n".as_slice(), &[7; 300], b"Hello", &long, b"Hello"]
            .concat();
    let events = [Event::Ping(b"are you there".to_vec()), Event::Ping(Vec::new()), Event::Close(Some(1000))];
    for (step, room) in [(bytes.len(), 1 << 20), (bytes.len(), 1), (1, 1 << 20), (1, 1), (7, 13), (1000, 100)]
    {
        let (plain, found) = decode(&bytes, step, room).unwrap();
        assert!(plain == expected, "step {step}, room {room}: {} bytes of {}", plain.len(), expected.len());
        assert_eq!(found, events, "step {step}, room {room}");
    }
}

#[test]
fn hostile_frames_are_named() {
    let binary = FINAL | opcode::BINARY;
    let huge = [&[binary, MASKED | 127], &u64::MAX.to_be_bytes()[..], &MASK].concat();
    let bomb = deflated(&vec![0; 10_000_000]);
    assert!(bomb.len() < 20_000);
    for (bytes, expected) in [
        (vec![binary, 1, b'x'], WebSocketError::Unmasked),
        (frame(binary | 0x20, b"x"), WebSocketError::Reserved),
        (frame(FINAL | 3, b"x"), WebSocketError::Opcode(3)),
        (frame(FINAL | 0xb, b"x"), WebSocketError::Opcode(0xb)),
        (huge, WebSocketError::FrameLength(u64::MAX)),
        (frame(binary, &vec![0; (1 << 20) + 1]), WebSocketError::FrameLength((1 << 20) + 1)),
        (frame(opcode::PING, b"x"), WebSocketError::Control),
        (frame(FINAL | opcode::PING, &[0; 126]), WebSocketError::Control),
        (frame(FINAL | COMPRESSED | opcode::PING, b""), WebSocketError::Control),
        (frame(FINAL | opcode::CONTINUATION, b"x"), WebSocketError::Continuation),
        ([frame(opcode::BINARY, b"x"), frame(binary, b"y")].concat(), WebSocketError::Unfinished),
        (
            [frame(opcode::BINARY, b"x"), frame(FINAL | COMPRESSED, b"y")].concat(),
            WebSocketError::Continuation,
        ),
        (frame(FINAL | opcode::CLOSE, &[3]), WebSocketError::Close),
        (frame(FINAL | opcode::CLOSE, &[3, 0xed]), WebSocketError::Close),
        (frame(FINAL | opcode::CLOSE, &[3, 0xe8, 0xff]), WebSocketError::Close),
        (frame(binary | COMPRESSED, &[0xff; 100]), WebSocketError::Damaged),
        (frame(binary | COMPRESSED, &bomb), WebSocketError::Inflated),
    ] {
        for step in [1, bytes.len()] {
            assert_eq!(decode(&bytes, step, 4096).unwrap_err(), expected, "step {step}");
        }
    }
    let mut plain = Decoder::new(limits(), false);
    let mut compressed = frame(binary | COMPRESSED, b"x");
    assert_eq!(plain.advance(&mut compressed, &mut [0; 9]), Err(WebSocketError::NotNegotiated));
}

mod random {
    use proptest::prelude::*;

    use super::*;

    /// Frames most of which are valid, and bytes most of which are not.
    fn input() -> impl Strategy<Value = Vec<u8>> {
        let opcode = prop_oneof![Just(0u8), Just(1), Just(2), Just(2), Just(8), Just(9), Just(10), 0..16u8];
        let flags = prop_oneof![Just(FINAL), Just(FINAL), Just(0), Just(FINAL | COMPRESSED), Just(0x30)];
        let payload = proptest::collection::vec(any::<u8>(), 0..200);
        let frame = (opcode, flags, payload, any::<bool>()).prop_map(|(opcode, flags, payload, deflate)| {
            let payload = if deflate { deflated(&payload) } else { payload };
            frame(flags | opcode, &payload)
        });
        let garbage = proptest::collection::vec(any::<u8>(), 0..20);
        proptest::collection::vec(prop_oneof![8 => frame, 1 => garbage], 0..12)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn the_same_comes_out_however_it_arrives(bytes in input(), step in 1..50usize, room in 1..50usize) {
            let whole = decode(&bytes, bytes.len().max(1), 1 << 16);
            let pieces = decode(&bytes, step, room);
            prop_assert_eq!(whole, pieces);
        }
    }
}

/// Reads one frame of the server: its first byte and its payload.
async fn receive(client: &mut DuplexStream) -> io::Result<(u8, Vec<u8>)> {
    let (first, second) = (client.read_u8().await?, client.read_u8().await?);
    assert_eq!(second & MASKED, 0, "servers do not mask");
    let length = match second {
        126 => u64::from(client.read_u16().await?),
        127 => client.read_u64().await?,
        length => u64::from(length),
    };
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    client.read_exact(&mut payload).await?;
    Ok((first, payload))
}

fn inflated(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 20);
    let mut inflater = flate2::Decompress::new(false);
    let whole = [payload, &DEFLATE_END].concat();
    inflater.decompress_vec(&whole, &mut out, flate2::FlushDecompress::Sync).unwrap();
    out
}

#[tokio::test]
async fn the_stream_carries_bytes_both_ways_and_answers_for_itself() {
    tailrace_runtime::install();
    for compression in [false, true] {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let mut server = WebSocket::new(server, limits(), compression, ClosingFrame::default());
        client.write_all(&frame(FINAL | opcode::BINARY, b"PING\r\n")).await.unwrap();
        let mut buffer = [0; 6];
        server.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"PING\r\n");
        // Short payloads are sent uncompressed, long ones in several frames.
        server.write_all(b"PONG\r\n").await.unwrap();
        let long: Vec<u8> = (0..100_000u32).map(|n| u8::try_from(n % 17).unwrap()).collect();
        server.write_all(&long).await.unwrap();
        server.flush().await.unwrap();
        assert_eq!(receive(&mut client).await.unwrap(), (FINAL | opcode::BINARY, b"PONG\r\n".to_vec()));
        let mut found = Vec::new();
        while found.len() < long.len() {
            let (first, payload) = receive(&mut client).await.unwrap();
            assert_eq!(first & COMPRESSED != 0, compression);
            found.extend(if compression { inflated(&payload) } else { payload });
        }
        assert!(found == long);
        // A PING is answered while the server waits for the next bytes.
        client.write_all(&frame(FINAL | opcode::PING, b"?")).await.unwrap();
        let read = task::spawn(async move {
            let mut rest = Vec::new();
            (server.read_to_end(&mut rest).await.map(|_| rest), server)
        });
        assert_eq!(receive(&mut client).await.unwrap(), (FINAL | opcode::PONG, b"?".to_vec()));
        client.write_all(&frame(FINAL | opcode::CLOSE, &[3, 0xe9])).await.unwrap();
        let (rest, mut server) = read.await.unwrap();
        assert!(rest.unwrap().is_empty());
        assert_eq!(receive(&mut client).await.unwrap(), (FINAL | opcode::CLOSE, vec![3, 0xe9]));
        server.shutdown().await.unwrap();
        assert_eq!(client.read(&mut [0; 9]).await.unwrap(), 0, "no second closing frame");
    }
}

#[tokio::test]
async fn a_client_that_does_wrong_is_told_why_and_read_no_further() {
    tailrace_runtime::install();
    let (mut client, server) = tokio::io::duplex(1 << 20);
    let mut server = WebSocket::new(server, limits(), false, ClosingFrame::default());
    client.write_all(&[FINAL | opcode::BINARY, 1, b'x']).await.unwrap();
    let error = server.read(&mut [0; 9]).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (io::ErrorKind::InvalidData, "mask bit missing".to_owned())
    );
    let (first, payload) = receive(&mut client).await.unwrap();
    assert_eq!(
        (first, &payload[..]),
        (FINAL | opcode::CLOSE, &[&[3, 0xea], b"mask bit missing".as_slice()].concat()[..])
    );
    assert_eq!(server.read(&mut [0; 9]).await.unwrap(), 0);
    assert!(server.write_all(b"more").await.is_err());
}

#[tokio::test]
async fn the_servers_own_end_says_why_and_pings_of_who_does_not_read_are_not_hoarded() {
    tailrace_runtime::install();
    let (mut client, server) = tokio::io::duplex(4096);
    let closing = ClosingFrame::default();
    let mut server = WebSocket::new(server, limits(), false, closing.clone());
    let mut reading = Box::pin(async move {
        let mut rest = [0; 6];
        server.read_exact(&mut rest).await.map(|_| server)
    });
    let ping = frame(FINAL | opcode::PING, &[b'x'; 125]);
    // The client does not read the answers. After a while no more of them are kept, and the connection still
    // works.
    for _ in 0..5_000 {
        select! {
            sent = client.write_all(&ping) => sent.unwrap(),
            _ = &mut reading => panic!("nothing was sent"),
        }
    }
    let data = frame(FINAL | opcode::BINARY, b"PING\r\n");
    select! {
        _ = &mut reading => panic!("nothing was sent"),
        sent = client.write_all(&data) => sent.unwrap(),
    }
    let mut server = reading.await.unwrap();
    let drain = task::spawn(async move {
        let (mut pongs, mut last) = (0, (0, Vec::new()));
        while let Ok(frame) = receive(&mut client).await {
            pongs += usize::from(frame.0 == FINAL | opcode::PONG);
            last = frame;
        }
        (pongs, last)
    });
    closing.set(CloseReason::Stale);
    closing.set(CloseReason::Client);
    server.shutdown().await.unwrap();
    drop(server);
    let (pongs, last) = drain.await.unwrap();
    assert_eq!(last, (FINAL | opcode::CLOSE, [&[3, 0xe9], &b"Stale Connection"[..]].concat()));
    // 128 KiB and what fits into the pipe, in frames of 127 bytes.
    assert!((1..1_200).contains(&pongs), "{pongs}");
}

/// Counts the reads and writes of a stream.
struct Counted {
    inner: DuplexStream,
    reads: usize,
    writes: usize,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reads += 1;
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes += 1;
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A megabyte of PINGs, some among the frames of a message. Each read is answered with one write, and each
/// PING is answered.
#[tokio::test]
async fn pings_that_come_together_are_answered_together() {
    tailrace_runtime::install();
    const MEBIBYTE: usize = 1 << 20;
    let (mut client, inner) = tokio::io::duplex(2 * MEBIBYTE);
    let counted = Counted { inner, reads: 0, writes: 0 };
    let mut server = WebSocket::new(counted, limits(), false, ClosingFrame::default());
    let ping = frame(FINAL | opcode::PING, b"");
    let within =
        [frame(opcode::BINARY, b""), ping.repeat(3), frame(FINAL | opcode::CONTINUATION, b"")].concat();
    let (pings, messages) = (MEBIBYTE / 2 / ping.len(), MEBIBYTE / 2 / within.len());
    for bytes in [ping.repeat(pings), within.repeat(messages), frame(FINAL | opcode::BINARY, b"PING\r\n")] {
        client.write_all(&bytes).await.unwrap();
    }
    let mut rest = [0; 6];
    server.read_exact(&mut rest).await.unwrap();
    assert_eq!(rest, *b"PING\r\n");
    let Counted { reads, writes, inner } = server.into_inner();
    assert!(reads > 60 && writes <= reads, "{writes} writes for {reads} reads");
    drop(inner);
    let mut pongs = Vec::new();
    client.read_to_end(&mut pongs).await.unwrap();
    assert!(pongs == [FINAL | opcode::PONG, 0].repeat(pings + 3 * messages));
}

/// Empty compressed messages: a megabyte of them yields no byte.
#[tokio::test]
async fn input_that_comes_to_nothing_does_not_keep_others_from_their_turn() {
    tailrace_runtime::install();
    const MEBIBYTE: usize = 1 << 20;
    let (mut client, server) = tokio::io::duplex(2 * MEBIBYTE);
    let mut server = WebSocket::new(server, limits(), true, ClosingFrame::default());
    let nothing = frame(FINAL | COMPRESSED | opcode::BINARY, b"");
    let count = MEBIBYTE / nothing.len();
    client.write_all(&nothing.repeat(count)).await.unwrap();
    client.write_all(&frame(FINAL | opcode::BINARY, b"PING\r\n")).await.unwrap();
    let mut turns = 0;
    let mut reading = std::pin::pin!(async {
        let mut rest = [0; 6];
        server.read_exact(&mut rest).await.map(|_| rest)
    });
    let rest = std::future::poll_fn(|cx| {
        turns += 1;
        reading.as_mut().poll(cx)
    });
    assert_eq!(rest.await.unwrap(), *b"PING\r\n");
    assert!(turns > 20, "a megabyte in {turns} turns");
}
