//! Users by client certificate, as nats-server's `verify_and_map` does it: the names in the certificate are
//! looked for among the users of the settings and the file, and then the users of the cluster are asked.
//!
//! TLS has checked before who signed the certificate, and whether it is valid now.

use std::sync::Arc;

use tailrace_identity::Denied;
use tailrace_identity::certificate_names::NatsNames;
use tailrace_nats_wire::ConnectOptions;
use tailrace_node::access::CertificateRefused;

use super::login::{Mechanism, Refused, given};
use super::permissions::Permissions;
use super::{Asker, Auth};

impl Auth {
    /// Lets a client in by its certificate. As in nats-server, a user who also has a password must present
    /// it, and the name in CONNECT does not count.
    pub(super) async fn admit_by_certificate(
        &self,
        connect: &ConnectOptions,
        asker: &Asker,
    ) -> Result<Arc<Permissions>, Refused> {
        const HOW: Mechanism = Mechanism::Certificate;
        let Some(certificate) = asker.certificate.as_deref() else {
            return Err(Refused::new(HOW, "it shows no certificate"));
        };
        let names = NatsNames::read(certificate).map_err(|reason| Refused::new(HOW, reason))?;
        let password = given(&connect.pass).unwrap_or_default();
        let refused = |reason: &dyn std::fmt::Display| {
            let subject = names.subject().escape_debug();
            Refused::new(HOW, format_args!("certificate of {subject}: {reason}"))
        };
        if let Some(check) = self.users.check_certificate(&names, password) {
            let user = self.finished(check).await.map_err(|denied| refused(&denied))?;
            if !user.may_connect_by(asker.connection.kind) {
                return Err(refused(&Denied::ConnectionKind));
            }
            return Ok(Arc::new(self.permissions(user, asker, None).proved_by(HOW)));
        }
        let node = asker.node.upgrade().filter(|_| self.lets_cluster_users_in());
        let Some(node) = node else { return Err(refused(&CertificateRefused::Unknown)) };
        let login = node.known_certificate_login(certificate).map_err(|reason| refused(&reason))?;
        Ok(self.cluster_user(login, HOW, asker))
    }
}
