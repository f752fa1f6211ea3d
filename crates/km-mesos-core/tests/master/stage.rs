//! A framework with an offer of the only agent: where most tests of ACCEPT begin.

use km_mesos_proto::v1;

use crate::harness::*;

pub struct Stage {
    pub world: World,
    pub scheduler: Scheduler,
    pub agent: TestAgent,
    pub offer: v1::Offer,
}

pub fn stage(info: v1::FrameworkInfo, resources: &str) -> Stage {
    let mut world = World::new();
    let scheduler = world.subscribe(info);
    let agent = world.agent(resources);
    let offer = world.offer(&scheduler);
    Stage { world, scheduler, agent, offer }
}
