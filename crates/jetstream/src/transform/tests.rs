use super::apply::partition;
use super::*;

fn transformed(source: &str, destination: &str, subject: &str) -> Option<String> {
    Transform::new(source, destination).unwrap().unwrap().apply(subject, 7)
}

/// The first are the examples of nats-server's own tests.
#[test]
fn subjects_are_transformed_as_nats_server_does() {
    let known = [
        ("foo", "bar", "foo", Some("bar")),
        ("foo.*.bar.*.baz", "req.$2.$1", "foo.A.bar.B.baz", Some("req.B.A")),
        ("baz.>", "my.pre.>", "baz.1.2.3", Some("my.pre.1.2.3")),
        ("baz.>", "foo.bar.>", "baz.1.2.3", Some("foo.bar.1.2.3")),
        ("*", "foo.bar.$1", "foo", Some("foo.bar.foo")),
        ("*", "{{splitfromleft(1,3)}}", "12345", Some("123.45")),
        ("*", "{{SplitFromRight(1,3)}}", "12345", Some("12.345")),
        ("*", "{{SliceFromLeft(1,3)}}", "1234567890", Some("123.456.789.0")),
        ("*", "{{SliceFromRight(1,3)}}", "1234567890", Some("1.234.567.890")),
        ("*", "{{split(1,-)}}", "-abc-def--ghi-", Some("abc.def.ghi")),
        ("*", "{{split(1,-)}}", "abc-def--ghi-", Some("abc.def.ghi")),
        ("*.*", "{{split(2,-)}}.{{splitfromleft(1,2)}}", "foo.-abc-def--ghij-", Some("abc.def.ghij.fo.o")),
        ("*", "{{right(1,1)}}", "1234", Some("4")),
        ("*", "{{right(1,3)}}", "1234", Some("234")),
        ("*", "{{right(1,6)}}", "1234", Some("1234")),
        ("*", "{{left(1,1)}}", "1234", Some("1")),
        ("*", "{{left(1,-1)}}", "1234", Some("1234")),
        ("*.bar.*.baz", "{{partition(10,1,2)}}", "foo.bar.x.baz", Some("6")),
        ("a", "b.{{random(5)}}", "a", Some("b.2")),
        ("a", "b.{{random(0)}}", "a", Some("b.0")),
        ("a.*", "$0.{{wildcard(-1)}}", "a.b", Some("a.a")),
        (">", ">", "a..b", Some("a..b")),
        ("a.>", "$KV.>", "a.b", Some("$KV.b")),
        ("foo", "bar", "baz", None),
        ("a.*", "b.$1", "a.>", None),
        ("*", "{{left(1,1)}}", "\u{e9}a", Some("\u{e9}a")),
    ];
    for (source, destination, subject, wanted) in known {
        let found = transformed(source, destination, subject);
        if destination.contains("partition") {
            let hash = partition(b"foox", 10).to_string();
            assert_eq!(found.as_deref(), Some(hash.as_str()));
            continue;
        }
        assert_eq!(found.as_deref(), wanted, "{source} -> {destination} of {subject}");
    }
}

#[test]
fn partitions_are_those_of_fnv_1a() {
    // From nats-server's own test of partitions.
    for (key, wanted) in [("foo", 3), ("baz", 0), ("qux", 2)] {
        let found = partition(key.as_bytes(), 5);
        assert_eq!(found, fnv(key) % 5, "{key} {wanted}");
    }
    assert_eq!(fnv(""), 0x811c_9dc5);
    assert_eq!(fnv("a"), 0xe40c_292c);
    assert_eq!(fnv("foobar"), 0xbf9c_f968);
    assert_eq!(partition(b"a", 0), 0);
    assert_eq!(partition(b"a", -1), 0xe40c_292c);
}

fn fnv(key: &str) -> u32 {
    // The highest number of buckets leaves every hash but one as it is.
    partition(key.as_bytes(), -1)
}

#[test]
fn errors_are_those_of_nats_server() {
    let known = [
        ("a", "b..c", "invalid mapping destination: invalid transform"),
        ("a", "b.>.c", "invalid mapping destination: invalid transform in c"),
        ("a", "b c", "invalid mapping destination: invalid transform"),
        ("a", "b.*", "invalid subject"),
        ("a.>", "b", "invalid subject"),
        ("a..b", "b", "invalid subject"),
        ("*", "{{foo(1)}}", "invalid mapping destination: unknown function in {{foo(1)}}"),
        ("*", "$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        ("a", "$1", "invalid mapping destination: wildcard index out of range in $1"),
        (
            "*",
            "{{wildcard()}}",
            "invalid mapping destination: not enough arguments passed to the function in {{wildcard()}}",
        ),
        (
            "*",
            "{{wildcard(1,2)}}",
            "invalid mapping destination: too many arguments passed to the function in {{wildcard(1,2)}}",
        ),
        (
            "*",
            "{{split(x,-)}}",
            "invalid mapping destination: function argument is invalid or in the wrong format in {{split(x,-)}}",
        ),
    ];
    for (source, destination, wanted) in known {
        let error = validate(source, destination).expect_err(destination);
        assert_eq!(error.to_string(), wanted);
    }
    assert_eq!(validate("a", ""), Ok(()));
    assert_eq!(Transform::new("a", ""), Ok(None));
}
