//! UPDATE_FRAMEWORK: a subscribed framework changes what it said of itself.

use km_mesos_proto::{constraints::Constraints, v1::scheduler::call};

use super::{Answer, Master, validation};

impl Master {
    pub(super) fn update_framework(&mut self, id: &str, update: call::UpdateFramework) -> Answer {
        let Some(framework) = self.frameworks.get(id) else {
            return Answer::refused(409, "Framework was removed while it was updated");
        };
        let mut info = update.framework_info;
        if info.principal.is_none() {
            info.principal = framework.info.principal.clone();
        }
        let whitelist = self.config.roles.as_ref();
        let constraints = update.offer_constraints.as_ref();
        let checked = validation::framework::validate(&info, &update.suppressed_roles, whitelist, true)
            .map_err(|reason| format!("Supplied FrameworkInfo is not valid: {reason}"))
            .and_then(|()| {
                validation::framework::immutable(&framework.info, &info)
                    .map_err(|reason| format!("FrameworkInfo update is not valid: {reason}"))
            })
            .and_then(|()| {
                constraints
                    .map_or(Ok(()), |one| Constraints::compile(one).map(drop))
                    .map_err(|reason| format!("'UpdateFramework.offer_constraints' are not valid: {reason}"))
            });
        if let Err(reason) = checked {
            return Answer::refused(400, reason);
        }
        let suppressed = update.suppressed_roles.into_iter().collect();
        let same = framework.info == info
            && framework.suppressed == suppressed
            && framework.constraints == update.offer_constraints;
        if same {
            return Answer::ok();
        }
        let info_changed = framework.info != info;
        let Some(framework) = self.frameworks.get_mut(id) else { return Answer::ok() };
        framework.info = info;
        framework.suppressed = suppressed;
        framework.constraints = update.offer_constraints;
        let roles = framework.roles();
        let stale: Vec<String> = framework
            .offers
            .iter()
            .filter(|offer| {
                let role = self.offers.get(*offer).and_then(|offer| offer.allocation_info.as_ref()?.role.clone());
                role.is_some_and(|role| !roles.contains(&role))
            })
            .cloned()
            .collect();
        for offer in stale {
            self.rescind_offer(&offer);
        }
        self.sync_allocator(id);
        if info_changed {
            self.tell_agents_of_framework(id);
        }
        self.update_framework_event(id);
        Answer::ok()
    }
}
