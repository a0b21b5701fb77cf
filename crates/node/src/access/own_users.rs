//! Users that a front has of its own, by its settings or a file. A name stands for one user at all doors, so
//! no user of the cluster may get the name of one of them.
//!
//! Both ways to two users of one name are closed where that is possible: the command that creates a user asks
//! the node that a client has sent it to, and the controller. And a node does not start with settings that
//! have the name of a user of the cluster. What is left is a user who is created by nodes that have other
//! settings than a node that runs: that node goes on, and logs an error.

use tailrace_metadata::{AccessError, Command, ControlError, MetadataImage, ScramChange};

use crate::node::Node;

/// The users of a front.
pub trait OwnUsers: Send + Sync {
    /// Reports whether there is a user of this name.
    fn has_user(&self, name: &str) -> bool;
}

impl Node {
    /// Returns the refusal of a command that would create a user whose name is taken. What concerns a user
    /// who is there already is not refused: it can be removed.
    pub(super) fn refuses_user(&self, command: &Command) -> Option<ControlError> {
        let users = self.own_users.as_ref()?;
        let name = match command {
            Command::AlterScramCredential { user, change: ScramChange::Set { .. }, .. }
            | Command::CreateFirstUser { user, .. } => user,
            _ => return None,
        };
        let is_taken = self.image().access().user(name).is_none() && users.has_user(name);
        is_taken.then(|| AccessError::UserOfSettings.into())
    }

    /// Returns the names that both a user of the cluster and one of the settings have: all of these metadata,
    /// or the first user, who is about to be created.
    pub fn users_twice(&self, image: &MetadataImage) -> Vec<String> {
        let Some(own) = &self.own_users else { return Vec::new() };
        let users = image.access().users();
        let first = self.config().tailrace_first_user.clone();
        let first = (users.len() == 0 && !first.is_empty()).then_some(first);
        let names = users.map(|user| user.name.as_str().to_owned()).chain(first);
        names.filter(|name| own.has_user(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
    use tailrace_metadata::ControlErrorKind;
    use tempfile::TempDir;

    use super::*;
    use crate::caller::{Caller, Door};
    use crate::controller::CommandError;
    use crate::testing::start_with;
    use crate::{Fronts, RunningNode};

    struct Bob;

    impl OwnUsers for Bob {
        fn has_user(&self, name: &str) -> bool {
            name == "bob"
        }
    }

    fn fronts() -> Fronts {
        Fronts { users: Some(Arc::new(Bob)), ..Fronts::default() }
    }

    fn set(running: &RunningNode, user: &str) -> Command {
        let verifier = ScramVerifier::from_password(ScramMechanism::Sha256, "p", b"salt of 16 bytes", 4096);
        let change = ScramChange::Set { verifier: verifier.unwrap(), keep_previous_until: None };
        let now = running.node().now();
        Command::AlterScramCredential { user: user.to_owned(), change, by: "User:admin".to_owned(), now }
    }

    /// By whichever way: a client's command, one of another node's client, or the first user.
    #[tokio::test]
    async fn no_user_gets_the_name_of_one_of_the_settings() {
        let folder = TempDir::new().unwrap();
        let running = start_with(&folder, &[], fronts()).await;
        let node = running.node();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1000));
        for caller in [Caller::client(Door::Kafka, address), Caller::internal().clone()] {
            let before = node.image();
            let refused = node.execute(&caller, set(&running, "bob")).await;
            let Err(CommandError::Refused(error)) = refused else { panic!("it was made") };
            assert_eq!(error.kind(), ControlErrorKind::UnacceptableCredential);
            assert!(error.to_string().contains("users file"), "{error}");
            assert!(Arc::ptr_eq(&before, &node.image()));
        }
        let verifiers = Vec::new();
        let (user, by, now) = ("bob".to_owned(), "Node:first-user".to_owned(), node.now());
        let first = Command::CreateFirstUser { user, verifiers, by, now };
        assert!(node.execute(Caller::internal(), first).await.is_err());
        node.execute(Caller::internal(), set(&running, "alice")).await.unwrap();
        assert!(node.users_twice(&node.image()).is_empty());
        running.stop().await;
    }

    /// The settings came later: the user can still be changed and removed, and the name is told.
    #[tokio::test]
    async fn a_user_who_was_there_before_the_settings_can_be_removed() {
        let folder = TempDir::new().unwrap();
        let running = start_with(&folder, &[], Fronts::default()).await;
        let node = running.node();
        node.execute(Caller::internal(), set(&running, "bob")).await.unwrap();
        running.stop().await;
        let running = start_with(&folder, &[], fronts()).await;
        let node = running.node();
        assert_eq!(node.users_twice(&node.image()), ["bob"]);
        node.execute(Caller::internal(), set(&running, "bob")).await.unwrap();
        node.execute(Caller::internal(), Command::RemoveUser { user: "bob".to_owned() }).await.unwrap();
        assert!(node.users_twice(&node.image()).is_empty());
        running.stop().await;
    }

    #[tokio::test]
    async fn the_first_user_counts_before_it_is_created() {
        let folder = TempDir::new().unwrap();
        let first = [("tailrace.first.user", "bob"), ("tailrace.first.password", "p")];
        let running = start_with(&folder, &first, fronts()).await;
        let node = running.node();
        assert_eq!(node.users_twice(&node.image()), ["bob"]);
        running.stop().await;
    }
}
