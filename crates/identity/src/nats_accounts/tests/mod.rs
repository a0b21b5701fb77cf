//! Tests with claims that the Go libraries of NATS have made (`vectors.json`, by `interop/go/natsclaims`),
//! and of the table of accounts.

mod accounts;
mod callout;
mod claims;
mod cves;
mod mappings;
mod table;
mod templates;
mod vectors;
