//! FrameworkInfo: at SUBSCRIBE and UPDATE_FRAMEWORK.

use std::collections::BTreeSet;

use km_mesos_proto::v1::{self, framework_info::capability::Type as Capability};

use super::{ensure, role};
use crate::framework_info::{has_capability, roles_of};

/// Checks what does not depend on what the master knows of the framework.
pub(in crate::master) fn validate(
    info: &v1::FrameworkInfo,
    suppressed: &[String],
    whitelist: Option<&BTreeSet<String>>,
    root_submissions: bool,
) -> Result<(), String> {
    roles(info)?;
    if let Some(id) = info.id.as_ref().filter(|id| !id.value.is_empty()) {
        super::id(&id.value)?;
    }
    let timeout = info.failover_timeout.unwrap_or(0.0);
    // Mesos counts nanoseconds in 64 bits; less than none is none.
    let lawful = timeout.abs() * 1e9 < i64::MAX as f64;
    ensure(lawful, || format!("The framework failover_timeout ({}) is invalid", scientific(timeout)))?;
    ensure(root_submissions || info.user != "root", || "User 'root' is not allowed to run frameworks".to_owned())?;
    let roles = roles_of(info);
    if let Some(whitelist) = whitelist {
        for role in &roles {
            ensure(role == "*" || whitelist.contains(role), || {
                format!("Roles {{ {role} }} are not present in the master's --roles")
            })?;
        }
    }
    for role in suppressed {
        ensure(roles.contains(role), || format!("Suppressed role '{role}' is not contained in the list of roles"))?;
    }
    offer_filters(info)
}

/// A large number as C++ prints it: six digits at most, the exponent with two: `1e+12`.
fn scientific(number: f64) -> String {
    let text = format!("{number:.5e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}e+{exponent:0>2}")
}

#[allow(deprecated)]
fn roles(info: &v1::FrameworkInfo) -> Result<(), String> {
    if has_capability(info, Capability::MultiRole) {
        ensure(info.role.is_none(), || {
            "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable".to_owned()
        })?;
        let mut seen = BTreeSet::new();
        for one in &info.roles {
            role::validate(one).map_err(|reason| format!("'FrameworkInfo.roles' contains invalid role: {reason}"))?;
            ensure(seen.insert(one), || format!("'FrameworkInfo.roles' contains duplicate items: {{ {one} }}"))?;
        }
        return Ok(());
    }
    ensure(info.roles.is_empty(), || {
        "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable".to_owned()
    })?;
    let one = info.role.as_deref().unwrap_or("*");
    role::validate(one).map_err(|reason| format!("'FrameworkInfo.role' is not a valid role: {reason}"))
}

fn offer_filters(info: &v1::FrameworkInfo) -> Result<(), String> {
    // X003
    for filters in info.offer_filters.values() {
        for quantities in filters.min_allocatable_resources.iter().flat_map(|least| &least.quantities) {
            ensure(!quantities.quantities.is_empty(), || {
                "Invalid min_allocatable_resources: Resource quantities must contain at least one quantity".to_owned()
            })?;
            for (name, scalar) in &quantities.quantities {
                let value = scalar.value;
                let fault = match () {
                    () if value.is_nan() => "NaN not supported",
                    () if value.is_infinite() => "Infinite values not supported",
                    () if value < 0.0 => "Negative values not supported",
                    () => continue,
                };
                return Err(format!("Invalid resource quantity for '{name}': {fault}"));
            }
        }
    }
    Ok(())
}

/// What a framework may never change (M040 to M042): user, checkpoint and principal.
pub(in crate::master) fn immutable(old: &v1::FrameworkInfo, new: &v1::FrameworkInfo) -> Result<(), String> {
    principal(old, new)?;
    let fixed = |field: &str, old: &str, new: &str| {
        ensure(old == new, || {
            format!("Updating 'FrameworkInfo.{field}' is unsupported; attempted to update from '{old}' to '{new}'")
        })
    };
    fixed("user", &old.user, &new.user)?;
    let [old, new] = [old, new].map(|info| info.checkpoint.unwrap_or(false).to_string());
    fixed("checkpoint", &old, &new)
}

/// A framework that comes back must have the same principal (M021).
pub(in crate::master) fn principal(old: &v1::FrameworkInfo, new: &v1::FrameworkInfo) -> Result<(), String> {
    ensure(old.principal == new.principal, || "Changing framework's principal is not allowed.".to_owned())
}
