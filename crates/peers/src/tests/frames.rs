//! The bytes of frames: as documented, whole, truncated, and damaged.

use proptest::prelude::*;
use tailrace_env::{join, select, task};

use super::super::error::Ended;
use super::super::frame::{self, Frame, FrameError, FrameKind, HEADER_BYTES};
use super::super::reader::FrameReader;
use super::*;

/// Splits one whole frame into kind and payload.
fn split(frame: &[u8]) -> (u8, Bytes) {
    let length = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
    assert_eq!(frame.len(), 4 + length);
    (frame[4], Bytes::copy_from_slice(&frame[HEADER_BYTES..]))
}

fn decode(frame: &[u8]) -> Result<(FrameKind, Frame), FrameError> {
    let (kind, payload) = split(frame);
    frame::decode(kind, payload)
}

/// Returns one frame of each kind.
fn samples() -> Vec<(Bytes, FrameKind, Frame)> {
    let messages = vec![(group(1), append(1, 2, 9, b"batch")), (group(-1), append(3, 4, 5, b""))];
    let mut raft = BytesMut::new();
    let at = frame::begin(&mut raft, FrameKind::Raft);
    messages.iter().for_each(|(group, message)| frame::put_message(&mut raft, *group, message));
    frame::end(&mut raft, at);
    let beats = vec![(group(1), heartbeat(1, 2, 3)), (group(2), heartbeat(2, 1, 4))];
    let mut heartbeats = BytesMut::new();
    let at = frame::begin(&mut heartbeats, FrameKind::Heartbeats);
    for (group, message) in &beats {
        frame::put_heartbeat(&mut heartbeats, *group, &message.heartbeat().unwrap());
    }
    frame::end(&mut heartbeats, at);
    let groups = vec![(group(1), LeaderEpoch(5)), (group(2), LeaderEpoch(6))];
    let mut leading = frame::leading_frames(true, &groups, 1 << 20);
    let number = |kind| {
        let mut out = BytesMut::new();
        frame::put_number(&mut out, kind, 77);
        out.freeze()
    };
    let body = Bytes::from_static(b"body");
    let with_body = |kind, detail| {
        let head = frame::body_head(kind, 77, detail, &body);
        Bytes::from([&head[..], &body].concat())
    };
    let nats = |kind| {
        let mut out = BytesMut::new();
        let at = frame::begin(&mut out, kind);
        out.put_slice(&body);
        frame::end(&mut out, at);
        out.freeze()
    };
    vec![
        (raft.freeze(), FrameKind::Raft, Frame::Raft(messages)),
        (heartbeats.freeze(), FrameKind::Heartbeats, Frame::Raft(beats)),
        (leading.remove(0), FrameKind::Leading, Frame::Leading { complete: true, groups }),
        (
            with_body(FrameKind::Request, 3),
            FrameKind::Request,
            Frame::Request { id: 77, kind: 3, body: body.clone() },
        ),
        (number(FrameKind::Cancel), FrameKind::Cancel, Frame::Cancel(77)),
        (number(FrameKind::Ping), FrameKind::Ping, Frame::Ping(77)),
        (
            with_body(FrameKind::Answer, 0),
            FrameKind::Answer,
            Frame::Answer { id: 77, outcome: Ok(body.clone()) },
        ),
        (
            with_body(FrameKind::Answer, 4),
            FrameKind::Answer,
            Frame::Answer { id: 77, outcome: Err(RequestError::Failed("body".to_owned())) },
        ),
        (number(FrameKind::Pong), FrameKind::Pong, Frame::Pong(77)),
        (
            nats(FrameKind::NatsInterest),
            FrameKind::NatsInterest,
            Frame::Nats(NatsFrame::Interest, body.clone()),
        ),
        (nats(FrameKind::NatsMessage), FrameKind::NatsMessage, Frame::Nats(NatsFrame::Message, body.clone())),
        (number(FrameKind::Beat), FrameKind::Beat, Frame::Beat(77)),
    ]
}

