//! CONNECT, PING and PONG: who the client is, and whether it is still there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailrace_env::time::{Duration, Instant};
use tailrace_identity::nats_accounts::ConnectionLimits;
use tailrace_nats_wire::{ConnectOptions, ProtocolError, write_info};
use tailrace_types::usize_of;

use super::{Next, Session};
use crate::auth::{Permissions, Refused};
use crate::close::CloseReason;
use crate::front::NatsFront;

/// Time before which a client that has had no PONG gets no PING.
const FIRST_PING_AFTER: Duration = Duration::from_secs(2);

impl Session {
    pub(super) fn connect(&mut self, front: &NatsFront, json: &[u8]) -> Option<Next> {
        let options = match self.options.clone().merged(json) {
            Ok(options) => options,
            Err(error) => {
                tracing::debug!(client = self.client.id, %error, "bad CONNECT");
                return Some(Next::Close(CloseReason::Protocol));
            }
        };
        // The user may change with this CONNECT. nats-server drops the subscriptions, too.
        if self.connected && self.leave(front) {
            return Some(Next::Again);
        }
        self.connected = true;
        if self.asks_who {
            return Some(Next::Authenticate(Box::new(options)));
        }
        self.take_over(options).err().map(Next::Close)
    }

    /// Completes the CONNECT of an authenticated client. Fails, after sending the error, if the client asks
    /// for something unsupported.
    pub(crate) fn authenticated(
        &mut self,
        front: &NatsFront,
        options: ConnectOptions,
        permissions: Arc<Permissions>,
    ) -> Result<(), CloseReason> {
        self.become_user(front, permissions)?;
        self.take_over(options)
    }

    /// Makes the client this user. Fails, after sending the error, if its account has no room.
    pub(super) fn become_user(
        &mut self,
        front: &NatsFront,
        permissions: Arc<Permissions>,
    ) -> Result<(), CloseReason> {
        // A client that authenticates again keeps its user.
        if self.permissions.is_none() {
            let account = front.accounts().get(permissions.account());
            let Some(membership) = account.try_join() else {
                self.asker.found_no_room(&permissions);
                self.error(&ProtocolError::MaximumAccountConnections);
                return Err(CloseReason::MaximumAccountConnections);
            };
            self.asker.succeeded(&permissions);
            self.membership = membership;
            self.apply_limits(match permissions.claimed() {
                Some(claimed) => claimed.user.limits,
                None => account.limits().unwrap_or_default().connection(),
            });
            self.client.set_permissions(Arc::clone(&permissions));
            self.permissions = Some(permissions);
        }
        self.unauthenticated = false;
        Ok(())
    }

    fn apply_limits(&mut self, limits: ConnectionLimits) {
        let stricter = |own: usize, limit: Option<u64>| limit.map_or(own, |limit| own.min(usize_of(limit)));
        self.payload_max = stricter(self.payload_max, limits.payload_bytes);
        self.subscriptions_max = stricter(self.subscriptions_max, limits.subscriptions);
    }

    /// Takes over the limits that the user has by the claims of its account that are in force now.
    pub(crate) fn follow_limits(&mut self, front: &NatsFront) {
        let claimed = self.permissions.as_ref().and_then(|permissions| permissions.claimed());
        let (Some(claimed), Some(operator)) = (claimed, front.auth().operator()) else { return };
        // One who may not stay is told elsewhere.
        if let Ok(limits) = operator.recheck(claimed, self.client.connection()) {
            self.payload_max = front.limits().payload_max;
            self.subscriptions_max = front.limits().subscriptions_max;
            self.apply_limits(limits);
        }
    }

    /// Refuses a client with wrong credentials.
    pub(crate) fn denied(&self) -> Next {
        self.fail(&ProtocolError::AuthorizationViolation, CloseReason::Authorization)
    }

    /// Refuses a client that begins with something else than CONNECT, although it must log in.
    pub(super) fn denied_without_connect(&self, front: &NatsFront) -> Next {
        self.asker.failed(front.auth(), &Refused::without_connect());
        self.denied()
    }

