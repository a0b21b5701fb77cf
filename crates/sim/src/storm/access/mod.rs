//! Users, rules, delegation tokens and quotas in a run: who may do what, what the administrator did, and
//! whether nodes acted accordingly.
//!
//! A request is judged by the rules that its node had. They are looked at before it is sent and after it was
//! answered, and if they are the same, it must have been decided by them (`model`). How soon a node has the
//! rules of others is judged apart from that (`census`). Together this is what clients are promised.

mod census;
mod deputy;
mod founding;
mod known;
mod look;
mod model;
mod names;

pub(super) use self::census::Census;
pub(super) use self::deputy::DeputysRight;
pub(super) use self::founding::founding;
pub(super) use self::known::{AccessHistory, Entity, Overdue, now};
pub(super) use self::look::Look;
pub(super) use self::model::{
    GUARDED_GROUP, RULES, Right, Secret, accepts, deputys_right, deputys_rule, is_usual, may, rule,
};
pub(super) use self::names::{ADMIN, DEPUTY, ITERATIONS, MECHANISM, SLOW, STORM, WATCHED, password, salt};
