//! The parser of client operations: every vector whole, and split at every byte.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use proptest::prelude::*;
use tailrace_nats_wire::{
    ClientOp, ClientParser, Delivery, Limits, Message, ParseError, ServerOp, ServerParser, Step,
    write_delivery, write_publish,
};

/// Returns a parser for a client that may send headers.
fn parser(limits: Limits) -> ClientParser {
    let mut parser = ClientParser::new(limits);
    parser.allow_headers(true);
    parser
}

fn small() -> Limits {
    Limits { control_line_max: 64, payload_max: 32 }
}

/// Parses `input`, which grows byte by byte, as long as the parser asks for no more than there is.
fn parse_growing(input: &[u8], limits: Limits) -> (Vec<String>, Option<ParseError>) {
    let (mut parser, mut ops, mut from, mut upto, mut wanted) = (parser(limits), Vec::new(), 0, 0, 0);
    while upto < input.len() {
        upto += 1;
        while upto - from >= wanted && upto > from {
            match parser.next(&input[from..upto]) {
                Ok(Step::Done(op, bytes)) => {
                    ops.push(format!("{op:?}"));
                    from += bytes;
                    wanted = 0;
                }
                Ok(Step::More(bytes)) => {
                    assert!(bytes > upto - from, "asks for no more than it has");
                    wanted = bytes;
                }
                Err(error) => return (ops, Some(error)),
            }
        }
    }
    (ops, None)
}

fn parse_whole(input: &[u8], limits: Limits) -> (Vec<String>, Option<ParseError>) {
    let (mut parser, mut ops, mut rest) = (parser(limits), Vec::new(), input);
    while !rest.is_empty() {
        match parser.next(rest) {
            Ok(Step::Done(op, bytes)) => {
                ops.push(format!("{op:?}"));
                rest = &rest[bytes..];
            }
            Ok(Step::More(_)) => break,
            Err(error) => return (ops, Some(error)),
        }
    }
    (ops, None)
}

fn one(input: &[u8]) -> ClientOp<'_> {
    match parser(small()).next(input).unwrap() {
        Step::Done(op, bytes) => {
            assert_eq!(bytes, input.len());
            op
        }
        Step::More(bytes) => panic!("wants {bytes} bytes of {}", input.escape_ascii()),
    }
}

fn refused(input: &[u8]) -> ParseError {
    let (_, error) = parse_whole(input, small());
    let (_, growing) = parse_growing(input, small());
    let kind = |error: &Option<ParseError>| error.as_ref().map(std::mem::discriminant);
    assert_eq!(kind(&error), kind(&growing), "{}", input.escape_ascii());
    error.unwrap_or_else(|| panic!("accepted: {}", input.escape_ascii()))
}

const VECTORS: &[&[u8]] = &[
    b"CONNECT {\"verbose\":false}\r\n",
    b"connect\t{} \r\n",
    b"PUB a.b 5\r\nhello\r\n",
    b"PUB a.b reply 0\r\n\r\n",
    b"pub a 2\n\r\n\r\n",
    b"HPUB a 12 17\r\nNATS/1.0\r\n\r\nhello\r\n",
    b"HPUB a r 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    b"SUB a.* 1\r\n",
    b"SUB  a.>\tworkers  abc \r\n",
    b"UNSUB 1\r\nUNSUB 1 5\r\n",
    b"PING\r\nping\nPONG\r\n+OK\r\n",
    b"-ERR 'x'\r\n",
    b"INFO {}\r\n",
    b"PUB x 3\r\na\r\n\r\n",
];

#[test]
fn every_vector_split_at_every_byte_means_the_same() {
    for vector in VECTORS {
        let whole = parse_whole(vector, small());
        assert_eq!(whole.1, None, "{}", vector.escape_ascii());
        assert_eq!(whole, parse_growing(vector, small()));
        for at in 0..vector.len() {
            let (ops, error) = parse_whole(&vector[..at], small());
            assert_eq!(error, None, "an incomplete operation is no error: {}", vector[..at].escape_ascii());
            assert!(whole.0.starts_with(&ops));
        }
    }
}

