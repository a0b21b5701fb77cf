//! Conversations with a NATS server: what clients send, and the bytes that must come back.
//!
//! A script is a text file in `tests/nats/conversations`. Its golden bytes were recorded from nats-server
//! 2.15.2 and are never edited to suit tailrace. Lines:
//!
//! ```text
//! # a comment
//! set tailrace.nats.max.payload.bytes = 64  a setting of the server, before the first scene
//! user bob password=b publish=a,b.> !publish=b.x subscribe=.. !subscribe=.. responses=COUNT/MILLISECONDS
//! == title of a scene                       every scene has its own connections
//! A > SUB foo 1\r\n                         client A writes these bytes, in one write
//! A < MSG foo 1 2\r\n                       A receives exactly these bytes next
//! A silence                                 nothing is on its way to A: a PING is answered first
//! A closed                                  the server closes the connection and sends nothing
//! A refused -ERR 'x'\r\n                    this, then the end; or a reset, if input was unread
//! A connects                                opens A, INFO unread (else the first mention reads it)
//! A info {"headers":true,"nonce":null}      an INFO with these fields; "*" any value, null: absent
//! A leaves                                  A closes the connection
//! one-of A B < ...                          exactly one of them receives this, and no other bytes
//! share 100 A B < ...                       100 copies come, distributed among them; each gets some
//! A waits 500                               milliseconds, for things that only time brings about
//! server lame-duck                          puts the server into lame duck mode
//! tailrace: A < ...                         a step for one of the two only, where they differ on purpose
//! nats-server: A < ...
//! ```
//!
//! Escapes are `\r \n \t \s` (blank) `\\ \xHH`. `\{4096*a}` repeats, and `\*` matches any word in received
//! bytes. A client that is still connected at the end of a scene must be in `silence`, unless the scene says
//! `A in the middle` (of a payload). Recording fills in `A < ?`. Scripts deliberately set no deadlines: a
//! single deadline applies to all answers.

#![allow(unreachable_pub, reason = "a module of a test binary")]

pub mod pattern;
pub mod player;
pub mod real;
pub mod script;
