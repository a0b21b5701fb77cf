//! Arbitrary bytes as the input of a NATS client or server, whole and in two pieces. Parsing must not panic,
//! must give the same result however the bytes arrive, and must not ask for more bytes than an operation may
//! have. A published message must survive delivery.
//!
//! Run: `cargo +nightly fuzz run nats_protocol -- -max_len=4096 -rss_limit_mb=512`

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace_nats_wire::{
    ClientOp, ClientParser, ConnectOptions, Delivery, Limits, ServerOp, ServerParser, Step, header_lines,
    loose_lines, write_delivery,
};

const LIMITS: Limits = Limits { control_line_max: 128, payload_max: 512 };

fuzz_target!(|data: &[u8]| {
    let Some((&cut, input)) = data.split_first() else { return };
    let whole = client(input, input.len());
    let pieces = client(input, usize::from(cut).min(input.len()));
    assert_eq!(whole, pieces, "cut at {cut}");
    server(input);
});

/// Parses the operations of `input`, whose first `at` bytes arrive first.
fn client(input: &[u8], at: usize) -> Vec<String> {
    let (mut parser, mut ops, mut from, mut wanted) = (ClientParser::new(LIMITS), Vec::new(), 0, 0);
    parser.allow_headers(true);
    for upto in [at, input.len()] {
        while upto - from >= wanted && upto > from {
            match parser.next(&input[from..upto]) {
                Ok(Step::Done(op, bytes)) => {
                    // The parser may skip what follows PING in any number of pieces.
                    if op != ClientOp::Ignored {
                        look(&op);
                        ops.push(format!("{op:?}"));
                    }
                    (from, wanted) = (from + bytes, 0);
                }
                Ok(Step::More(bytes)) => {
                    assert!(bytes > upto - from);
                    assert!(bytes <= LIMITS.control_line_max + LIMITS.payload_max + 16);
                    wanted = bytes;
                }
                Err(_) => {
                    ops.push("refused".to_owned());
                    return ops;
                }
            }
        }
    }
    ops
}

fn look(op: &ClientOp<'_>) {
    match op {
        ClientOp::Publish(message) => {
            if let Some(Ok(lines)) = message.headers.map(header_lines) {
                lines.count();
            }
            message.headers.map(|block| loose_lines(block).count());
            let delivery = Delivery { message: *message, sid: b"1" };
            let mut out = Vec::new();
            write_delivery(&mut out, &delivery);
            assert_eq!(out.len(), delivery.wire_bytes());
            let limits = Limits { control_line_max: 4096, ..LIMITS };
            let expected = ServerOp::Message { sid: b"1", message: *message };
            assert_eq!(ServerParser::new(limits).next(&out), Ok(Step::Done(expected, out.len())));
        }
        ClientOp::Connect(json) => drop(ConnectOptions::parse(json)),
        _ => {}
    }
}

fn server(input: &[u8]) {
    let (mut parser, mut from) = (ServerParser::new(LIMITS), 0);
    while let Ok(Step::Done(_, bytes)) = parser.next(&input[from..]) {
        from += bytes;
        if from == input.len() {
            break;
        }
    }
}
