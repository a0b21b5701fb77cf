//! Names of certificates, compared with what Java, Kafka and nats-server make of them.

mod nats;
mod rules;
mod subjects;