    fn take_over(&mut self, options: ConnectOptions) -> Result<(), CloseReason> {
        if let Some((error, reason)) = refused(&options) {
            self.error(&error);
            return Err(reason);
        }
        self.burst.echo = options.echo;
        self.parser.allow_headers(options.headers);
        self.client.set_said(options.clone());
        self.options = options;
        self.ok();
        Ok(())
    }

    pub(crate) fn send_pong(&mut self, front: &NatsFront) {
        self.client.out.append_control(|out| out.extend_from_slice(b"PONG\r\n"));
        // INFO after the first PING that follows CONNECT. Later PINGs get none.
        if self.connected && !std::mem::replace(&mut self.info_sent, true) {
            self.send_info(front, false);
        }
    }

    /// Sends INFO again, if the client understands that.
    pub(crate) fn send_info(&self, front: &NatsFront, lame_duck: bool) {
        self.send_info_again(front, lame_duck, !lame_duck);
    }

    /// Sends INFO because nodes have joined or left. A client that has not had its first INFO after CONNECT
    /// learns of it there.
    pub(crate) fn send_news(&self, front: &NatsFront) {
        if self.info_sent {
            self.send_info_again(front, false, false);
        }
    }

    fn send_info_again(&self, front: &NatsFront, lame_duck: bool, answers_connect: bool) {
        if self.options.protocol < 1 {
            return;
        }
        let mut info = front.info(&self.client);
        info.ldm |= lame_duck;
        info.connect_info = answers_connect;
        info.max_payload = self.payload_max;
        self.client.out.append_control(|out| write_info(out, &info));
    }

    pub(super) fn pong(&mut self) {
        self.pings_unanswered = 0;
        if let Some(sent) = self.ping_sent.take() {
            // 0 means that the round trip was never measured.
            let us = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
            self.client.counts.round_trip_us.store(us, Ordering::Relaxed);
        }
    }

    /// Sends a PING if none is in flight, and if the client should understand it: it has had its first PONG,
    /// or has been connected for a while. Reports whether one was sent.
    pub(crate) fn measure_round_trip(&mut self, opened: Instant) -> bool {
        let ready = self.info_sent || opened.elapsed() > FIRST_PING_AFTER;
        let send = ready && self.ping_sent.is_none() && !self.unauthenticated;
        if send {
            self.send_ping();
        }
        send
    }

    pub(crate) fn send_ping(&mut self) {
        self.pings_unanswered += 1;
        self.ping_sent = Some(Instant::now());
        self.client.out.append_control(|out| out.extend_from_slice(b"PING\r\n"));
    }

    /// Sends the error for a connection that is closed by the server.
    pub(crate) fn farewell(&self, reason: CloseReason) {
        match reason {
            CloseReason::Stale => self.error(&ProtocolError::StaleConnection),
            CloseReason::Revoked => self.error(&ProtocolError::AuthenticationRevoked),
            CloseReason::NoLongerAllowed => self.error(&ProtocolError::AuthorizationViolation),
            CloseReason::AccountExpired => self.error(&ProtocolError::AccountAuthenticationExpired),
            CloseReason::MaximumAccountConnections if !self.unauthenticated => {
                self.error(&ProtocolError::MaximumAccountConnections);
            }
            CloseReason::Expired => self.error(&ProtocolError::AuthenticationExpired),
            CloseReason::AuthenticationTimeout => self.error(&ProtocolError::AuthenticationTimeout),
            _ => {}
        }
    }
}

/// Returns the error for an unsupported option of CONNECT, checked in nats-server's order.
fn refused(options: &ConnectOptions) -> Option<(ProtocolError, CloseReason)> {
    if options.new_account || options.account.as_ref().is_some_and(|account| !account.is_empty()) {
        return Some((ProtocolError::AuthorizationViolation, CloseReason::Authorization));
    }
    if !(0..=1).contains(&options.protocol) {
        return Some((ProtocolError::InvalidProtocol, CloseReason::ProtocolVersion));
    }
    let without = options.no_responders && !options.headers;
    without.then_some((ProtocolError::NoRespondersNeedHeaders, CloseReason::NoRespondersNeedHeaders))
}