#[test]
fn operations_are_read_as_nats_server_reads_them() {
    let message = Message { subject: b"a.b", reply: None, headers: None, payload: b"hello" };
    assert_eq!(one(VECTORS[2]), ClientOp::Publish(message));
    let message = Message { subject: b"a.b", reply: Some(b"reply"), headers: None, payload: b"" };
    assert_eq!(one(VECTORS[3]), ClientOp::Publish(message));
    let message =
        Message { subject: b"a", reply: None, headers: Some(b"NATS/1.0\r\n\r\n"), payload: b"hello" };
    assert_eq!(one(VECTORS[5]), ClientOp::Publish(message));
    assert_eq!(
        one(VECTORS[8]),
        ClientOp::Subscribe { subject: b"a.>", queue: Some(b"workers"), sid: b"abc" }
    );
    assert_eq!(one(b"UNSUB 7 3\r\n"), ClientOp::Unsubscribe { sid: b"7", max: Some(3) });
    for at_once in [&b"UNSUB 7 0\r\n"[..], b"UNSUB 7 -1\r\n", b"UNSUB 7 x\r\n", b"UNSUB 7 1234567890\r\n"] {
        assert_eq!(one(at_once), ClientOp::Unsubscribe { sid: b"7", max: None });
    }
    assert_eq!(one(b"CONNECT {}\r\n"), ClientOp::Connect(b"{}"));
}

/// Verified against nats-server 2.15.2, each in one write.
#[test]
fn a_return_within_a_line_is_what_nats_server_makes_of_it() {
    let subscribe = |subject, queue, sid| ClientOp::Subscribe { subject, queue, sid };
    assert_eq!(one(b"SUB a\rq\r1\r\n"), subscribe(b"a", Some(b"q"), b"1"));
    assert_eq!(one(b"SUB a 1\r\r\n"), subscribe(b"a", None, b"1"));
    assert_eq!(one(b"SUB \ra 1\r\n"), subscribe(b"a", None, b"1"));
    // Without a CR at the end, the one in the middle removes the last byte.
    assert_eq!(one(b"SUB a\r12\n"), subscribe(b"a", None, b"1"));
    assert_eq!(one(b"SUB \ra 1\n"), subscribe(b"a", None, b"1"));
    assert_eq!(one(b"UNSUB 1\r5\r\n"), ClientOp::Unsubscribe { sid: b"1", max: Some(5) });
    // In PUB it is part of the subject.
    let message = Message { subject: b"a\r", reply: None, headers: None, payload: b"x" };
    assert_eq!(one(b"PUB a\r 1\r\nx\r\n"), ClientOp::Publish(message));
    assert_eq!(one(b"PUB a\r 12\nx\r\n"), ClientOp::Publish(message));
    assert!(matches!(refused(b"PUB a 1\r\r\nx\r\n"), ParseError::Arguments { .. }));
}

#[test]
fn headers_that_were_not_announced_are_refused_by_their_line() {
    for line in [&b"HPUB a 12 14\r\n"[..], b"HPUB a\r\n", b"hpub a 12 9999999\n"] {
        assert_eq!(ClientParser::new(small()).next(line), Err(ParseError::HeadersNotAllowed));
    }
    let mut parser = parser(small());
    assert!(matches!(parser.next(b"HPUB a 12 14\r\n"), Ok(Step::More(_))));
    let long = [&b"HPUB "[..], &[b'x'; 70], b"\r\n"].concat();
    assert_eq!(ClientParser::new(small()).next(&long), Err(ParseError::ControlLine { max: 64 }));
}

#[test]
fn info_of_a_client_must_be_an_object() {
    for line in [&b"INFO {}\r\n"[..], b"INFO{\"a\":[1]}\r\n", b"info\t null \n"] {
        assert_eq!(one(line), ClientOp::Ignored);
    }
    for line in [&b"INFO x\r\n"[..], b"INFO []\r\n", b"INFO\r\n", b"INFO {\r\n"] {
        assert!(
            matches!(refused(line), ParseError::Arguments { verb: "INFO", .. }),
            "{}",
            line.escape_ascii()
        );
    }
}

