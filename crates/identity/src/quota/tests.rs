use std::collections::BTreeMap;

use super::QuotaKey::{
    ConnectionCreationRate, ConsumerByteRate, ControllerMutationRate, ProducerByteRate, RequestPercentage,
};
use super::*;

/// Reads an entity: parts such as `user=a` or `client-id=` (the default), separated by commas. `""` is an
/// empty name.
fn entity(text: &str) -> QuotaEntity {
    QuotaEntity::from_parts(parts(text)).unwrap()
}

fn parts(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    text.split_terminator(',').map(|part| match part.split_once('=').unwrap() {
        (entity_type, "") => (entity_type, None),
        (entity_type, "\"\"") => (entity_type, Some("")),
        (entity_type, name) => (entity_type, Some(name)),
    })
}

fn alteration(text: &str, changes: &[(QuotaKey, Option<f64>)]) -> QuotaAlteration {
    QuotaAlteration { entity: entity(text), changes: changes.to_vec() }
}

/// A table in which the producers of each entity have this limit.
fn quotas(limits: &[(&str, f64)]) -> Quotas {
    let mut quotas = Quotas::default();
    for (text, limit) in limits {
        assert_eq!(quotas.alter(&alteration(text, &[(ProducerByteRate, Some(*limit))])), Ok(true), "{text}");
    }
    quotas
}

