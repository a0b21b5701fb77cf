//! The enumerations of an ACL, with the codes of Kafka's protocol and the names of Kafka's tools (KIP-11,
//! KIP-290).

/// Defines an enumeration of the protocol: its variants with their codes and names.
macro_rules! coded {
    ($(#[$meta:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// All of them, by code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the code in Kafka's protocol.
            pub const fn code(self) -> i8 {
                match self { $(Self::$variant => $code),* }
            }

            /// Returns the one with this code. `None` for codes that do not name a single one (0 is unknown,
            /// 1 is any), and for those that Kafka 4.3 does not know.
            pub const fn from_code(code: i8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// Returns the name, as in the metadata log and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// Returns the one with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

coded! {
    /// The kind of a resource.
    ResourceKind {
        /// A topic, by name.
        Topic = 2, "topic";
        /// A group of any kind, by id.
        Group = 3, "group";
        /// The cluster. Its only name is [`CLUSTER_NAME`](super::CLUSTER_NAME).
        Cluster = 4, "cluster";
        /// A transactional id.
        TransactionalId = 5, "transactional-id";
        /// A delegation token, by id.
        DelegationToken = 6, "delegation-token";
        /// A principal, as the owner of delegation tokens.
        User = 7, "user";
        /// NATS subjects, as a pattern with wildcards. Kafka does not know this kind: its tools neither see
        /// nor change such rules. The code is ours.
        Subject = 100, "subject";
    }
}

impl ResourceKind {
    /// Reports whether Kafka knows this kind. Only such kinds may be named in Kafka's protocol.
    pub(crate) const fn is_kafkas(self) -> bool {
        !matches!(self, Self::Subject)
    }

    /// Returns the operations that mean something for this kind (Kafka: `AclEntry.supportedOperations`).
    /// Rules may name others, and those do nothing.
    pub const fn operations(self) -> &'static [Operation] {
        use Operation::*;
        match self {
            Self::Topic => &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs],
            Self::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
            Self::Cluster => {
                &[Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite]
            }
            Self::TransactionalId => &[Write, Describe, TwoPhaseCommit],
            Self::DelegationToken => &[Describe],
            Self::User => &[CreateTokens, DescribeTokens],
            Self::Subject => &[Read, Write],
        }
    }
}

coded! {
    /// How a rule's name is compared with the name of a resource.
    PatternKind {
        /// Equal, or `*` for all. For subjects the name is a pattern of NATS.
        Literal = 3, "literal";
        /// The resource's name starts with it. Not for subjects.
        Prefixed = 4, "prefixed";
    }
}

coded! {
    /// What a rule says.
    Permission {
        /// Forbidden. It wins over every [`Permission::Allow`].
        Deny = 2, "deny";
        /// Allowed.
        Allow = 3, "allow";
    }
}

coded! {
    /// An operation on a resource.
    Operation {
        /// Every operation. Only in rules.
        All = 2, "all";
        /// Read: fetch, commit offsets, subscribe.
        Read = 3, "read";
        /// Write: produce, publish.
        Write = 4, "write";
        /// Create.
        Create = 5, "create";
        /// Delete.
        Delete = 6, "delete";
        /// Change anything but settings.
        Alter = 7, "alter";
        /// See that it exists, and its state.
        Describe = 8, "describe";
        /// What only nodes do.
        ClusterAction = 9, "cluster-action";
        /// See its settings.
        DescribeConfigs = 10, "describe-configs";
        /// Change its settings.
        AlterConfigs = 11, "alter-configs";
        /// Get a producer id without a right on any topic.
        IdempotentWrite = 12, "idempotent-write";
        /// Create delegation tokens for another user.
        CreateTokens = 13, "create-tokens";
        /// See the delegation tokens of another user.
        DescribeTokens = 14, "describe-tokens";
        /// Take part in a two-phase commit (KIP-939).
        TwoPhaseCommit = 15, "two-phase-commit";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_lead_back() {
        assert!(Operation::ALL.iter().all(|one| Operation::from_code(one.code()) == Some(*one)));
        assert!(Operation::ALL.iter().all(|one| Operation::from_name(one.name()) == Some(*one)));
        assert!(ResourceKind::ALL.iter().all(|one| ResourceKind::from_code(one.code()) == Some(*one)));
        assert!(ResourceKind::ALL.iter().all(|one| ResourceKind::from_name(one.name()) == Some(*one)));
        for unknown in [0, 1, 16, -1] {
            assert_eq!(Operation::from_code(unknown), None);
        }
        assert_eq!((PatternKind::from_code(2), Permission::from_code(1)), (None, None));
    }
}
