//! `pods/eviction`: a deletion that asks the disruption budgets first.
//!
//! What a budget allows is counted here, from the pods of this moment, so it holds without a disruption controller.

use axum::body::Body;
use http::{Response, StatusCode};
use km_kube::selector::LabelSelector;
use serde_json::{Value, json};

use crate::{
    body,
    context::Context,
    failure::Failure,
    render,
    server::Server,
    verbs::delete::{self, Options},
};

/// POST of an Eviction.
pub async fn evict(ctx: &Context) -> Result<Response<Body>, Failure> {
    let name = ctx.name()?;
    let mut eviction = body::decode(&ctx.headers, &ctx.body)?.value;
    body::expect_kind(("policy/v1", "Eviction"), &mut eviction)?;
    let mut options = Options { dry_run: ctx.query.dry_run()?, ..Options::default() };
    options.merge(&eviction["deleteOptions"]);
    // Two evictions at once must not both use the last permission of a budget.
    let _turn = ctx.server.allocation.lock().await;
    let stored = ctx.server.store.get(&ctx.key()?).ok_or_else(|| Failure::not_found(ctx.kind, name))?;
    let pod = stored.value();
    // A pod that is not running disrupts nothing when it goes.
    if is_healthy(&pod) {
        check_budgets(&ctx.server, &stored.key.namespace, &pod)?;
    }
    if options.uid.is_none() {
        options.uid = pod["metadata"]["uid"].as_str().map(str::to_owned);
    }
    delete::remove(&ctx.server, ctx.kind, ctx.namespace.as_deref(), name, &options).await?;
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Ok(render::json_response(StatusCode::CREATED, status.to_string()))
}

fn check_budgets(server: &Server, namespace: &str, pod: &Value) -> Result<(), Failure> {
    for stored in server.all("policy/poddisruptionbudgets")? {
        let budget = stored.value();
        let selector = LabelSelector::from_object(&budget["spec"]["selector"]).map_err(Failure::internal)?;
        if stored.key.namespace != namespace || !selector.matches_object(pod) {
            continue;
        }
        let pods: Vec<Value> = server
            .all("pods")?
            .iter()
            .filter(|other| other.key.namespace == namespace && selector.matches(&other.facets.labels))
            .map(|other| other.value())
            .collect();
        let healthy = pods.iter().filter(|pod| is_healthy(pod)).count();
        let needed = needed(&budget["spec"], pods.len());
        if healthy <= needed {
            let budget = &stored.key.name;
            let cause =
                format!("The disruption budget {budget} needs {needed} healthy pods and has {healthy} currently");
            return Err(Failure::too_many_requests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                ("DisruptionBudget", &cause),
            ));
        }
    }
    Ok(())
}

/// How many healthy pods a budget wants of `total`.
fn needed(spec: &Value, total: usize) -> usize {
    if let Some(unavailable) = spec.get("maxUnavailable") {
        return total.saturating_sub(amount(unavailable, total));
    }
    spec.get("minAvailable").map_or(1, |available| amount(available, total))
}

/// A number, or a percentage of `total` rounded up.
fn amount(value: &Value, total: usize) -> usize {
    if let Some(number) = value.as_u64() {
        return usize::try_from(number).unwrap_or(usize::MAX);
    }
    let percent: usize = value.as_str().and_then(|text| text.trim_end_matches('%').parse().ok()).unwrap_or(0);
    (total * percent).div_ceil(100)
}

fn is_healthy(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready =
        conditions.into_iter().flatten().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    ready && pod["metadata"].get("deletionTimestamp").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_budget_needs() {
        for (spec, total, expected) in [
            (json!({"minAvailable": 2}), 3, 2),
            (json!({"minAvailable": "50%"}), 3, 2),
            (json!({"maxUnavailable": 1}), 3, 2),
            (json!({"maxUnavailable": "100%"}), 3, 0),
            (json!({}), 3, 1),
        ] {
            assert_eq!(needed(&spec, total), expected, "{spec}");
        }
    }
}
