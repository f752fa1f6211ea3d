//! The amounts that shares are made of: scalars only, summed over roles.

use std::collections::BTreeMap;

use km_mesos_proto::resources::{Quantities, Resources, Value};

/// Scalar amounts by name; shared volumes count once, ports and sets don't count.
pub(crate) fn scalars_of(resources: &Resources) -> Quantities {
    let mut amounts = Quantities::default();
    for resource in resources.iter() {
        if let Value::Scalar(amount) = resource.value {
            amounts.add(&resource.name, amount);
        }
    }
    amounts
}

/// Scalar amounts of allocated resources by the role they are allocated to.
pub(crate) fn scalars_by_role(resources: &Resources) -> BTreeMap<String, Quantities> {
    resources.allocations().into_iter().map(|(role, part)| (role.to_owned(), scalars_of(&part))).collect()
}
