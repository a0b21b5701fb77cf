//! Delegation tokens: their times, who may extend them, and what removes them.

use tailrace_metadata::*;
use tailrace_types::TimestampMs;

use crate::access_rig::{Sha256, Sha512, delete, remove, set};
use crate::cluster_rig::Rig;

/// The maximum lifetime and the expiry time of the default settings.
const WEEK: i64 = 604_800_000;
const DAY: i64 = 86_400_000;

fn id(number: u32) -> String {
    format!("{number:022}")
}

fn by(user: &str) -> String {
    format!("User:{user}")
}

fn create(number: u32, owner: &str, requester: &str, max_lifetime_ms: i64, now: i64) -> Command {
    Command::CreateToken {
        id: id(number),
        owner: owner.to_owned(),
        renewers: vec!["renewer".to_owned()],
        max_lifetime_ms,
        by: by(requester),
        now: TimestampMs(now),
    }
}

fn extend(number: u32, end: TokenEnd, user: &str, now: i64) -> Command {
    Command::ExtendToken { id: id(number), end, by: by(user), now: TimestampMs(now) }
}

fn renew(number: u32, period_ms: i64, user: &str, now: i64) -> Command {
    extend(number, TokenEnd::Renewed { period_ms }, user, now)
}

fn expire(number: u32, period_ms: i64, user: &str, now: i64) -> Command {
    extend(number, TokenEnd::Expires { period_ms }, user, now)
}

/// Returns the end and the latest end of a token.
fn times(rig: &Rig, number: u32) -> Option<(i64, i64)> {
    rig.image().access().token(&id(number)).map(|token| (token.expires_at.0, token.max_at.0))
}

fn kind(rig: &mut Rig, command: &Command) -> Option<ControlErrorKind> {
    rig.run(command).err().map(|error| error.kind())
}

#[test]
fn a_token_lasts_as_long_as_the_settings_allow() {
    let mut rig = Rig::alone();
    for (number, lifetime, expected) in [
        (1, -1, (DAY, WEEK)),
        (2, 0, (DAY, WEEK)),
        (3, 1_000, (1_000, 1_000)),
        (4, DAY + 1, (DAY, DAY + 1)),
        (5, WEEK + 1, (DAY, WEEK)),
        (6, i64::MAX, (DAY, WEEK)),
        (7, i64::MIN, (DAY, WEEK)),
    ] {
        rig.run(&create(number, "alice", "alice", lifetime, 10)).unwrap();
        assert_eq!(times(&rig, number), Some((expected.0 + 10, expected.1 + 10)), "{lifetime}");
    }
    let token = rig.image().access().token(&id(1)).cloned().unwrap();
    assert!(!token.is_expired(TimestampMs(DAY + 9)) && token.is_expired(TimestampMs(DAY + 10)));
}

#[test]
fn a_renewal_starts_from_now_and_never_passes_the_maximum() {
    let mut rig = Rig::alone();
    rig.run(&create(1, "alice", "alice", 2 * DAY, 0)).unwrap();
    rig.run(&renew(1, 1_000, "alice", 5)).unwrap();
    assert_eq!(times(&rig, 1), Some((1_005, 2 * DAY)));
    assert_eq!(rig.run(&renew(1, 1_000, "alice", 5)), Ok(0), "nothing changes");
    rig.run(&renew(1, -1, "renewer", 6)).unwrap();
    assert_eq!(times(&rig, 1), Some((DAY + 6, 2 * DAY)));
    rig.run(&renew(1, i64::MAX, "alice", DAY + 5)).unwrap();
    assert_eq!(times(&rig, 1), Some((2 * DAY, 2 * DAY)), "the maximum");
    let expired = Some(ControlErrorKind::TokenExpired);
    assert_eq!(kind(&mut rig, &renew(1, -1, "alice", 2 * DAY)), expired, "to the millisecond");
    assert_eq!(kind(&mut rig, &renew(1, -1, "alice", 2 * DAY - 1)), None);
    // An end may be set later than a renewal would, up to the maximum.
    rig.run(&create(2, "alice", "alice", -1, 0)).unwrap();
    rig.run(&expire(2, 3 * DAY, "alice", 0)).unwrap();
    assert_eq!(times(&rig, 2), Some((3 * DAY, WEEK)));
    rig.run(&expire(2, i64::MAX, "alice", 1)).unwrap();
    assert_eq!(times(&rig, 2), Some((WEEK, WEEK)));
    rig.run(&expire(2, 0, "alice", 7)).unwrap();
    assert_eq!(times(&rig, 2), Some((7, WEEK)));
    assert_eq!(kind(&mut rig, &expire(2, 5, "alice", 7)), expired);
    rig.run(&expire(2, -1, "alice", 8)).unwrap();
    assert_eq!(times(&rig, 2), None, "removed, even though it had ended");
}

