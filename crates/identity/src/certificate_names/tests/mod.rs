//! Names of certificates, compared with what Java and Kafka make of them.

mod rules;
mod subjects;
