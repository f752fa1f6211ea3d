//! Fair shares: equal agents are set free one by one, and whoever is next gets them.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{Framework, amounts, decline, info, scalar},
    player::Player,
};

/// Needs four equal agents.
pub const SHARES_OF_FOUR_AGENTS: &[Script] = scripts![
    roles_are_compared_before_frameworks,
    subtrees_of_roles_compete,
    frameworks_of_a_role_share_it,
    heavier_roles_get_more,
    a_short_filter_holds_for_a_batch,
    suppressed_and_left_roles_get_nothing,
    a_framework_that_left_lowers_its_roles_share,
    what_is_reserved_counts_as_share,
    frameworks_of_a_role_share_its_guarantee,
];

const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// Frameworks that wait for agents, and one that holds all of them to let go of one at a time.
pub struct Contest {
    holder: Framework,
    held: Vec<Value>,
    others: Vec<(&'static str, Framework)>,
}

impl Contest {
    /// So many agents are held.
    pub async fn new(p: &mut Player, agents: usize) -> Result<Self> {
        let mut holder = p.framework(info(&["holder"])).await?;
        let held = p.offers_quietly(&mut holder, agents).await?;
        Ok(Self { holder, held, others: Vec::new() })
    }

    /// One more framework that waits.
    pub async fn enter(&mut self, p: &mut Player, name: &'static str, info: Value) -> Result<()> {
        self.others.push((name, p.framework(info).await?));
        Ok(())
    }

    /// Lets go of an agent. Records who is offered what, and returns the offer.
    pub async fn release(&mut self, p: &mut Player) -> Result<Value> {
        let offer = self.held.pop().context("an agent is left")?;
        p.call(&self.holder, "DECLINE", decline(&[offer], 3600.0)).await?;
        winner(p, &mut self.others).await
    }

