//! The table of all quotas.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::check::parse_address;
use super::{EntityName, QuotaAlteration, QuotaEntity, QuotaError, QuotaFilter, QuotaKey};

/// The limits of one entity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits([Option<f64>; QuotaKey::ALL.len()]);

impl Limits {
    /// Returns a limit. Always positive and finite.
    pub fn get(&self, key: QuotaKey) -> Option<f64> {
        self.0[key as usize]
    }

    /// Returns all limits, by key.
    pub fn iter(&self) -> impl Iterator<Item = (QuotaKey, f64)> {
        QuotaKey::ALL.into_iter().filter_map(|key| self.get(key).map(|limit| (key, limit)))
    }

    /// Reports whether there is no limit.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// The bucket that a request is charged to. All requests with an equal bucket share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket<'a> {
    /// The user. `None` if all users share the bucket.
    pub user: Option<&'a str>,
    /// The client id. `None` if all client ids share the bucket.
    pub client_id: Option<&'a str>,
}

/// The quota for a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota<'a> {
    /// The limit. Always positive and finite.
    pub limit: f64,
    /// What to charge. A quota of a user alone is one bucket for all client ids. A default for users is one
    /// bucket for each user.
    pub bucket: Bucket<'a>,
    /// Whether the quota is for all client ids without their own. Each of them has a bucket, and clients
    /// choose their ids. The owner of the buckets must bound their number.
    pub is_for_any_client: bool,
}

/// Quotas that are for the same user, or the default for users, or for no user.
#[derive(Clone, Debug, Default, PartialEq)]
struct Scope {
    /// Of the user alone. Empty if there is no user.
    own: Limits,
    default_client: Limits,
    clients: BTreeMap<String, Limits>,
}

/// All quotas. The owner bounds the number of entities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quotas {
    users: BTreeMap<String, Scope>,
    default_user: Scope,
    no_user: Scope,
    addresses: BTreeMap<IpAddr, Limits>,
    default_address: Limits,
}

impl Quotas {
    /// Changes the quotas of an entity. Returns whether that changed anything.
    ///
    /// # Errors
    /// The alteration does not pass [`QuotaAlteration::check`], and nothing changed.
    pub fn alter(&mut self, alteration: &QuotaAlteration) -> Result<bool, QuotaError> {
        alteration.check()?;
        let entity = &alteration.entity;
        let place = self.place(entity)?;
        let before = *place;
        for (key, limit) in &alteration.changes {
            place.0[*key as usize] = *limit;
        }
        let is_changed = *place != before;
        if place.is_empty() {
            self.tidy(entity);
        }
        Ok(is_changed)
    }

    /// Returns the quota for a request. Of several quotas with this key, the first of these is for it: user
    /// and client id, user and default client id, user; the same for the default user; client id; default
    /// client id.
    ///
    /// The user is the name of the principal, `ANONYMOUS` for clients that did not log in. A client without
    /// an id has an empty one. Unlike in Kafka, a default for client ids is for that one, too: otherwise, it
    /// would be a way around the quota.
    pub fn quota<'a>(&self, key: QuotaKey, user: &'a str, client_id: &'a str) -> Option<Quota<'a>> {
        let with_user = [self.users.get(user), Some(&self.default_user)];
        let scopes = with_user.into_iter().flatten().map(|scope| (scope, Some(user)));
        scopes.chain([(&self.no_user, None)]).find_map(|(scope, user)| scope.quota(key, user, client_id))
    }

    /// Returns how many connections per second an address may open.
    pub fn connection_rate(&self, address: IpAddr) -> Option<f64> {
        let key = QuotaKey::ConnectionCreationRate;
        let own = self.addresses.get(&address.to_canonical()).and_then(|limits| limits.get(key));
        own.or_else(|| self.default_address.get(key))
    }

    /// Returns the limits of exactly this entity. Empty if it has none.
    pub fn limits(&self, entity: &QuotaEntity) -> Limits {
        let scope = match &entity.user {
            Some(EntityName::Named(user)) => self.users.get(user),
            Some(EntityName::Default) => Some(&self.default_user),
            None => Some(&self.no_user),
        };
        let limits = match (&entity.ip, &entity.client_id) {
            (Some(EntityName::Default), _) => Some(&self.default_address),
            (Some(EntityName::Named(text)), _) => {
                parse_address(text).ok().and_then(|address| self.addresses.get(&address))
            }
            (None, Some(EntityName::Named(client_id))) => {
                scope.and_then(|scope| scope.clients.get(client_id))
            }
            (None, Some(EntityName::Default)) => scope.map(|scope| &scope.default_client),
            (None, None) => scope.map(|scope| &scope.own),
        };
        limits.copied().unwrap_or_default()
    }

