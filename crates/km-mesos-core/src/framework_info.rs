//! What a FrameworkInfo says in more than one way.

use std::collections::BTreeSet;

use km_mesos_proto::v1::{FrameworkInfo, framework_info::capability::Type as Capability};

/// Whether a framework has a capability.
pub(crate) fn has_capability(info: &FrameworkInfo, capability: Capability) -> bool {
    info.capabilities.iter().any(|one| one.r#type == Some(capability as i32))
}

/// The roles a framework subscribes to: `roles` with MULTI_ROLE, else the one `role` (`*` when unset).
#[allow(deprecated)]
pub(crate) fn roles_of(info: &FrameworkInfo) -> BTreeSet<String> {
    if has_capability(info, Capability::MultiRole) {
        info.roles.iter().cloned().collect()
    } else {
        [info.role.clone().unwrap_or_else(|| "*".to_owned())].into()
    }
}