    fn framework(&mut self, name: &str) -> Result<&mut Framework> {
        let found = self.others.iter_mut().find(|(other, _)| *other == name);
        found.map(|(_, framework)| framework).context("it has entered")
    }
}

/// Waits until one of them is offered something; records who and what.
pub async fn winner(p: &mut Player, frameworks: &mut [(&'static str, Framework)]) -> Result<Value> {
    let wait = async {
        loop {
            for (name, framework) in frameworks.iter_mut() {
                let events = framework.stream.waiting();
                let offers = events.iter().flat_map(|event| event["offers"]["offers"].as_array()).flatten().cloned();
                framework.stream.offers.extend(offers);
                if let Some(offer) = framework.stream.offers.pop_front() {
                    return (*name, offer);
                }
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let (name, offer) = tokio::time::timeout(PATIENCE, wait).await.context("nobody is offered anything")?;
    p.note(name, &amounts(std::slice::from_ref(&offer)));
    Ok(offer)
}

// M090
async fn roles_are_compared_before_frameworks(p: &mut Player) -> Result<()> {
    let mut contest = Contest::new(p, 4).await?;
    contest.enter(p, "1 in a", info(&["a"])).await?;
    contest.enter(p, "2 in b", info(&["b"])).await?;
    contest.release(p).await?;
    contest.release(p).await?;
    contest.enter(p, "3 in a", info(&["a"])).await?;
    contest.release(p).await?;
    contest.enter(p, "4 in a", info(&["a"])).await?;
    contest.release(p).await?;
    Ok(())
}

// M092
async fn subtrees_of_roles_compete(p: &mut Player) -> Result<()> {
    let mut contest = Contest::new(p, 4).await?;
    contest.enter(p, "a/b", info(&["a/b"])).await?;
    contest.release(p).await?;
    contest.enter(p, "a/c", info(&["a/c"])).await?;
    contest.enter(p, "d/e", info(&["d/e"])).await?;
    contest.release(p).await?;
    contest.enter(p, "d/f", info(&["d/f"])).await?;
    contest.release(p).await?;
    contest.release(p).await?;
    Ok(())
}

// M093
async fn frameworks_of_a_role_share_it(p: &mut Player) -> Result<()> {
    let mut contest = Contest::new(p, 4).await?;
    contest.enter(p, "first", info(&["a"])).await?;
    contest.enter(p, "second", info(&["a"])).await?;
    for _ in 0..4 {
        contest.release(p).await?;
    }
    Ok(())
}

fn weights(weights: &[(&str, f64)]) -> Value {
    let infos: Vec<Value> = weights.iter().map(|(role, weight)| json!({ "role": role, "weight": weight })).collect();
    json!({ "type": "UPDATE_WEIGHTS", "update_weights": { "weight_infos": infos } })
}

// M106
async fn heavier_roles_get_more(p: &mut Player) -> Result<()> {
    p.operator(weights(&[("w1", 1.0), ("w2", 3.0)])).await?;
    let shown = p.ask(json!({ "type": "GET_WEIGHTS" })).await?;
    let mut shown = shown["get_weights"]["weight_infos"].as_array().cloned().unwrap_or_default();
    shown.sort_by_key(Value::to_string);
    p.note("GET_WEIGHTS", &shown.into());
    let mut contest = Contest::new(p, 4).await?;
    contest.enter(p, "light", info(&["w1"])).await?;
    contest.enter(p, "heavy", info(&["w2"])).await?;
    for _ in 0..4 {
        contest.release(p).await?;
    }
    for bad in [0.0, -1.0] {
        p.operator(weights(&[("w1", bad)])).await?;
    }
    p.operator(weights(&[("/w", 1.0)])).await?;
    Ok(())
}

// M071
async fn a_short_filter_holds_for_a_batch(p: &mut Player) -> Result<()> {
    let mut contest = Contest::new(p, 4).await?;
    contest.enter(p, "richer", info(&["b"])).await?;
    contest.release(p).await?;
    contest.enter(p, "poorer", info(&["a"])).await?;
    let offer = contest.release(p).await?;
    let poorer = contest.framework("poorer")?;
    p.call(poorer, "DECLINE", decline(&[offer], 0.001)).await?;
    winner(p, &mut contest.others).await?;
    Ok(())
}

async fn suppressed_and_left_roles_get_nothing(p: &mut Player) -> Result<()> {
    let mut contest = Contest::new(p, 4).await?;
    contest.enter(p, "both", info(&["a", "b"])).await?;
    contest.enter(p, "plain", info(&["c"])).await?;
    let both = contest.framework("both")?;
    p.call(both, "SUPPRESS", json!({ "suppress": { "roles": ["a"] } })).await?;
    let offer = contest.release(p).await?;
    p.note("role", &offer["allocation_info"]);
    let both = contest.framework("both")?;
    p.call(both, "SUPPRESS", json!({})).await?;
    for _ in 0..2 {
        contest.release(p).await?;
    }
    let both = contest.framework("both")?;
    p.call(both, "REVIVE", json!({ "revive": { "roles": ["a"] } })).await?;
    let offer = contest.release(p).await?;
    p.note("role", &offer["allocation_info"]);
    Ok(())
}

// M095 in part
async fn a_framework_that_left_lowers_its_roles_share(p: &mut Player) -> Result<()> {
    let mut contest = Contest::new(p, 4).await?;
    contest.enter(p, "1 in a", info(&["a"])).await?;
    contest.enter(p, "2 in a", info(&["a"])).await?;
    contest.release(p).await?;
    contest.release(p).await?;
    contest.enter(p, "3 in b", info(&["b"])).await?;
    contest.release(p).await?;
    // Nobody else wants what a gone framework leaves before the others are compared again.
    let (_, second) = contest.others.remove(1);
    p.call(&second, "TEARDOWN", json!({})).await?;
    winner(p, &mut contest.others).await?;
    contest.release(p).await?;
    Ok(())
}

/// The operator reserves an agent that somebody is offered; another is offered it then.
async fn reserve_for_a(p: &mut Player, contest: &mut Contest, whole: &Value) -> Result<Value> {
    let offer = contest.held.pop().context("an agent is left")?;
    super::reservations::reserve(p, &offer["agent_id"], whole).await?;
    p.expect(&mut contest.holder, "RESCIND").await?;
    winner(p, &mut contest.others).await?;
    Ok(offer["agent_id"].clone())
}

// M091
async fn what_is_reserved_counts_as_share(p: &mut Player) -> Result<()> {
    let whole = [("cpus", 4.0), ("mem", 4096.0), ("disk", 4096.0)].map(|(name, amount)| scalar(name, amount));
    let whole = super::reservations::reserved("a", &whole);
    let mut contest = Contest::new(p, 4).await?;
    contest.enter(p, "1 in a", info(&["a"])).await?;
    contest.enter(p, "2 in b", info(&["b"])).await?;
    let mut reserved = vec![reserve_for_a(p, &mut contest, &whole).await?];
    contest.release(p).await?;
    contest.enter(p, "3 in a", info(&["a"])).await?;
    reserved.push(reserve_for_a(p, &mut contest, &whole).await?);
    // Role `a` has two of four agents by now, and `b` one.
    contest.release(p).await?;
    for agent in reserved {
        super::reservations::unreserve(p, &agent, &whole).await?;
    }
    Ok(())
}

// M114, M117, M119
async fn frameworks_of_a_role_share_its_guarantee(p: &mut Player) -> Result<()> {
    // Three of the four agents.
    super::quota::set(p, "q-shared", json!({ "cpus": 12.0, "mem": 12288.0 }), json!({})).await?;
    let mut plain = p.framework(info(&["plain"])).await?;
    let offers = p.offers_quietly(&mut plain, 1).await?;
    p.note("what is owed to nobody", &amounts(&offers));
    p.quiet(&mut plain).await?;
    let mut first = p.framework(info(&["q-shared"])).await?;
    let offers = p.offers_quietly(&mut first, 3).await?;
    p.note("the guarantee", &amounts(&offers));
    let mut second = p.framework(info(&["q-shared"])).await?;
    p.quiet(&mut second).await?;
    p.call(&first, "DECLINE", decline(&offers[..1], 3600.0)).await?;
    let taken = p.offers_quietly(&mut second, 1).await?;
    p.note("what the first declined", &amounts(&taken));
    p.call(&second, "DECLINE", decline(&taken, 3600.0)).await?;
    p.quiet(&mut plain).await?;
    super::quota::set(p, "q-shared", json!({}), json!({})).await?;
    let rest = p.offers_quietly(&mut plain, 1).await?;
    p.note("without guarantee", &amounts(&rest));
    Ok(())
}
