//! The maintenance schedule: machines that will be unavailable, and machines that are down.

use std::collections::BTreeSet;

use km_mesos_proto::json;
use km_mesos_proto::v1::{
    self, MachineId, Unavailability,
    maintenance::{ClusterStatus, Schedule, cluster_status::DrainingMachine},
    task_status::Reason,
};

use super::{Answer, Master};
use crate::link::MasterMessage;

impl Master {
    /// Replaces the schedule. Machines that are down must stay in it.
    pub(super) fn update_schedule(&mut self, schedule: Schedule) -> Answer {
        if let Err(reason) = self.check_schedule(&schedule) {
            return Answer::refused(400, reason);
        }
        let machines = |schedule: &Schedule| -> Vec<MachineId> {
            schedule.windows.iter().flat_map(|window| window.machine_ids.clone()).collect()
        };
        let touched: Vec<MachineId> = machines(&self.schedule).into_iter().chain(machines(&schedule)).collect();
        self.schedule = schedule;
        self.persist_cluster();
        for agent in self.agents_on(&touched) {
            self.rescind_offers_of_agent(&agent);
            self.inverse_answers.retain(|(_, on), _| *on != agent);
            let offerable = self.agents.get(&agent).is_some_and(super::agent::Agent::offerable);
            self.allocator.set_agent_active(&agent, offerable);
        }
        Answer::ok()
    }

    fn check_schedule(&self, schedule: &Schedule) -> Result<(), String> {
        let mut seen: Vec<&MachineId> = Vec::new();
        for window in &schedule.windows {
            if window.machine_ids.is_empty() {
                return Err("List of machines in the maintenance window is empty".to_owned());
            }
            if window.unavailability.duration.is_some_and(|duration| duration.nanoseconds < 0) {
                return Err("Unavailability 'duration' is negative".to_owned());
            }
            for machine in &window.machine_ids {
                lawful(machine)?;
                if seen.iter().any(|other| same(other, machine)) {
                    return Err(format!("Machine '{}' appears more than once in the schedule", shown(machine)));
                }
                seen.push(machine);
            }
        }
        for down in &self.down_machines {
            if !seen.iter().any(|machine| same(machine, down)) {
                return Err(format!(
                    "Machine '{}' is deactivated and cannot be removed from the schedule",
                    shown(down)
                ));
            }
        }
        Ok(())
    }

    /// Takes machines of the schedule down: their agents end, their tasks are lost.
    pub(super) fn start_maintenance(&mut self, machines: &[MachineId]) -> Answer {
        if let Err(reason) = check_list(machines) {
            return Answer::refused(400, reason);
        }
        for machine in machines {
            if !self.is_scheduled(machine) {
                let reason = format!("Machine '{}' is not part of a maintenance schedule", shown(machine));
                return Answer::refused(400, reason);
            }
            if self.down_machines.iter().any(|down| same(down, machine)) {
                let reason = format!("Machine '{}' is not in DRAINING mode and cannot be brought down", shown(machine));
                return Answer::refused(400, reason);
            }
        }
        self.down_machines.extend(machines.iter().cloned());
        self.persist_cluster();
        for agent in self.agents_on(machines) {
            self.tell_agent(&agent, MasterMessage::Refused { message: "Operator initiated 'Machine DOWN'".to_owned() });
            self.remove_agent(&agent, Reason::AgentRemoved, "Operator initiated 'Machine DOWN'");
        }
        Answer::ok()
    }

    /// Brings machines back up; they leave the schedule.
    pub(super) fn stop_maintenance(&mut self, machines: &[MachineId]) -> Answer {
        if let Err(reason) = check_list(machines) {
            return Answer::refused(400, reason);
        }
        for machine in machines {
            if !self.down_machines.iter().any(|down| same(down, machine)) {
                let what = if self.is_scheduled(machine) {
                    "is not in DOWN mode and cannot be brought up"
                } else {
                    "is not part of a maintenance schedule"
                };
                return Answer::refused(400, format!("Machine '{}' {what}", shown(machine)));
            }
        }
        let brought_up = |machine: &MachineId| machines.iter().any(|up| same(up, machine));
        self.down_machines.retain(|machine| !brought_up(machine));
        for window in &mut self.schedule.windows {
            window.machine_ids.retain(|machine| !brought_up(machine));
        }
        self.schedule.windows.retain(|window| !window.machine_ids.is_empty());
        self.persist_cluster();
        Answer::ok()
    }

