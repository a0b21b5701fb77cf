//! The topic of the audit log. Rules for topics, and for subjects, say nothing about it: a rule for all
//! topics must not open it, and an administrator must not be able to change what was recorded.

use super::decide::{Authorizer, Decision, Reason, Requester};
use super::{CLUSTER_NAME, Operation, ResourceKind};

impl Authorizer {
    /// Decides on an operation on the topic of the audit log. Super users, and users with ALTER on the
    /// cluster, may read and describe it, and change its settings, of which the controller lets them change
    /// those of its retention. Nobody may do anything else.
    pub(super) fn audit_topic(&self, who: &Requester<'_>, operation: Operation) -> Decision<'_> {
        match operation {
            Operation::Read | Operation::Describe | Operation::DescribeConfigs | Operation::AlterConfigs => {
                let decision = self.decide(who, Operation::Alter, ResourceKind::Cluster, CLUSTER_NAME);
                match decision.reason {
                    Reason::Default { .. } if !decision.allowed => Decision::OF_ADMINISTRATORS,
                    _ => decision,
                }
            }
            _ => Decision::OF_ADMINISTRATORS,
        }
    }
}
