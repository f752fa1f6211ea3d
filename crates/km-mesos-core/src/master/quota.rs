//! UPDATE_QUOTA and UPDATE_WEIGHTS (M326 to M334).

use km_mesos_proto::{
    resources::{Quantities, Resources, Scalar},
    v1::{self, WeightInfo, quota::QuotaConfig, value},
};

use super::{Answer, Master, validation::role};
use crate::allocator::quota::Quota;

/// More than that of cpus and other things is refused.
const MOST_UNITS: f64 = 1e12;
/// More than that of mem and disk (MB) is refused: one exabyte.
const MOST_MEGABYTES: f64 = 1_099_511_627_776.0;

impl Master {
    /// Sets quotas; all of them or none.
    pub(super) fn update_quota(&mut self, configs: &[QuotaConfig], force: bool) -> Answer {
        for config in configs {
            if let Err(reason) = lawful(config) {
                return Answer::refused(400, reason);
            }
            if self.config.roles.as_ref().is_some_and(|roles| config.role != "*" && !roles.contains(&config.role)) {
                return Answer::refused(400, format!("Invalid QuotaConfig: Unknown role: '{}'", config.role));
            }
        }
        if !force && let Err(reason) = self.affordable(configs) {
            return Answer::refused(
                400,
                format!("Invalid QuotaConfig: {reason} (use 'force' flag to bypass this check)"),
            );
        }
        for config in configs {
            let quota = Quota::from_config(config);
            let changed = self.allocator.quotas().get(&config.role) != Some(&quota) && !quota.is_default();
            let needs_room = !quota.guarantees.is_empty();
            let over = !quota.limits.allow(&self.allocator.consumed(&config.role));
            self.allocator.set_quota(&config.role, quota);
            if over {
                self.rescind_offers_of_role(&config.role);
            }
            if changed && needs_room {
                self.make_room(config);
            }
        }
        self.persist_cluster();
        Answer::ok()
    }

    /// The older form: a guarantee that is the limit too, for a role that has no quota yet.
    pub(super) fn set_quota(&mut self, request: &v1::quota::QuotaRequest) -> Answer {
        let role = request.role.clone().unwrap_or_default();
        if self.allocator.quotas().contains_key(&role) {
            let reason = format!("Cannot set quota for role '{role}' which already has quota");
            return Answer::refused(400, format!("Failed to validate set quota request: {reason}"));
        }
        let scalar = |one: &v1::Resource| Some((one.name.clone(), one.scalar?));
        let guarantees: std::collections::BTreeMap<_, _> = request.guarantee.iter().filter_map(scalar).collect();
        let config = QuotaConfig { role, limits: guarantees.clone(), guarantees };
        if let Err(reason) = lawful(&config) {
            return Answer::refused(400, format!("Failed to validate set quota request: {reason}"));
        }
        if !request.force.unwrap_or(false)
            && let Err(reason) = self.affordable(std::slice::from_ref(&config))
        {
            let text = "Quota guarantees overcommit the cluster (use 'force' to bypass this check)";
            return Answer::refused(409, format!("{text}: {}", reason.replacen("total", "Total", 1)));
        }
        self.update_quota(&[config], true)
    }

    /// Ends a role's quota.
    pub(super) fn remove_quota(&mut self, role: &str) -> Answer {
        if !self.allocator.quotas().contains_key(role) {
            let reason = format!("Role '{role}' has no quota set");
            return Answer::refused(400, format!("Failed to validate remove quota request for path: {reason}"));
        }
        self.allocator.remove_quota(role);
        self.persist_cluster();
        Answer::ok()
    }

    fn affordable(&self, configs: &[QuotaConfig]) -> Result<(), String> {
        let mut guaranteed = Quantities::default();
        for (name, quota) in self.allocator.quotas() {
            if !configs.iter().any(|config| config.role == *name) {
                guaranteed.add_all(&quota.guarantees);
            }
        }
        for config in configs {
            let quota = Quota::from_config(config);
            guaranteed.add_all(&quota.guarantees);
            let consumed = self.consumed_without_offers(&config.role);
            if !quota.limits.allow(&consumed) {
                return Err(format!(
                    "Role '{}' is already consuming '{consumed}'; this is more than the requested limits '{}'",
                    config.role, quota.limits
                ));
            }
        }
        let total: Resources = self.agents.values().map(|agent| agent.total.clone()).sum();
        let capacity = crate::allocator::scalars::scalars_of(&total);
        if capacity.contains(&guaranteed) {
            return Ok(());
        }
        Err(format!("total quota guarantees '{guaranteed}' exceed cluster capacity '{capacity}'"))
    }

    /// What a role and those below it have reserved or use.
    pub(super) fn consumed_without_offers(&self, name: &str) -> Quantities {
        let within = |other: &str| other == name || role::is_below(other, name);
        let mut consumed = Quantities::default();
        for agent in self.agents.values() {
            for (_, reserved) in agent.total.reservations().into_iter().filter(|(role, _)| within(role)) {
                consumed.add_all(&crate::allocator::scalars::scalars_of(&reserved));
            }
            for used in agent.used.values() {
                for (_, part) in used.unreserved().allocations().into_iter().filter(|(role, _)| within(role)) {
                    consumed.add_all(&crate::allocator::scalars::scalars_of(&part));
                }
            }
        }
        consumed
    }

