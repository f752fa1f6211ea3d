//! The form of resources that a framework understands.

use km_mesos_proto::{resources::Resources, v1};

/// Messages for a framework: with `reservations` if it has RESERVATION_REFINEMENT, else with `role` and `reservation`.
pub(crate) fn for_framework(resources: &Resources, refinement: bool) -> Vec<v1::Resource> {
    if refinement {
        return resources.to_protos();
    }
    // Refined reservations are never given to a framework that can't read them.
    resources.to_protos_without_refinement().unwrap_or_else(|_| resources.to_protos())
}
