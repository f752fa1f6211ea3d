//! What flags of the master change.

use anyhow::Result;
use serde_json::json;

use crate::{
    compare::{Script, scripts},
    framework::{accept, info, launch, scalar, with},
    player::Player,
};

/// Of the master that these scripts need; and one agent.
pub const FLAGS: [&str; 3] = ["offer_timeout=1secs", "roles=a,b", "min_allocatable_resources=cpus:3;ports:10|mem:5000"];

/// Needs those flags.
pub const WITH_FLAGS: &[Script] =
    scripts![other_roles_are_refused, offers_time_out, used_offers_do_not_time_out, the_least_worth_an_offer_is_chosen];

/// Needs an agent that has only cpus or only memory.
pub const ONE_KIND: &[Script] = scripts![one_kind_of_resource_is_enough];

// M058
async fn one_kind_of_resource_is_enough(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let has = |name| offer["resources"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == name));
    let some = json!([if has("cpus") { scalar("cpus", 0.5) } else { scalar("mem", 64.0) }]);
    let task = with(p.task(&offer, "t", "t"), "resources", some.clone());
    let task = with(task, "executor", with(p.executor_info("t"), "resources", some));
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_RUNNING").await
}

// M038
async fn other_roles_are_refused(p: &mut Player) -> Result<()> {
    for roles in [&["c"][..], &["a", "c"], &["a/c"]] {
        let mut framework = p.subscribe(json!({ "framework_info": info(roles) })).await?;
        let event = framework.stream.event().await?;
        p.note("event", &event);
    }
    p.framework(info(&["*"])).await?;
    Ok(())
}

// M074
async fn offers_time_out(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    p.offer(&mut framework).await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M075
async fn used_offers_do_not_time_out(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["a"])).await?;
    let offer = p.offer(&mut first).await?;
    let task = p.task(&offer, "t", "t");
    p.call(&first, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    let mut executor = p.executor(&first, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    // The later offer's time is over after that of the first.
    let mut second = p.framework(info(&["b"])).await?;
    p.offer(&mut second).await?;
    p.expect(&mut second, "RESCIND").await?;
    p.quiet(&mut first).await
}

// M111
async fn the_least_worth_an_offer_is_chosen(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["a"])).await?;
    let offer = p.offer(&mut first).await?;
    // What these leave has less than 3 cpus.
    let tasks = ["t", "u"].map(|name| p.task(&offer, name, name));
    p.call(&first, "ACCEPT", accept(&[offer], &[launch(&tasks)])).await?;
    for name in ["t", "u"] {
        let mut executor = p.executor(&first, name).await?;
        p.executor_event(&mut executor, "LAUNCH").await?;
    }
    let mut second = p.framework(info(&["b"])).await?;
    p.quiet(&mut second).await
}

/// Needs a master without agents, that knows two roles only.
pub const EMPTY_WITH_ROLES: &[Script] = scripts![known_roles_are_listed];
/// Of that master.
pub const ROLES: [&str; 2] = ["roles=role1,role2", "weights=role1=5"];

/// Needs a master without agents.
pub const EMPTY: &[Script] = scripts![an_empty_master_has_nothing_to_show];

// M325
async fn known_roles_are_listed(p: &mut Player) -> Result<()> {
    p.request("GET", "/roles", &[], "").await?;
    Ok(())
}

// M312, M324
async fn an_empty_master_has_nothing_to_show(p: &mut Player) -> Result<()> {
    for path in ["/slaves", "/roles", "/frameworks", "/tasks"] {
        p.request("GET", path, &[], "").await?;
    }
    Ok(())
}