#[test]
fn frames_come_back() {
    let kinds: std::collections::BTreeSet<_> = samples().iter().map(|(_, kind, _)| *kind as u8).collect();
    assert_eq!(kinds.len(), FrameKind::ALL.len());
    assert!(kinds.into_iter().eq(FrameKind::ALL.map(|kind| kind as u8)));
    for (bytes, kind, frame) in samples() {
        assert_eq!(decode(&bytes).unwrap(), (kind, frame));
    }
}

/// The seeds of the fuzz target `peer_frame`: a frame of each kind, as kind and payload.
#[test]
fn the_seeds_of_fuzzing_are_frames_of_every_kind() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/peer_frame");
    let mut kinds = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = Bytes::from(std::fs::read(file.unwrap().path()).unwrap());
        let (kind, _) = frame::decode(bytes[0], bytes.slice(1..)).unwrap();
        kinds.insert(kind as u8);
    }
    assert!(kinds.into_iter().eq(FrameKind::ALL.map(|kind| kind as u8)));
}

#[test]
fn the_bytes_are_those_of_the_documentation() {
    let (_, kind, _) = &samples()[1];
    assert_eq!(*kind as u8, 2);
    let mut heartbeats = BytesMut::new();
    let beat = heartbeat(1, 2, 3).heartbeat().unwrap();
    frame::put_heartbeat(&mut heartbeats, group(9), &beat);
    let mut expected = vec![7; 16];
    expected.extend(b"\x09\0\0\0\x00");
    expected.extend(b"\x01\0\0\0\x01\0\0\0\x02\0\0\0\x01\0\0\0\x03\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x03ctx");
    assert_eq!(&heartbeats[..], expected);
    let leading = &frame::leading_frames(false, &[(group(9), LeaderEpoch(4))], 1 << 20)[0];
    let mut expected = b"\x1a\0\0\0\x03\x00".to_vec();
    expected.extend([7; 16]);
    expected.extend(b"\x09\0\0\0\x04\0\0\0");
    assert_eq!(leading[..], expected);
    let head = frame::body_head(FrameKind::Request, 258, 6, &Bytes::from_static(b"abc"));
    assert_eq!(head, *b"\x0d\0\0\0\x04\x02\x01\0\0\0\0\0\0\x06");
}

#[test]
fn a_cut_frame_is_refused_or_says_less() {
    for (bytes, kind, frame) in samples() {
        for cut in HEADER_BYTES..bytes.len() {
            let payload = bytes.slice(HEADER_BYTES..cut);
            let read = frame::decode(kind as u8, payload);
            assert_ne!(read.ok(), Some((kind, clone_of(&frame))), "{kind:?} cut at {cut}");
        }
    }
}

fn clone_of(frame: &Frame) -> Frame {
    match frame {
        Frame::Raft(messages) => Frame::Raft(messages.clone()),
        Frame::Leading { complete, groups } => Frame::Leading { complete: *complete, groups: groups.clone() },
        Frame::Request { id, kind, body } => Frame::Request { id: *id, kind: *kind, body: body.clone() },
        Frame::Cancel(id) => Frame::Cancel(*id),
        Frame::Ping(number) => Frame::Ping(*number),
        Frame::Beat(number) => Frame::Beat(*number),
        Frame::Answer { id, outcome } => Frame::Answer { id: *id, outcome: outcome.clone() },
        Frame::Pong(number) => Frame::Pong(*number),
        Frame::Nats(frame, payload) => Frame::Nats(*frame, payload.clone()),
    }
}

#[test]
fn a_list_that_takes_several_frames_is_not_marked_complete() {
    let groups: Vec<_> = (0..100_000).map(|number| (group(number), LeaderEpoch(1))).collect();
    let frames = frame::leading_frames(true, &groups, 1 << 20);
    assert_eq!(frames.len(), 3);
    let mut found = Vec::new();
    for frame in frames {
        assert!(frame.len() <= 1 << 20);
        let Ok((_, Frame::Leading { complete: false, groups })) = decode(&frame) else { panic!("{frame:?}") };
        found.extend(groups);
    }
    assert_eq!(found, groups);
}

