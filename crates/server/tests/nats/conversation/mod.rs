//! Conversations with a NATS server: what clients send, and the bytes that must come back.
//!
//! A script is a text file in `tests/nats/conversations`; its golden bytes were recorded from nats-server 2.15.2 and are
//! never edited to please ours. Lines:
//!
//! ```text
//! # a comment
//! set tailrace.nats.max.payload.bytes = 64      settings of the server, before the first scene
//! user bob password=b publish=a,b.> !publish=b.x subscribe=.. !subscribe=.. responses=COUNT/MILLISECONDS
//! == title of a scene                           every scene has connections of its own
//! A > SUB foo 1\r\n                             client A writes these bytes, in one write
//! A < MSG foo 1 2\r\n                           A receives exactly these bytes next
//! A silence                                     nothing is on its way to A: the answer to a PING comes first
//! A closed                                      the server closes the connection, and nothing comes before that
//! A refused -ERR 'x'\r\n                         this, then the end; or a reset, for input that was not read throws away what was said
//! A connects                                    opens A and leaves its INFO to be read (else the first mention reads it)
//! A info {"headers":true,"nonce":null}          an INFO comes next, with these fields; "*" any value, null: not there
//! A leaves                                      A closes the connection
//! one-of A B < ...                              exactly one of them receives this, and nothing else is on its way
//! share 100 A B < ...                           100 copies come, distributed among them; each gets some
//! A waits 500                                   milliseconds, for what only time brings about
//! server lame-duck                              the server is told to go away
//! tailrace: A < ...                             a step for one of the two only, where they differ on purpose
//! nats-server: A < ...
//! ```
//!
//! Escapes: `\r \n \t \s` (blank) `\\ \xHH`, `\{4096*a}` repeats, and in what is received `\*` is any word.
//! Whoever is still connected at the end of a scene must be `silence`, unless the scene says `A in the middle` (of a payload).
//! `A < ?` is filled in by recording. Deliberately absent: times. Whatever is late is late by the one deadline.

#![allow(unreachable_pub, reason = "a module of a test binary")]

pub mod pattern;
pub mod player;
pub mod real;
pub mod script;