#[test]
fn entities_are_read_and_refused_with_the_texts_of_kafka() {
    for text in ["user=a", "user=", "client-id=c", "client-id=", "user=a,client-id=", "ip=", "ip=::1"] {
        let parsed = entity(text);
        assert_eq!(parsed.parts().collect::<Vec<_>>(), parts(text).collect::<Vec<_>>());
    }
    assert_eq!(entity("ip=0:0:0:0:0:0:0:1"), entity("ip=::1"));
    assert_eq!(entity("ip=::ffff:10.0.0.1"), entity("ip=10.0.0.1"));
    let long = "x".repeat(1025);
    let long = format!("user={long}");
    for (text, expected) in [
        ("", "Invalid empty client quota entity"),
        ("user=\"\"", "Empty user not supported"),
        ("client-id=\"\"", "Empty client-id not supported"),
        ("user=,user=a", "Invalid client quota entity, duplicate entity entry user"),
        ("group=a", "Unhandled client quota entity type: group"),
        ("ip=localhost", "\"localhost\" is not a valid IP"),
        ("ip=10.0.0.0/8", "\"10.0.0.0/8\" is not a valid IP"),
        ("ip=,user=", "Invalid quota entity combination"),
        (&long, "The name of a user has at most 1024 bytes, not 1025"),
    ] {
        let error = QuotaEntity::from_parts(parts(text)).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn limits_must_fit_their_keys_and_entities() {
    for (text, key, limit) in [
        ("user=a", ProducerByteRate, 1.0),
        ("client-id=", ConsumerByteRate, 9.2e18),
        ("user=,client-id=", RequestPercentage, 0.5),
        ("user=a", ControllerMutationRate, 1e300),
        ("ip=10.0.0.1", ConnectionCreationRate, 2_147_483_647.0),
        // Kafka does not see such a fraction.
        ("user=a", ProducerByteRate, 1_000.000_000_9),
    ] {
        assert_eq!(alteration(text, &[(key, Some(limit))]).check(), Ok(()), "{text} {key:?} {limit}");
    }
    for (text, key, limit, expected) in [
        ("user=a", ProducerByteRate, 0.0, "Quota producer_byte_rate must be greater than 0"),
        ("user=a", ConsumerByteRate, -1.0, "Quota consumer_byte_rate must be greater than 0"),
        ("user=a", RequestPercentage, f64::NAN, "Quota request_percentage must be greater than 0"),
        ("user=a", ProducerByteRate, 1.5, "producer_byte_rate cannot be a fractional value."),
        ("ip=", ConnectionCreationRate, 1.5, "connection_creation_rate cannot be a fractional value."),
        ("user=a", ProducerByteRate, 1e19, "Proposed value for producer_byte_rate is too large for a LONG."),
        (
            "ip=",
            ConnectionCreationRate,
            3e9,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        ("user=a", RequestPercentage, f64::INFINITY, "Proposed value for request_percentage is too large"),
        ("user=a", ConnectionCreationRate, 1.0, "Invalid configuration key connection_creation_rate"),
        ("ip=::1", ProducerByteRate, 1.0, "Invalid configuration key producer_byte_rate"),
    ] {
        let refused = alteration(text, &[(key, Some(limit))]);
        let error = refused.check().unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(
            Quotas::default().alter(&refused).map_err(|error| error.to_string()),
            Err(error.to_string())
        );
    }
    let error = QuotaKey::parse("compression").unwrap_err();
    assert_eq!(error.to_string(), "Invalid configuration key compression");
    assert_eq!(QuotaKey::parse("request_percentage"), Ok(RequestPercentage));
}

#[test]
fn an_alteration_happens_as_a_whole_or_not_at_all() {
    let mut quotas = quotas(&[("user=a", 10.0)]);
    let before = quotas.clone();
    let (twice, fraction) = (
        alteration("user=a", &[(ProducerByteRate, None), (ProducerByteRate, Some(2.0))]),
        alteration("user=a", &[(ProducerByteRate, None), (ConsumerByteRate, Some(0.5))]),
    );
    assert_eq!(quotas.alter(&twice), Err(QuotaError::KeyTwice { key: "producer_byte_rate" }));
    assert_eq!(quotas.alter(&fraction), Err(QuotaError::Fraction { key: "consumer_byte_rate" }));
    assert_eq!(quotas, before);
    let same = alteration("user=a", &[(ProducerByteRate, Some(10.0)), (RequestPercentage, None)]);
    assert_eq!(quotas.alter(&same), Ok(false));
    assert_eq!(quotas.alter(&alteration("user=b,client-id=c", &[(RequestPercentage, None)])), Ok(false));
    assert_eq!(quotas, before);
    assert_eq!(quotas.alter(&alteration("user=a", &[(ProducerByteRate, None)])), Ok(true));
    assert!(quotas.is_empty() && quotas.iter().next().is_none());
}

/// The eight kinds of entities, the most important first, with their buckets for `a` and `c`.
const PRECEDENCE: [(&str, Option<&str>, Option<&str>, bool); 8] = [
    ("user=a,client-id=c", Some("a"), Some("c"), false),
    ("user=a,client-id=", Some("a"), Some("c"), true),
    ("user=a", Some("a"), None, false),
    ("user=,client-id=c", Some("a"), Some("c"), false),
    ("user=,client-id=", Some("a"), Some("c"), true),
    ("user=", Some("a"), None, false),
    ("client-id=c", None, Some("c"), false),
    ("client-id=", None, Some("c"), true),
];

#[test]
fn the_closest_quota_decides_and_names_the_bucket() {
    for (first, (_, user, client_id, is_for_any_client)) in PRECEDENCE.into_iter().enumerate() {
        let bucket = Bucket { user, client_id };
        let expected = Quota { limit: first as f64 + 1.0, bucket, is_for_any_client };
        // The first of these decides, whichever of the others are there.
        for others in 0..1 << (7 - first) {
            let present = (first..8).filter(|at| *at == first || others >> (at - first - 1) & 1 == 1);
            let limits: Vec<_> = present.map(|at| (PRECEDENCE[at].0, at as f64 + 1.0)).collect();
            assert_eq!(quotas(&limits).quota(ProducerByteRate, "a", "c"), Some(expected), "{limits:?}");
            assert_eq!(quotas(&limits).quota(ConsumerByteRate, "a", "c"), None);
        }
    }
}

#[test]
fn each_key_has_its_own_precedence() {
    let mut quotas = quotas(&[("user=a", 10.0)]);
    quotas.alter(&alteration("user=", &[(ConsumerByteRate, Some(20.0))])).unwrap();
    let limit = |key, user| quotas.quota(key, user, "c").map(|quota| quota.limit);
    assert_eq!((limit(ProducerByteRate, "a"), limit(ConsumerByteRate, "a")), (Some(10.0), Some(20.0)));
    assert_eq!((limit(ProducerByteRate, "b"), limit(ConsumerByteRate, "b")), (None, Some(20.0)));
}

#[test]
fn clients_of_one_user_share_a_bucket_and_clients_without_an_id_are_not_exempt() {
    let of_user = quotas(&[("user=a", 10.0)]);
    let bucket = |quotas: &Quotas, user, client_id| {
        let quota = quotas.quota(ProducerByteRate, user, client_id)?;
        Some((quota.bucket.user.map(str::to_owned), quota.bucket.client_id.map(str::to_owned)))
    };
    assert_eq!(bucket(&of_user, "a", "c"), bucket(&of_user, "a", "d"));
    assert_eq!(bucket(&of_user, "b", "c"), None);
    let of_pairs = quotas(&[("user=,client-id=", 10.0)]);
    assert_ne!(bucket(&of_pairs, "a", "c"), bucket(&of_pairs, "a", "d"));
    assert_ne!(bucket(&of_pairs, "a", "c"), bucket(&of_pairs, "b", "c"));
    assert!(bucket(&of_pairs, "a", "").is_some());
    let of_clients = quotas(&[("client-id=", 10.0)]);
    assert_eq!(bucket(&of_clients, "a", "c"), bucket(&of_clients, "b", "c"));
    assert!(bucket(&of_clients, "ANONYMOUS", "").is_some());
}

#[test]
fn addresses_are_compared_as_addresses() {
    let mut quotas = Quotas::default();
    for (text, limit) in [("ip=", 5.0), ("ip=10.0.0.1", 7.0), ("ip=2001:db8::1", 9.0)] {
        quotas.alter(&alteration(text, &[(ConnectionCreationRate, Some(limit))])).unwrap();
    }
    let rate = |quotas: &Quotas, text: &str| quotas.connection_rate(text.parse().unwrap());
    assert_eq!(rate(&quotas, "10.0.0.1"), Some(7.0));
    assert_eq!(rate(&quotas, "::ffff:10.0.0.1"), Some(7.0));
    assert_eq!(rate(&quotas, "2001:db8:0::1"), Some(9.0));
    assert_eq!(rate(&quotas, "10.0.0.2"), Some(5.0));
    let unnamed =
        QuotaEntity { ip: Some(EntityName::Named("0::ffff:10.0.0.1".into())), ..QuotaEntity::default() };
    let removal = QuotaAlteration { entity: unnamed, changes: vec![(ConnectionCreationRate, None)] };
    assert_eq!((quotas.alter(&removal), rate(&quotas, "10.0.0.1")), (Ok(true), Some(5.0)));
    quotas.alter(&alteration("ip=", &[(ConnectionCreationRate, None)])).unwrap();
    assert_eq!((rate(&quotas, "10.0.0.1"), quotas.len()), (None, 1));
}

/// Reads a filter: `user=NAME`, `user=` for the default, `user=*` for any.
fn filter(text: &str, strict: bool) -> Result<QuotaFilter, QuotaError> {
    let parts = text.split_terminator(',').map(|part| {
        let (entity_type, name) = part.split_once('=').unwrap();
        let name = match name {
            "" => NameFilter::Default,
            "*" => NameFilter::Any,
            name => NameFilter::Exact(name.to_owned()),
        };
        (entity_type, name)
    });
    QuotaFilter::from_parts(parts, strict)
}

#[test]
fn filters_select_by_name_by_default_or_any_and_strict_ones_no_further_parts() {
    let mut quotas = quotas(&PRECEDENCE.map(|(text, ..)| (text, 1.0)));
    for text in ["ip=", "ip=10.0.0.1"] {
        quotas.alter(&alteration(text, &[(ConnectionCreationRate, Some(1.0))])).unwrap();
    }
    for (text, strict, expected) in [
        (
            "",
            false,
            &[
                "user=a",
                "user=a,client-id=",
                "user=a,client-id=c",
                "user=",
                "user=,client-id=",
                "user=,client-id=c",
                "client-id=",
                "client-id=c",
                "ip=10.0.0.1",
                "ip=",
            ][..],
        ),
        ("", true, &[]),
        ("user=a", false, &["user=a", "user=a,client-id=", "user=a,client-id=c"]),
        ("user=a", true, &["user=a"]),
        ("user=b", false, &[]),
        ("user=", false, &["user=", "user=,client-id=", "user=,client-id=c"]),
        ("user=", true, &["user="]),
        ("user=*", true, &["user=a", "user="]),
        ("user=a,client-id=*", true, &["user=a,client-id=", "user=a,client-id=c"]),
        ("user=*,client-id=c", false, &["user=a,client-id=c", "user=,client-id=c"]),
        ("client-id=c", true, &["client-id=c"]),
        ("client-id=c", false, &["user=a,client-id=c", "user=,client-id=c", "client-id=c"]),
        ("ip=*", false, &["ip=10.0.0.1", "ip="]),
        ("ip=::ffff:10.0.0.1", true, &["ip=10.0.0.1"]),
        ("ip=", true, &["ip="]),
    ] {
        let filter = filter(text, strict).unwrap();
        let found: Vec<_> = quotas.describe(&filter).map(|(entity, _)| entity).collect();
        assert_eq!(found, expected.iter().map(|text| entity(text)).collect::<Vec<_>>(), "{text} {strict}");
    }
}

#[test]
fn filters_that_make_no_sense_are_refused() {
    for (text, expected) in [
        ("=a", QuotaError::EmptyFilterType),
        ("group=a", QuotaError::UnknownFilterType { entity_type: "group".into() }),
        ("user=a,user=", QuotaError::FilterTypeTwice { entity_type: "user".into() }),
        ("ip=,user=a", QuotaError::FilterAddressCombined),
        ("client-id=a,ip=*", QuotaError::FilterAddressCombined),
    ] {
        assert_eq!(filter(text, false), Err(expected), "{text}");
    }
    for (code, name, expected) in [
        (0, Some("a"), Ok(NameFilter::Exact("a".into()))),
        (0, None, Err(QuotaError::FilterName { code: 0 })),
        (1, None, Ok(NameFilter::Default)),
        (1, Some("a"), Err(QuotaError::FilterName { code: 1 })),
        (2, None, Ok(NameFilter::Any)),
        (2, Some("a"), Err(QuotaError::FilterName { code: 2 })),
        (3, None, Err(QuotaError::FilterMatch { code: 3 })),
    ] {
        assert_eq!(NameFilter::from_code(code, name), expected);
    }
}

/// Holds the table against a plain map while quotas come and go.
#[test]
fn the_table_is_a_map_of_entities() {
    const ENTITIES: [&str; 14] = [
        "user=a",
        "user=b",
        "user=",
        "user=a,client-id=c",
        "user=a,client-id=d",
        "user=a,client-id=",
        "user=b,client-id=c",
        "user=,client-id=c",
        "user=,client-id=",
        "client-id=c",
        "client-id=d",
        "client-id=",
        "ip=10.0.0.1",
        "ip=",
    ];
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % bound
    };
    let (mut quotas, mut map) = (Quotas::default(), BTreeMap::new());
    for _ in 0..3000 {
        let text = ENTITIES[below(14) as usize];
        let key =
            if text.starts_with("ip") { ConnectionCreationRate } else { QuotaKey::ALL[below(2) as usize] };
        let limit = (below(3) > 0).then(|| below(3) as f64 + 1.0);
        let before = match limit {
            Some(limit) => map.insert((text, key), limit),
            None => map.remove(&(text, key)),
        };
        assert_eq!(quotas.alter(&alteration(text, &[(key, limit)])), Ok(before != limit));
        for text in ENTITIES {
            let expected =
                map.iter().filter(|((own, _), _)| *own == text).map(|((_, key), limit)| (*key, *limit));
            assert!(quotas.limits(&entity(text)).iter().eq(expected), "{text} {map:?}");
        }
        let entities = ENTITIES.iter().filter(|text| map.keys().any(|(own, _)| own == *text));
        assert_eq!((quotas.len(), quotas.is_empty()), (entities.count(), map.is_empty()));
        for (user, client_id) in
            [("a", "c"), ("a", "x"), ("b", "c"), ("b", "d"), ("x", "d"), ("x", ""), ("a", "")]
        {
            let asked = [
                format!("user={user},client-id={client_id}"),
                format!("user={user},client-id="),
                format!("user={user}"),
                format!("user=,client-id={client_id}"),
                "user=,client-id=".to_owned(),
                "user=".to_owned(),
                format!("client-id={client_id}"),
                "client-id=".to_owned(),
            ];
            let expected = asked.iter().find_map(|text| map.get(&(text.as_str(), ProducerByteRate)));
            let found = quotas.quota(ProducerByteRate, user, client_id).map(|quota| quota.limit);
            assert_eq!(found.as_ref(), expected, "{user} {client_id} {map:?}");
        }
    }
    let mut again = Quotas::default();
    for (entity, limits) in quotas.iter() {
        let changes = limits.iter().map(|(key, limit)| (key, Some(limit))).collect();
        again.alter(&QuotaAlteration { entity, changes }).unwrap();
    }
    assert_eq!(again, quotas);
}