#[test]
fn only_owner_requester_and_renewers_extend_a_token() {
    let mut rig = Rig::alone();
    rig.run(&create(1, "alice", "admin", -1, 0)).unwrap();
    for user in ["alice", "admin", "renewer"] {
        assert_eq!(kind(&mut rig, &renew(1, 1_000, user, 1)), None, "{user}");
    }
    let mismatch = Some(ControlErrorKind::TokenOwnerMismatch);
    for user in ["bob", "Alice", "User:alice", "renewers", ""] {
        assert_eq!(kind(&mut rig, &renew(1, 1_000, user, 1)), mismatch, "{user:?}");
        assert_eq!(kind(&mut rig, &expire(1, -1, user, 1)), mismatch, "{user:?}");
        assert_eq!(kind(&mut rig, &expire(1, 5, user, 1)), mismatch, "{user:?}");
    }
    let unknown = Some(ControlErrorKind::UnknownToken);
    assert_eq!(kind(&mut rig, &renew(2, 1_000, "alice", 1)), unknown);
    let nobody = Command::ExtendToken {
        id: id(1),
        end: TokenEnd::Renewed { period_ms: 1 },
        by: "Node:1".to_owned(),
        now: TimestampMs(1),
    };
    assert_eq!(kind(&mut rig, &nobody), Some(ControlErrorKind::InvalidPrincipalType));
    assert_eq!(times(&rig, 1), Some((1_001, WEEK)), "refusals change nothing");
}

/// Changes the id, the owner, the renewers and the maker of a token that is to be created.
type Change = dyn Fn(&mut String, &mut String, &mut Vec<String>, &mut String);

#[test]
fn what_cannot_be_a_token_is_refused() {
    let mut rig = Rig::alone();
    rig.run(&create(1, "alice", "alice", -1, 0)).unwrap();
    let with = |change: &Change| {
        let mut command = create(2, "alice", "alice", -1, 0);
        let Command::CreateToken { id, owner, renewers, by, .. } = &mut command else { unreachable!() };
        change(id, owner, renewers, by);
        command
    };
    let invalid = ControlErrorKind::InvalidRequest;
    for (command, expected) in [
        (with(&|id, _, _, _| *id = self::id(1)), invalid),
        (with(&|id, _, _, _| id.push('0')), invalid),
        (with(&|id, _, _, _| *id = "a line\nfeed 01234567890".to_owned()), invalid),
        (with(&|_, owner, _, _| owner.clear()), invalid),
        (with(&|_, owner, _, _| *owner = "ANONYMOUS".to_owned()), invalid),
        (with(&|_, owner, _, _| *owner = "x".repeat(256)), invalid),
        (with(&|_, _, renewers, _| renewers[0] = "a\nb".to_owned()), invalid),
        (with(&|_, _, _, by| *by = "User:ANONYMOUS".to_owned()), invalid),
        (with(&|_, _, _, by| *by = "Node:1".to_owned()), ControlErrorKind::InvalidPrincipalType),
        (with(&|_, _, renewers, _| *renewers = vec!["r".to_owned(); 101]), ControlErrorKind::Policy),
    ] {
        assert_eq!(kind(&mut rig, &command), Some(expected), "{command:?}");
    }
    assert_eq!(rig.image().access().tokens().len(), 1);
}

