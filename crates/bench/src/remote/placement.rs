//! Which agent drives which connections.

use serde::Serialize;

use super::RemoteError;
use crate::systems::Role;

/// Where the two ends of a connection are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On the same agent: one clock.
    #[default]
    Together,
    /// Publishers on the first half of the agents, subscribers on the others: two clocks.
    Apart,
}

/// One agent's share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) role: Role,
    pub(super) connections: Vec<u32>,
    /// The agent that publishes on each connection.
    pub(super) publishers: Vec<usize>,
}

/// Deals connections to agents in turn. With three agents apart, one publishes.
pub(super) fn deal(placement: Placement, agents: usize, connections: u32) -> Result<Vec<Share>, RemoteError> {
    let publishing = match placement {
        Placement::Together => agents,
        Placement::Apart if agents < 2 => {
            let reason = "publishers and subscribers apart need at least two agents";
            return Err(RemoteError::Unsupported(reason.to_owned()));
        }
        Placement::Apart => agents / 2,
    };
    let listening = agents - publishing;
    if (connections as usize) < publishing.max(listening) {
        return Err(RemoteError::Unsupported(format!(
            "{agents} agents for {connections} connections: expected at least one connection for each agent"
        )));
    }
    let share = |role| Share { role, connections: Vec::new(), publishers: Vec::new() };
    let role = if placement == Placement::Together { Role::Both } else { Role::Publisher };
    let mut shares = vec![share(role); publishing];
    shares.resize(agents, share(Role::Subscriber));
    for connection in 0..connections {
        let publisher = connection as usize % publishing;
        let subscriber = (listening > 0).then(|| publishing + connection as usize % listening);
        for agent in std::iter::once(publisher).chain(subscriber) {
            shares[agent].connections.push(connection);
            shares[agent].publishers.push(publisher);
        }
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_each_connection_is_on_one_agent() {
        let shares = deal(Placement::Together, 2, 5).unwrap();
        assert_eq!(shares[0].connections, [0, 2, 4]);
        assert_eq!((shares[1].connections.as_slice(), shares[1].role), (&[1, 3][..], Role::Both));
    }

    #[test]
    fn apart_each_connection_is_on_two() {
        let shares = deal(Placement::Apart, 3, 4).unwrap();
        let roles: Vec<Role> = shares.iter().map(|share| share.role).collect();
        assert_eq!(roles, [Role::Publisher, Role::Subscriber, Role::Subscriber]);
        assert_eq!(shares[0].connections, [0, 1, 2, 3]);
        assert_eq!(
            (shares[2].connections.as_slice(), shares[2].publishers.as_slice()),
            (&[1, 3][..], &[0, 0][..])
        );
        let shares = deal(Placement::Apart, 4, 4).unwrap();
        assert_eq!(
            (shares[3].connections.as_slice(), shares[3].publishers.as_slice()),
            (&[1, 3][..], &[1, 1][..])
        );
    }

    #[test]
    fn what_cannot_be_dealt_is_named() {
        assert!(deal(Placement::Apart, 1, 4).unwrap_err().to_string().contains("at least two agents"));
        let words = deal(Placement::Together, 3, 2).unwrap_err().to_string();
        assert!(words.contains("3 agents for 2 connections"), "{words}");
    }
}