    fn rescind_offers_of_role(&mut self, name: &str) {
        let of_role = |role: Option<String>| role.is_some_and(|role| role == name || role::is_below(&role, name));
        let offers: Vec<String> = self
            .offers
            .values()
            .filter(|offer| of_role(offer.allocation_info.as_ref().and_then(|info| info.role.clone())))
            .map(|offer| offer.id.value.clone())
            .collect();
        for offer in offers {
            self.rescind_offer(&offer);
        }
    }

    /// Rescinds offers of other roles until the guarantee can be met.
    fn make_room(&mut self, config: &QuotaConfig) {
        let guarantees = Quota::from_config(config).guarantees;
        let mut rescinded = Quantities::default();
        let offers: Vec<String> = self.offers.keys().cloned().collect();
        for id in offers {
            if rescinded.contains(&guarantees) {
                return;
            }
            let Some(offer) = self.offers.get(&id) else { continue };
            rescinded.add_all(&Quantities::of(&super::validation::resource::read(&offer.resources)));
            self.rescind_offer(&id);
        }
    }

    /// Sets weights. If a framework has one of the roles, all offers are rescinded: the next allocation shares anew.
    pub(super) fn update_weights(&mut self, weights: &[WeightInfo]) -> Answer {
        let mut checked = Vec::new();
        for info in weights {
            let name = info.role.as_deref().unwrap_or_default().trim();
            if let Err(reason) = role::validate(name) {
                return Answer::refused(
                    400,
                    format!("Failed to validate update weights request JSON: Invalid role '{name}': {reason}"),
                );
            }
            if self.config.roles.as_ref().is_some_and(|roles| name != "*" && !roles.contains(name)) {
                return Answer::refused(
                    400,
                    format!("Failed to validate update weights request JSON: Unknown role '{name}'"),
                );
            }
            if !(info.weight > 0.0 && info.weight.is_finite()) {
                return Answer::refused(
                    400,
                    format!(
                        "Failed to validate update weights request JSON for role '{name}': Invalid weight '{}': Weights must be positive",
                        info.weight
                    ),
                );
            }
            checked.push((name.to_owned(), info.weight));
        }
        let concerned = checked
            .iter()
            .any(|(name, _)| self.frameworks.values().any(|framework| framework.roles().contains(name.as_str())));
        for (name, weight) in checked {
            self.allocator.set_weight(&name, weight);
        }
        self.persist_cluster();
        if concerned {
            self.rescind_all_offers();
        }
        Answer::ok()
    }
}

fn lawful(config: &QuotaConfig) -> Result<(), String> {
    if config.role.contains('/') {
        return Err(format!("Updating quota on nested role '{}' is not supported yet", config.role));
    }
    role::validate(&config.role)
        .map_err(|reason| format!("Invalid QuotaConfig: Invalid 'QuotaConfig.role': {reason}"))?;
    let amounts = [("guarantees", "guarantee", &config.guarantees), ("limits", "limit", &config.limits)];
    for (field, kind, amounts) in amounts {
        for (name, amount) in amounts {
            amount_of(field, kind, name, amount)?;
        }
    }
    for (name, guarantee) in &config.guarantees {
        let limit = config.limits.get(name);
        if limit.is_some_and(|limit| Scalar::from_f64(guarantee.value) > Scalar::from_f64(limit.value)) {
            return Err(format!(
                "Invalid QuotaConfig: 'QuotaConfig.guarantees' {} is not contained within the 'QuotaConfig.limits' {}",
                listed(&config.guarantees),
                listed(&config.limits)
            ));
        }
    }
    Ok(())
}

/// Like `{ cpus: 1, mem: 32 }`.
fn listed<'a>(amounts: impl IntoIterator<Item = (&'a String, &'a value::Scalar)>) -> String {
    let items: Vec<String> =
        amounts.into_iter().map(|(name, amount)| format!("{name}: {}", Scalar::from_f64(amount.value))).collect();
    format!("{{ {} }}", items.join(", "))
}

fn amount_of(field: &str, kind: &str, name: &str, amount: &value::Scalar) -> Result<(), String> {
    let value = amount.value;
    let wrong = |reason: &str| {
        Err(format!("Invalid QuotaConfig: Invalid {kind} configuration {{'{name}': {value}}}: {reason}"))
    };
    let too_much = |reason: &str| {
        Err(format!("Invalid QuotaConfig: Invalid 'QuotaConfig.{field}': {{'{name}': {value}}} is invalid: {reason}"))
    };
    if !value.is_finite() {
        return wrong("Values must be finite");
    }
    if value < 0.0 {
        return wrong("Negative values not supported");
    }
    match name {
        "mem" | "disk" if value > MOST_MEGABYTES => {
            too_much("values greater than 1 exabyte (1099511627776) are not supported")
        }
        "mem" | "disk" => Ok(()),
        _ if value > MOST_UNITS => too_much("values greater than 1 trillion (1000000000000) are not supported"),
        _ => Ok(()),
    }
}