#[test]
fn sizes_that_lie_are_refused() {
    for input in [
        &b"PUB a -1\r\n"[..],
        b"PUB a x\r\n",
        b"PUB a\r\n",
        b"PUB\r\n",
        b"PUB a b c 1\r\n",
        b"PUB a 99999999999999999999\r\n",
        b"HPUB a 13 12\r\n",
        b"HPUB a 12\r\n",
        b"SUB a\r\n",
        b"SUB a b c d\r\n",
        b"UNSUB\r\n",
        b"UNSUB 1 2 3\r\n",
    ] {
        assert!(
            matches!(refused(input), ParseError::Arguments { .. } | ParseError::UnknownOperation(_)),
            "{}",
            input.escape_ascii()
        );
    }
    assert_eq!(refused(b"PUB a 2\r\nabc\r\n"), ParseError::PayloadEnd);
    assert_eq!(refused(b"PUB a 33\r\n"), ParseError::Payload { bytes: 33, max: 32 });
    assert_eq!(refused(b"HPUB a 12 33\r\n"), ParseError::Payload { bytes: 33, max: 32 });
}

#[test]
fn control_lines_have_an_end() {
    let line = |bytes: usize| [b"SUB ".to_vec(), vec![b'x'; bytes - 2], b" 1".to_vec()].concat();
    assert!(parse_whole(&[line(64), b"\r\n".to_vec()].concat(), small()).1.is_none());
    assert_eq!(refused(&[line(65), b"\r\n".to_vec()].concat()), ParseError::ControlLine { max: 64 });
    assert!(matches!(refused(&[b'P'; 100]), ParseError::UnknownOperation(_)));
    assert_eq!(refused(&line(200)), ParseError::ControlLine { max: 64 });
}

/// Found by fuzzing: the line was accepted as a whole, but not in pieces.
#[test]
fn blanks_before_the_arguments_make_a_line_no_longer_than_it_may_be_in_pieces() {
    let line = |blanks: usize| [b"SUB".to_vec(), vec![b' '; blanks], b"a 1\r\n".to_vec()].concat();
    for blanks in 1..200 {
        let (whole, growing) = (parse_whole(&line(blanks), small()), parse_growing(&line(blanks), small()));
        assert_eq!(whole.0, growing.0, "{blanks} blanks");
        assert_eq!(whole.1, growing.1, "{blanks} blanks");
    }
    assert!(parse_whole(&line(60), small()).1.is_none());
    assert_eq!(refused(&line(100)), ParseError::ControlLine { max: 64 });
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused_alike_however_they_arrive(input in proptest::collection::vec(any::<u8>(), 0..120)) {
        let whole = parse_whole(&input, small());
        let growing = parse_growing(&input, small());
        prop_assert_eq!(whole.0.len() <= growing.0.len(), true);
        prop_assert_eq!(&growing.0[..whole.0.len()], &whole.0[..]);
    }

    #[test]
    fn what_is_written_is_read_back(
        subject in "[a-z.]{1,20}", reply in proptest::option::of("[a-z]{1,9}"),
        headers in proptest::option::of(Just(&b"NATS/1.0\r\na: b\r\n\r\n"[..])), payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let message = Message { subject: subject.as_bytes(), reply: reply.as_ref().map(String::as_bytes), headers, payload: &payload };
        let mut out = Vec::new();
        write_publish(&mut out, &message);
        let mut parser = parser(Limits::default());
        prop_assert_eq!(parser.next(&out), Ok(Step::Done(ClientOp::Publish(message), out.len())));
        out.clear();
        let delivery = Delivery { message, sid: b"12" };
        write_delivery(&mut out, &delivery);
        prop_assert_eq!(out.len(), delivery.wire_bytes());
        let mut parser = ServerParser::new(Limits::default());
        prop_assert_eq!(parser.next(&out), Ok(Step::Done(ServerOp::Message { sid: b"12", message }, out.len())));
    }
}
