//! The API keys whose messages are generated. To support another one, add it here and run codegen.

/// API keys whose request and response are generated, ascending.
///
/// Not included: the state of share groups (83 to 87), which nodes ask each other for in their own protocol,
/// streams groups (88, 89), telemetry (71, 72), moving replicas between folders (34), and the traffic between
/// Kafka's own brokers and controllers.
pub(super) const GENERATED: &[i16] = &[
    0, 1, 2, 3, // records
    8, 9, 10, 11, 12, 13, 14, 15, 16, // groups
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 35, 36,
    37, // administration, transactions
    38, 39, 40, 41, // delegation tokens
    42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 55, 57, 60, 61, 64, 65, 66, // more administration
    68, 69, 74, 75, 76, 77, 78, 79, // groups of KIP-848, share groups
    90, 91, 92, // offsets of share groups
];
