//! Fetches one small document from a web server, such as the keys of an identity provider.
//!
//! HTTP/1.1 over TLS, or without TLS from this machine if the caller allows that. One connection for each
//! fetch, with bounds on its time, on the head of the answer and on the document. Who can change the
//! answer of the server decides who may log in here, so only the address of the settings is asked.
//!
//! Deliberately not here: redirects, compression, proxies, cookies, caches, credentials. A redirect would
//! leave the choice of the server to an answer, and compression makes a small answer a large document.

mod address;
mod error;
mod fetcher;

pub use address::{Address, AddressError, Plain};
pub use error::FetchError;
pub use fetcher::{Fetcher, Limits};