#[test]
fn a_user_has_a_bounded_number_of_tokens_and_expired_ones_make_room() {
    let mut rig = Rig::alone();
    for number in 0..1_000 {
        rig.run(&create(number, "alice", "alice", 1_000, 0)).unwrap();
    }
    let full = Some(ControlErrorKind::Policy);
    assert_eq!(kind(&mut rig, &create(1_000, "alice", "alice", -1, 999)), full);
    assert_eq!(kind(&mut rig, &create(1_000, "alice", "bob", -1, 999)), full, "as the owner");
    assert_eq!(kind(&mut rig, &create(1_000, "bob", "alice", -1, 999)), full, "as the requester");
    assert_eq!(kind(&mut rig, &create(1_000, "bob", "bob", -1, 999)), None);
    assert_eq!(rig.run(&create(1_001, "alice", "alice", -1, 1_000)), Ok(1_001), "the others are removed");
    assert_eq!(rig.image().access().tokens().len(), 2);
}

#[test]
fn all_users_together_have_a_bounded_number_of_tokens() {
    let mut rig = Rig::alone();
    for number in 0..10_000 {
        let user = format!("user {}", number / 1_000);
        rig.run(&create(number, &user, &user, -1, 0)).unwrap();
    }
    assert_eq!(kind(&mut rig, &create(10_000, "another", "another", -1, 1)), Some(ControlErrorKind::Policy));
    rig.run(&expire(0, -1, "user 0", 1)).unwrap();
    assert_eq!(kind(&mut rig, &create(10_000, "another", "another", -1, 1)), None);
}

#[test]
fn tokens_end_with_the_user_who_owns_them_or_asked_for_them() {
    let mut rig = Rig::alone();
    for user in ["alice", "bob"] {
        rig.run(&set(user, Sha256, 1, None, 0)).unwrap();
        rig.run(&set(user, Sha512, 1, None, 0)).unwrap();
    }
    rig.run(&create(1, "alice", "alice", -1, 0)).unwrap();
    rig.run(&create(2, "alice", "bob", -1, 0)).unwrap();
    rig.run(&create(3, "bob", "bob", -1, 0)).unwrap();
    rig.run(&create(4, "carol", "carol", -1, 0)).unwrap();
    rig.run(&delete("bob", Sha256, 1)).unwrap();
    assert_eq!(rig.image().access().tokens().len(), 4, "bob still has a password");
    rig.run(&delete("bob", Sha512, 1)).unwrap();
    let left = |rig: &Rig| rig.image().access().tokens().map(|token| token.id.clone()).collect::<Vec<_>>();
    assert_eq!(left(&rig), [id(1), id(4)]);
    rig.run(&remove("alice")).unwrap();
    assert_eq!(left(&rig), [id(4)]);
}

#[test]
fn what_has_expired_is_removed_and_nothing_else() {
    let mut rig = Rig::alone();
    rig.run(&create(1, "alice", "alice", 100, 0)).unwrap();
    rig.run(&create(2, "alice", "alice", 101, 0)).unwrap();
    rig.run(&set("bob", Sha256, 1, None, 0)).unwrap();
    rig.run(&set("bob", Sha256, 2, Some(100), 0)).unwrap();
    let sweep = |now| Command::RemoveExpired { now: TimestampMs(now) };
    assert_eq!(rig.run(&sweep(99)), Ok(0));
    assert_eq!(rig.run(&sweep(100)), Ok(2), "a token and an older password");
    assert_eq!((times(&rig, 1), times(&rig, 2).is_some()), (None, true));
    assert_eq!(rig.image().access().user("bob").unwrap().credentials[0].previous, None);
    assert_eq!(rig.run(&sweep(100)), Ok(0));
}

#[test]
fn commands_about_tokens_are_logged_without_times_and_renewers() {
    assert_eq!(
        create(1, "a\nb", "alice", -1, 0).to_string(),
        format!("CreateToken {} for User:a\\nb", id(1))
    );
    assert_eq!(renew(1, 1, "alice", 0).to_string(), format!("RenewToken {}", id(1)));
    assert_eq!(expire(1, 1, "alice", 0).to_string(), format!("ExpireToken {}", id(1)));
}
