//! Rules, as Kafka 4.3.1 reads them. All names are what its `SslPrincipalMapper` returned, except where a
//! test says what differs on purpose.

use crate::UserNameError;
use crate::certificate_names::{CertificateNameError, CertificateNames, PatternError, RuleError};

/// The name that rules give a subject.
fn name(rules: &str, subject: &str) -> Result<String, CertificateNameError> {
    let names = CertificateNames::parse(rules).unwrap_or_else(|error| panic!("{rules}: {error}"));
    names.name(subject).map(|name| name.to_string())
}

#[test]
fn rules_give_the_names_that_kafka_gives() {
    for (rules, subject, expected) in [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        (" DEFAULT , RULE:x/y/", "CN=a,O=b", "CN=a,O=b"),
        (",,DEFAULT,", "CN=a", "CN=a"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=kafka,OU=ServiceUsers,O=x", "kafka"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=duke,OU=Other", "CN=duke,OU=Other"),
        (
            "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
            "CN=Duke,OU=JavaSoft,O=Sun,L=Palo,ST=CA,C=US",
            "duke@javasoft",
        ),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "OU=x,cn=WebShop,O=y", "webshop"),
        ("RULE:CN=(.*)/$1/U", "CN=mÜller", "MÜLLER"),
        ("RULE:CN=(.*)/$1/L", "CN=mÜller", "müller"),
        ("RULE:CN=(.*)/$1/L", "CN=ΑΣ", "ας"),
        ("RULE:.+/x/", "CN=alice", "x"),
        ("RULE:(?i)cn=k(.*)/$1/", "CN=Kx", "x"),
        ("RULE:CN=(.{2})/$1/", "CN=éa", "éa"),
        ("RULE:CN=([äöü]+)/$1/", "CN=äü", "äü"),
        ("RULE:CN=(.*)/$1@$4/", "CN=a", "a@$4"),
        ("RULE:CN=(.*)/$12/", "CN=a", "a2"),
        ("RULE:CN=(.*)/$0/", "CN=a", "CN=a"),
        ("RULE:CN=(.*)/$01/", "CN=a", "a"),
        ("RULE:CN=.*/$0/", "CN=a", "CN=a"),
        (r"RULE:CN=(.*)/\$1/", "CN=a", "$1"),
        (r"RULE:CN=(.*)/a\\$1/", "CN=a", r"a\a"),
        ("RULE:CN=(?<who>.*)/${who}!/", "CN=a", "a!"),
        ("RULE:CN=(a)?(b)?.*/$1-$2/", "CN=bc", "-b"),
        (r"RULE:CN=a\/b/x\/y/", "CN=a/b", "x/y"),
        ("RULE:CN=a,O=(.*)/$1/,DEFAULT", "CN=a,O=b", "b"),
        ("RULE: CN=a/ b /", " CN=a", " b "),
        ("RULE:CN=a/b/L , RULE:CN=c/D/U", "CN=c", "D"),
        ("RULE:CN=(.*)/$1/", r"CN=a\,b", r"a\,b"),
        ("RULE:CN=(a|ab)(c|bcd)(d*)/$1.$2.$3/", "CN=abcd", "a.bcd."),
        ("RULE:CN=[a-z&&[^b]]+/x/", "CN=ac", "x"),
        ("RULE:CN=[]a]+/x/", "CN=]a", "x"),
        (r"RULE:CN=a\-b\#\ c/x/", "CN=a-b# c", "x"),
        ("RULE:CN=(.*)/$1/,RULE:CN=a/b/", "CN=a", "a"),
    ] {
        assert_eq!(name(rules, subject).as_deref(), Ok(expected), "{rules}");
    }
}

#[test]
fn a_subject_that_no_rule_matches_as_a_whole_has_no_name() {
    for (rules, subject) in [
        ("RULE:CN=a/x/", "CN=ab"),
        ("RULE:CN=a/x/", "O=b,CN=a"),
        ("RULE:CN=a|CN=b/x/", "CN=bc"),
        ("RULE:CN=a|CN=b/x/", "CN=ac"),
        ("RULE:CN=([^,]*)/$1/", r"CN=a\,b"),
        (r"RULE:CN=(\w+)/$1/", "CN=müller"),
        (r"RULE:CN=(\d+)/$1/", "CN=١٢"),
        (r"RULE:CN=[\d\-]+/$0/", "CN=١-٢"),
        (r"RULE:CN=\S+/$0/", "CN=a b"),
        ("RULE:cn=a/x/", "CN=a"),
        // The sign for Kelvin is no K unless a pattern asks for Unicode, nor is the long s an s.
        ("RULE:(?i)cn=k/x/", "CN=\u{212a}"),
        ("RULE:(?i:cn)=[a-z]/x/", "CN=\u{17f}"),
    ] {
        assert_eq!(name(rules, subject), Err(CertificateNameError::NoRule), "{rules}");
    }
    assert_eq!(name(r"RULE:CN=[\D]+/x/", "CN=ab").as_deref(), Ok("x"));
    assert_eq!(name(r"RULE:CN=(\W)\s(\D)/$1$2/", "CN=é é").as_deref(), Ok("éé"));
}