    /// Machines that will be or are unavailable, with what frameworks said to it.
    pub(super) fn maintenance_status(&self) -> ClusterStatus {
        let scheduled = self.schedule.windows.iter().flat_map(|window| &window.machine_ids);
        let draining = scheduled.filter(|machine| !self.down_machines.iter().any(|down| same(down, machine)));
        let with_answers = |machine: &MachineId| {
            let agents: BTreeSet<String> = self.agents_on(std::slice::from_ref(machine)).into_iter().collect();
            let answers = self.inverse_answers.iter().filter(|((_, agent), _)| agents.contains(agent));
            DrainingMachine {
                id: machine.clone(),
                statuses: answers.map(|(_, answer)| answer.status.clone()).collect(),
            }
        };
        ClusterStatus {
            draining_machines: draining.map(with_answers).collect(),
            down_machines: self.down_machines.clone(),
        }
    }

    /// When an agent's machine will be unavailable.
    pub(super) fn unavailability_of(&self, agent: &str) -> Option<Unavailability> {
        let agent = self.agents.get(agent)?;
        let on = |window: &&v1::maintenance::Window| {
            window.machine_ids.iter().any(|machine| is_machine(machine, &agent.info.hostname, &agent.ip))
        };
        self.schedule.windows.iter().find(on).map(|window| window.unavailability)
    }

    /// The schedule's entry for a machine.
    pub(super) fn scheduled_machine(&self, hostname: &str, ip: &str) -> Option<MachineId> {
        let mut all = self.schedule.windows.iter().flat_map(|window| &window.machine_ids);
        all.find(|machine| is_machine(machine, hostname, ip)).cloned()
    }

    /// Whether a machine is down, so that its agents may not register.
    pub(super) fn is_down(&self, hostname: &str, ip: &str) -> bool {
        self.down_machines.iter().any(|machine| is_machine(machine, hostname, ip))
    }

    fn is_scheduled(&self, machine: &MachineId) -> bool {
        self.schedule.windows.iter().flat_map(|window| &window.machine_ids).any(|one| same(one, machine))
    }

    pub(super) fn agents_on(&self, machines: &[MachineId]) -> Vec<String> {
        let agents_of = |machine: &MachineId| {
            let on_host = self.hosts.on(text(&machine.hostname)).filter_map(|id| self.agents.get(id));
            let here = on_host.filter(|agent| is_machine(machine, &agent.info.hostname, &agent.ip));
            here.map(|agent| agent.id.clone()).collect::<Vec<_>>()
        };
        machines.iter().flat_map(agents_of).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn check_list(machines: &[MachineId]) -> Result<(), String> {
    if machines.is_empty() {
        return Err("List of machines is empty".to_owned());
    }
    for (place, machine) in machines.iter().enumerate() {
        lawful(machine)?;
        if machines[..place].iter().any(|other| same(other, machine)) {
            return Err(format!("Machine '{}' appears more than once in the schedule", shown(machine)));
        }
    }
    Ok(())
}

fn lawful(machine: &MachineId) -> Result<(), String> {
    if text(&machine.hostname).is_empty() && text(&machine.ip).is_empty() {
        return Err("Both 'hostname' and 'ip' for a machine are empty".to_owned());
    }
    if machine.ip.as_ref().is_some_and(|ip| !ip.is_empty() && ip.parse::<std::net::IpAddr>().is_err()) {
        return Err(format!("Failed to parse IPv4: {}", text(&machine.ip)));
    }
    Ok(())
}

fn text(part: &Option<String>) -> &str {
    part.as_deref().unwrap_or_default()
}

/// Host names compare without case.
fn same(left: &MachineId, right: &MachineId) -> bool {
    text(&left.hostname).eq_ignore_ascii_case(text(&right.hostname)) && text(&left.ip) == text(&right.ip)
}

/// Whether a machine of the schedule is the one with that name and address. Both must be told: Apache Mesos takes a
/// machine without an address for another one.
fn is_machine(machine: &MachineId, hostname: &str, ip: &str) -> bool {
    text(&machine.hostname).eq_ignore_ascii_case(hostname) && text(&machine.ip) == ip
}

/// A machine as refusals show it: as JSON.
fn shown(machine: &MachineId) -> String {
    json::to_value(machine).to_string()
}

/// A machine as texts about its agents name it: host name, and its address in parentheses.
pub(super) fn name(machine: &MachineId) -> String {
    match (text(&machine.hostname), text(&machine.ip)) {
        (hostname, "") => hostname.to_owned(),
        ("", ip) => ip.to_owned(),
        (hostname, ip) => format!("{hostname} ({ip})"),
    }
}
