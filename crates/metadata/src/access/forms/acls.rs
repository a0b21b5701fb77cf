//! The form of a rule.

use serde::{Deserialize, Serialize};
use tailrace_identity::acl::{Acl, Operation, PatternKind, Permission, ResourceKind};

use super::texts::{FormError, check_length, known};
use crate::access::bounds::ACL_TEXT_BYTES_MAX;
use crate::serial::Plain;

/// An [`Acl`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AclForm {
    kind: String,
    name: String,
    pattern: String,
    principal: String,
    host: String,
    operation: String,
    permission: String,
}

impl From<&Acl> for AclForm {
    fn from(acl: &Acl) -> Self {
        Self {
            kind: acl.kind.name().to_owned(),
            name: acl.name.clone(),
            pattern: acl.pattern.name().to_owned(),
            principal: acl.principal.clone(),
            host: acl.host.clone(),
            operation: acl.operation.name().to_owned(),
            permission: acl.permission.name().to_owned(),
        }
    }
}

impl TryFrom<AclForm> for Acl {
    type Error = FormError;

    fn try_from(form: AclForm) -> Result<Self, FormError> {
        Ok(Self {
            kind: known(ResourceKind::from_name(&form.kind), "kind of resource")?,
            name: form.name,
            pattern: known(PatternKind::from_name(&form.pattern), "kind of pattern")?,
            principal: form.principal,
            host: form.host,
            operation: known(Operation::from_name(&form.operation), "operation")?,
            permission: known(Permission::from_name(&form.permission), "permission")?,
        })
    }
}

/// Decodes a rule of a record.
pub(crate) fn acl(form: AclForm) -> Result<Acl, FormError> {
    let acl = Acl::try_from(form)?;
    for (what, text) in [("name", &acl.name), ("principal", &acl.principal), ("host", &acl.host)] {
        check_length(text, what, ACL_TEXT_BYTES_MAX)?;
    }
    Ok(acl)
}

impl Plain for Acl {
    type Form = AclForm;

    fn form(&self) -> AclForm {
        self.into()
    }

    fn of(form: AclForm) -> Option<Self> {
        form.try_into().ok()
    }
}