#[test]
fn frames_with_more_messages_than_any_node_sends_are_refused() {
    let message = append(1, 2, 1, b"");
    let mut out = BytesMut::new();
    for _ in 0..=frame::MESSAGES_MAX {
        frame::put_message(&mut out, group(1), &message);
    }
    let whole = out.freeze();
    let one = whole.len() / (frame::MESSAGES_MAX + 1);
    assert!(frame::decode(1, whole.slice(one..)).is_ok());
    assert_eq!(frame::decode(1, whole).unwrap_err(), FrameError::Messages { count: frame::MESSAGES_MAX + 1 });
}

fn read_all(input: Vec<u8>, pieces: &[usize], max: usize) -> (Vec<(u8, Bytes)>, Ended) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let pieces = pieces.to_vec();
    runtime.block_on(async move {
        let (mut writer, reader) = tokio::io::duplex(64);
        let writing = async move {
            let (mut at, mut piece) = (0, 0);
            while at < input.len() {
                let end = input.len().min(at + pieces.get(piece).copied().unwrap_or(1_000));
                (at, piece) = match writer.write_all(&input[at..end]).await {
                    Ok(()) => (end, piece + 1),
                    Err(_) => return,
                };
                task::yield_now().await;
            }
        };
        let reading = async move {
            let mut reader = FrameReader::new(reader, max, PATIENCE);
            let mut frames = Vec::new();
            loop {
                match reader.next(|_| {}).await {
                    Ok(frame) => frames.push(frame),
                    Err(ended) => return (frames, ended),
                }
            }
        };
        join!(writing, reading).1
    })
}

/// All existing kinds, and twice as many that do not exist.
fn kinds() -> std::ops::Range<u8> {
    0..3 * FrameKind::ALL.map(|kind| kind as u8).into_iter().max().expect("there are some")
}

proptest! {
    #[test]
    fn damaged_payloads_are_read_or_refused(
        which in 0..samples().len(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        kind in kinds(),
    ) {
        let (bytes, ..) = samples().swap_remove(which);
        let (own, payload) = split(&bytes);
        let mut damaged = payload.to_vec();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        let _ = frame::decode(own, damaged.clone().into());
        let _ = frame::decode(kind, damaged.into());
    }

    #[test]
    fn any_payload_is_read_or_refused(kind in kinds(), payload in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = frame::decode(kind, payload.into());
    }

    #[test]
    fn frames_are_found_however_their_bytes_arrive(pieces in prop::collection::vec(1..200_usize, 0..20)) {
        tailrace_runtime::install();
        let samples = samples();
        let stream: Vec<u8> = samples.iter().flat_map(|(bytes, ..)| bytes.to_vec()).collect();
        let (frames, ended) = read_all(stream, &pieces, 1 << 20);
        prop_assert!(matches!(ended, Ended::ByPeer));
        prop_assert_eq!(frames.len(), samples.len());
        for ((kind, payload), (_, expected_kind, expected)) in frames.into_iter().zip(samples) {
            prop_assert_eq!(frame::decode(kind, payload).unwrap(), (expected_kind, expected));
        }
    }
}

#[test]
fn a_length_that_lies_takes_memory_only_for_what_arrives() {
    tailrace_runtime::install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (mut writer, reader) = tokio::io::duplex(1 << 20);
        let mut reader = FrameReader::new(reader, 128 << 20, PATIENCE);
        let length = u32::try_from((128 << 20) - 4).unwrap();
        writer.write_all(&length.to_le_bytes()).await.unwrap();
        writer.write_all(&[1; 1000]).await.unwrap();
        let arrived = std::cell::Cell::new(0);
        select! {
            frame = reader.next(|bytes| arrived.set(arrived.get() + bytes)) => panic!("{frame:?}"),
            () = async { while arrived.get() < 1004 { task::yield_now().await } } => {}
        }
        assert!(reader.capacity() < 3 << 20, "{} bytes", reader.capacity());
    });
    let too_long = u32::try_from(1 << 20).unwrap().to_le_bytes().to_vec();
    let (frames, ended) = read_all(too_long, &[], 1 << 20);
    assert!(frames.is_empty());
    assert!(
        matches!(ended, Ended::Frame(FrameError::Length { length: 1_048_576, max: 1_048_572 })),
        "{ended:?}"
    );
}