/// Kafka replaces every match within the subject. These rules give odd names there, or fail at each login.
#[test]
fn rules_are_applied_once_and_those_that_fail_in_kafka_are_refused() {
    assert_eq!(name("RULE:.*/x/", "CN=alice").as_deref(), Ok("x"), "xx in Kafka");
    assert_eq!(name("RULE:(.*)/$1@r/", "CN=alice").as_deref(), Ok("CN=alice@r"), "CN=alice@r@r in Kafka");
    assert_eq!(name("RULE:CN=(.*?)/x$1/", "CN=alice").as_deref(), Ok("xalice"));
    for replacement in ["$1", "a$", "a$x", "${", "${}", "${who}", "$ 1"] {
        let rules = format!("RULE:CN=.*/{replacement}/");
        assert_eq!(
            CertificateNames::parse(&rules).unwrap_err(),
            RuleError::Replacement { rule: 1 },
            "{rules}"
        );
    }
    assert_eq!(CertificateNames::parse("").unwrap_err(), RuleError::NoRule);
    assert_eq!(CertificateNames::parse(" , ,").unwrap_err(), RuleError::NoRule);
}

#[test]
fn what_kafka_takes_for_no_rule_is_refused() {
    for (rules, rule) in [
        ("RULE:CN=a/b", 1),
        ("RULE:CN=a/b/c", 1),
        ("RULE:CN=a/b/Lx", 1),
        ("RULE:CN=a/b/LU", 1),
        ("RULE:CN=a/b/ L", 1),
        ("RULE:CN=a/b/L DEFAULT", 1),
        ("RULE:CN=a/b/é", 1),
        ("DEFAULTx", 1),
        ("default", 1),
        ("RULE CN=a/b/", 1),
        ("RULE:", 1),
        ("RULE:CN=a/b/,foo", 2),
        (",DEFAULT,RULE:CN=a\\", 2),
    ] {
        assert_eq!(CertificateNames::parse(rules).unwrap_err(), RuleError::Form { rule }, "{rules}");
    }
}

#[test]
fn syntax_that_java_has_and_this_does_not_or_that_differs_is_refused() {
    let refused = |pattern: &str| match CertificateNames::parse(&format!("DEFAULT,RULE:{pattern}/x/")) {
        Err(RuleError::Pattern { rule: 2, error }) => error,
        other => panic!("{pattern}: {other:?}"),
    };
    for pattern in [
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)b",
        r"(a)\1",
        r"(?<n>a)\k<n>",
        "(?>a)",
        r"\Qa\E",
        r"\Ga",
        r"a\Z",
        r"\ha",
        r"\R",
        r"\X",
        r"\cA",
        r"\01",
        "(a",
        "a)",
        "a)(b",
        "[a",
        "*a",
        "a{2",
        "(?d)a",
        r"[\b]",
    ] {
        assert!(matches!(refused(pattern), PatternError::Syntax { .. }), "{pattern}");
    }
    for (pattern, expected) in [
        ("a.*+b", ".*+"),
        ("a++", "a++"),
        ("(?:b)?+", "(?:b)?+"),
        ("a{1,2}+", "a{1,2}+"),
        (r"a\v", r"\v"),
        (r"[a\v]", r"\v"),
        (r"[\v-a]", r"\v"),
        (r"\<a", r"\<"),
        (r"a\>", r"\>"),
        (r"\b{start}a", r"\b{start}"),
        (r"\p{Lower}", r"\p{Lower}"),
        (r"[\PL]", r"\PL"),
        ("[[:alpha:]]", "[:alpha:]"),
        ("[a-z--b]", "a-z--b"),
        ("[a-z~~b]", "a-z~~b"),
        ("(?U)a", "U"),
        ("(?u:a)", "u"),
        ("(?i-x:a)", "x"),
        ("(?R)a", "R"),
        ("(?i)b[aä]", "ä"),
        (r"(?i:a)\u00e4", r"\u00e4"),
        ("é[a-z](?i)", "é"),
        ("(?i)[a-é]", "é"),
    ] {
        assert_eq!(refused(pattern), PatternError::NotAsInJava { found: expected.to_owned() }, "{pattern}");
    }
    for pattern in [r"\x41\u0042[\x43]", r"\A\bCN\B\z", "(?is:a)(?m)b", r"a+?[+*]*", "a{2}b{3,}"] {
        assert!(CertificateNames::parse(&format!("RULE:{pattern}/x/")).is_ok(), "{pattern}");
    }
}