    /// Returns the entities that a filter selects, with their limits, in the order of [`Quotas::iter`].
    pub fn describe(&self, filter: &QuotaFilter) -> impl Iterator<Item = (QuotaEntity, Limits)> {
        self.iter().filter(|(entity, _)| filter.matches(entity))
    }

    /// Returns all entities with their limits: users, the default user, client ids, addresses. The order does
    /// not depend on the order of changes.
    pub fn iter(&self) -> impl Iterator<Item = (QuotaEntity, Limits)> {
        let users = self.users.iter().map(|(user, scope)| (Some(EntityName::Named(user.clone())), scope));
        let scopes = users.chain([(Some(EntityName::Default), &self.default_user), (None, &self.no_user)]);
        let addresses = self.addresses.iter();
        let addresses = addresses.map(|(address, limits)| (EntityName::Named(address.to_string()), limits));
        let addresses = addresses.chain([(EntityName::Default, &self.default_address)]);
        let with_address = |(ip, limits): (EntityName, &Limits)| {
            (QuotaEntity { ip: Some(ip), ..QuotaEntity::default() }, *limits)
        };
        scopes
            .flat_map(|(user, scope)| scope.iter(user))
            .chain(addresses.map(with_address))
            .filter(|(_, limits)| !limits.is_empty())
    }

    /// Returns the number of entities.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Reports whether there are no quotas.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns where the limits of an entity lie, and makes that place if it is missing.
    fn place(&mut self, entity: &QuotaEntity) -> Result<&mut Limits, QuotaError> {
        match &entity.ip {
            Some(EntityName::Default) => return Ok(&mut self.default_address),
            Some(EntityName::Named(text)) => {
                return Ok(self.addresses.entry(parse_address(text)?).or_default());
            }
            None => {}
        }
        let scope = match &entity.user {
            Some(EntityName::Named(user)) => self.users.entry(user.clone()).or_default(),
            Some(EntityName::Default) => &mut self.default_user,
            None => &mut self.no_user,
        };
        Ok(match &entity.client_id {
            Some(EntityName::Named(client_id)) => scope.clients.entry(client_id.clone()).or_default(),
            Some(EntityName::Default) => &mut scope.default_client,
            None => &mut scope.own,
        })
    }

    /// Removes the place of an entity that has no limits.
    fn tidy(&mut self, entity: &QuotaEntity) {
        if let Some(EntityName::Named(text)) = &entity.ip {
            if let Ok(address) = parse_address(text) {
                self.addresses.remove(&address);
            }
            return;
        }
        let scope = match &entity.user {
            Some(EntityName::Named(user)) => self.users.get_mut(user),
            Some(EntityName::Default) => Some(&mut self.default_user),
            None => Some(&mut self.no_user),
        };
        if let (Some(scope), Some(EntityName::Named(client_id))) = (scope, &entity.client_id) {
            scope.clients.remove(client_id);
        }
        if let Some(EntityName::Named(user)) = &entity.user
            && self.users.get(user) == Some(&Scope::default())
        {
            self.users.remove(user);
        }
    }
}

impl Scope {
    fn quota<'a>(&self, key: QuotaKey, user: Option<&'a str>, client_id: &'a str) -> Option<Quota<'a>> {
        let quota = |limit, client_id, is_for_any_client| Quota {
            limit,
            bucket: Bucket { user, client_id },
            is_for_any_client,
        };
        let own_client = self.clients.get(client_id).and_then(|limits| limits.get(key));
        own_client
            .map(|limit| quota(limit, Some(client_id), false))
            .or_else(|| self.default_client.get(key).map(|limit| quota(limit, Some(client_id), true)))
            .or_else(|| self.own.get(key).map(|limit| quota(limit, None, false)))
    }

    /// Returns the entities of the user and of client ids, some of them without limits.
    fn iter(&self, user: Option<EntityName>) -> impl Iterator<Item = (QuotaEntity, Limits)> {
        let own = [(None, &self.own), (Some(EntityName::Default), &self.default_client)].into_iter();
        let clients = self.clients.iter();
        let clients = clients.map(|(client_id, limits)| (Some(EntityName::Named(client_id.clone())), limits));
        own.chain(clients).map(move |(client_id, limits)| {
            (QuotaEntity { user: user.clone(), client_id, ip: None }, *limits)
        })
    }
}
