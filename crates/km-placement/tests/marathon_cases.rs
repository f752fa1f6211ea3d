//! Marathon's constraints from data: `data/marathon.json` (facts about Marathon of 2021).

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use km_placement::{
    Amounts, AssignedPod, Attribute, Context, Engine, Need, NodeFacts, PendingPod, Policy, Pool, Ports, Share, Supply,
    compile,
    constraint::{Constraint, scale_down},
};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Case {
    id: String,
    kind: String,
    #[serde(default)]
    constraints: Vec<Vec<String>>,
    #[serde(default)]
    constraint: Vec<String>,
    offer: Option<Place>,
    #[serde(default)]
    placed: Vec<Place>,
    #[serde(default)]
    instances: u32,
    #[serde(default)]
    running: BTreeMap<String, u32>,
    #[serde(default, rename = "toKill")]
    to_kill: u32,
    #[serde(default, rename = "expectKilledPerGroup")]
    killed: BTreeMap<String, u32>,
    #[serde(default)]
    expect: bool,
}

/// An agent as constraints see it.
#[derive(Deserialize)]
struct Place {
    host: String,
    attrs: BTreeMap<String, Value>,
    region: Option<String>,
    zone: Option<String>,
}

fn attribute(value: &Value) -> Attribute {
    let list = |key: &str| value[key].as_array().cloned().unwrap_or_default();
    match value {
        Value::String(text) => Attribute::text(text),
        Value::Number(number) => Attribute::number(number.as_f64().expect("a number")),
        _ if value.get("set").is_some() => {
            Attribute::set(list("set").iter().map(|item| item.as_str().expect("a text").to_owned()))
        }
        _ => {
            let number = |value: &Value| value.as_u64().expect("a number");
            Attribute::ranges(list("ranges").iter().map(|range| (number(&range[0]), number(&range[1]))))
        }
    }
}

fn facts(place: &Place) -> NodeFacts {
    let label =
        |key: &str, value: &Option<String>| value.clone().map(|value| (format!("topology.kubernetes.io/{key}"), value));
    NodeFacts {
        labels: [label("region", &place.region), label("zone", &place.zone)].into_iter().flatten().collect(),
        attributes: place.attrs.iter().map(|(name, value)| (name.clone(), attribute(value))).collect(),
        ..NodeFacts::default()
    }
}

fn need(engine: &mut Engine, constraints: &str) -> Arc<Need> {
    let mut pod = Pod::default();
    pod.metadata.annotations = Some([("k8s.mesosphere.io/constraints".to_owned(), constraints.to_owned())].into());
    let context = Context { owner: Some("app".into()), roles: vec!["*".into()], ..Context::default() };
    engine.share(compile(&pod, context).expect("the constraints are valid"))
}

/// Whether an instance of the app may go to the offered agent.
fn accepts(case: &Case, offer: &Place) -> bool {
    let mut engine = Engine::new(Policy::default());
    let need = need(&mut engine, &serde_json::to_string(&case.constraints).expect("texts"));
    engine.set_instances("app", case.instances);
    let pool = Pool {
        role: "*".into(),
        shares: vec![Share { role: "*".into(), free: Amounts::default(), ports: Ports::Any }],
    };
    let agents = [offer].into_iter().chain(&case.placed).enumerate();
    for (number, place) in agents {
        // An agent has one set of attributes at a time here. Where the data has several under one host name, either
        // the name matters or the attributes do.
        let same = number == 0
            || place.attrs == offer.attrs
            || case.constraints.iter().any(|one| one[0].ends_with("hostname"));
        let name = if same { place.host.clone() } else { format!("{}-{number}", place.host) };
        if number == 0 || name != offer.host {
            engine.set_node(&name, facts(place));
        }
        if number == 0 {
            engine.set_supply(&name, Supply { pools: vec![pool.clone()], ..Supply::default() });
            continue;
        }
        engine.set_pod(AssignedPod {
            id: format!("default/{number}"),
            need: Arc::clone(&need),
            node: name,
            terminating: false,
            started: 0,
            preempted: false,
        });
    }
    let pod = PendingPod { id: "default/new".into(), need, queued: 0 };
    let found = engine.explain(&pod).into_iter().find(|found| found.node == offer.host).expect("it was told");
    found.refusal.is_none()
}

fn run(case: &Case) -> Result<(), String> {
    match case.kind.as_str() {
        "offer" => {
            let found = accepts(case, case.offer.as_ref().expect("an offer"));
            if found == case.expect { Ok(()) } else { Err(format!("accepted: {found}")) }
        }
        "validate" => {
            let found = Constraint::new(&case.constraint);
            if found.is_ok() == case.expect { Ok(()) } else { Err(format!("{found:?}")) }
        }
        "kill" => {
            let constraint = Constraint::new(&case.constraint).map_err(|error| error.to_string())?;
            let found = scale_down(&constraint, &case.running, case.to_kill);
            if found == case.killed { Ok(()) } else { Err(format!("{found:?}")) }
        }
        other => Err(format!("unknown kind {other}")),
    }
}

#[test]
fn the_constraints_of_marathon_hold() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/marathon.json")).expect("the data is well-formed");
    let failed: Vec<String> =
        cases.iter().filter_map(|case| run(case).err().map(|problem| format!("{}: {problem}", case.id))).collect();
    assert!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), cases.len(), failed.join("\n"));
    assert_eq!(cases.len(), 56);
}