#[test]
fn rules_are_bounded() {
    let parse = |rules: &str| CertificateNames::parse(rules).map(|_| ());
    let long = "x".repeat(16_385);
    assert_eq!(parse(&long), Err(RuleError::TooLong { found: 16_385 }));
    assert_eq!(parse(&vec!["DEFAULT"; 64].join(",")), Ok(()));
    assert_eq!(parse(&vec!["DEFAULT"; 65].join(",")), Err(RuleError::TooMany));
    for pattern in ["(a{100}){100}{100}", "(.{1,100}){1,100}"] {
        let found = parse(&format!("RULE:{pattern}/x/"));
        assert!(matches!(found, Err(RuleError::Pattern { .. })), "{pattern}: {found:?}");
    }
    let too_large = parse("RULE:(.{1,100}){1,100}/x/");
    assert_eq!(too_large, Err(RuleError::Pattern { rule: 1, error: PatternError::TooLarge }));
    let nested = format!("RULE:{}a{}/x/", "(".repeat(33), ")".repeat(33));
    assert!(matches!(parse(&nested), Err(RuleError::Pattern { .. })));
    // Exponential in Java.
    let subject = format!("CN={}b", "a".repeat(16_000));
    assert_eq!(name("RULE:CN=(a+)+(a|a)*/x/", &subject), Err(CertificateNameError::NoRule));
    let found = 16_385;
    assert_eq!(name("DEFAULT", &"a".repeat(found)), Err(CertificateNameError::TooLong { found }));
}

#[test]
fn names_that_no_user_may_have_are_refused() {
    for (rules, subject, expected) in [
        ("RULE:CN=(.*)/$1/", "CN=", UserNameError::Empty),
        ("RULE:CN=a// ", "CN=a", UserNameError::Empty),
        ("DEFAULT", "", UserNameError::Empty),
        ("RULE:CN=(.*)/$1/", "CN=*", UserNameError::Reserved),
        ("RULE:CN=(.*)/$1/U", "CN=anonymous", UserNameError::Reserved),
        ("DEFAULT", r"CN=a\;User:admin", UserNameError::Character),
        ("DEFAULT", &"a".repeat(256), UserNameError::TooLong { found: 256 }),
    ] {
        assert_eq!(name(rules, subject), Err(CertificateNameError::Name(expected)), "{rules} {subject}");
    }
    for subject in ["CN=a\nb", "CN=a,O=\r", "CN=\u{85}", "CN=\u{2028}", "CN=a\0"] {
        assert_eq!(name("RULE:(?s)CN=.*/x/", subject), Err(CertificateNameError::Character), "{subject:?}");
    }
}

/// Otherwise the certificates of two subjects would give the same name.
#[test]
fn a_letter_that_becomes_one_of_ascii_is_refused() {
    for (rules, subject) in [
        ("RULE:CN=(.*)/$1/L", "CN=\u{212a}afka"),
        ("RULE:CN=(.*)/$1/L", "CN=\u{130}"),
        ("RULE:CN=(.*)/$1/U", "CN=adm\u{131}n"),
        ("RULE:CN=(.*)/$1/U", "CN=\u{17f}"),
        ("RULE:CN=(.*)/$1/U", "CN=ß"),
    ] {
        assert_eq!(name(rules, subject), Err(CertificateNameError::Case), "{subject}");
        let as_is = rules.trim_end_matches(['L', 'U']);
        assert_eq!(name(as_is, subject).as_deref(), Ok(&subject[3..]));
    }
}

/// Patterns and replacements made of the pieces that have a meaning in them.
#[test]
fn no_random_rule_makes_the_parser_panic() {
    let mut state: u64 = 3;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let letters: Vec<char> = r"RULE:/(),$1\dwsv[]^-&~{}?*+|.aé<>iULDEFAULT".chars().collect();
    let mut accepted = 0;
    for _ in 0..5_000 {
        let body: String = (0..below(24)).map(|_| letters[below(letters.len())]).collect();
        for rules in [format!("RULE:{body}"), format!("RULE:{body}/$1/"), body] {
            if let Ok(names) = CertificateNames::parse(&rules) {
                let _ = names.name("CN=aé1 ,O=x");
                accepted += 1;
            }
        }
    }
    assert!(accepted > 0);
}
