//! The operator API: one call, one answer.

use km_mesos_proto::v1::{
    self,
    master::{
        Call, Response,
        call::Type,
        response::{self, Type as ResponseType},
    },
    offer::operation::{self, Type as OperationType},
};

use super::{Answer, Master, event::seconds, operations::operator_operation};

impl Master {
    pub(super) fn operator_call(&mut self, principal: Option<&str>, call: Call) -> Answer {
        let kind = call.r#type();
        if kind == Type::GetMetrics && call.get_metrics.is_none() {
            return missing("get_metrics");
        }
        if let Some(response) = self.read(kind) {
            return Answer::response(response);
        }
        match kind {
            Type::Teardown => match call.teardown {
                Some(teardown) => self.operator_teardown(&teardown.framework_id.value),
                None => missing("teardown"),
            },
            Type::MarkAgentGone => match call.mark_agent_gone {
                Some(gone) => self.operator_mark_gone(&gone.agent_id.value),
                None => missing("mark_agent_gone"),
            },
            Type::DrainAgent => {
                call.drain_agent.map_or_else(|| missing("drain_agent"), |drain| self.drain_agent(drain))
            }
            Type::DeactivateAgent => match call.deactivate_agent {
                Some(deactivate) => self.deactivate_agent(&deactivate.agent_id.value),
                None => missing("deactivate_agent"),
            },
            Type::ReactivateAgent => match call.reactivate_agent {
                Some(reactivate) => self.reactivate_agent(&reactivate.agent_id.value),
                None => missing("reactivate_agent"),
            },
            Type::UpdateMaintenanceSchedule => match call.update_maintenance_schedule {
                Some(update) => self.update_schedule(update.schedule),
                None => missing("update_maintenance_schedule"),
            },
            Type::StartMaintenance => match call.start_maintenance {
                Some(start) => self.start_maintenance(&start.machines),
                None => missing("start_maintenance"),
            },
            Type::StopMaintenance => match call.stop_maintenance {
                Some(stop) => self.stop_maintenance(&stop.machines),
                None => missing("stop_maintenance"),
            },
            Type::UpdateWeights => match call.update_weights {
                Some(update) => self.update_weights(&update.weight_infos),
                None => missing("update_weights"),
            },
            Type::UpdateQuota => match call.update_quota {
                Some(update) => self.update_quota(&update.quota_configs, update.force.unwrap_or(false)),
                None => missing("update_quota"),
            },
            Type::SetQuota => match call.set_quota {
                Some(set) => self.set_quota(&set.quota_request),
                None => missing("set_quota"),
            },
            Type::RemoveQuota => match call.remove_quota {
                Some(remove) => self.remove_quota(&remove.role),
                None => missing("remove_quota"),
            },
            Type::ReserveResources => match call.reserve_resources {
                Some(reserve) => self.operator_reserve(principal, reserve),
                None => missing("reserve_resources"),
            },
            Type::UnreserveResources => match call.unreserve_resources {
                Some(unreserve) => {
                    let mut operation = operator_operation(OperationType::Unreserve);
                    operation.unreserve = Some(operation::Unreserve { resources: unreserve.resources });
                    self.operator_convert(principal, &unreserve.agent_id.value, &operation)
                }
                None => missing("unreserve_resources"),
            },
            Type::CreateVolumes => match call.create_volumes {
                Some(create) => {
                    let mut operation = operator_operation(OperationType::Create);
                    operation.create = Some(operation::Create { volumes: create.volumes });
                    self.operator_convert(principal, &create.agent_id.value, &operation)
                }
                None => missing("create_volumes"),
            },
            Type::DestroyVolumes => match call.destroy_volumes {
                Some(destroy) => {
                    let mut operation = operator_operation(OperationType::Destroy);
                    operation.destroy = Some(operation::Destroy { volumes: destroy.volumes });
                    self.operator_convert(principal, &destroy.agent_id.value, &operation)
                }
                None => missing("destroy_volumes"),
            },
            Type::Unknown => Answer::refused(501, "501 Not Implemented."),
            other => Answer::refused(501, format!("Call {} is not implemented", other.as_str_name())),
        }
    }

    /// Calls that only read.
    fn read(&self, kind: Type) -> Option<Response> {
        let mut response = Response::default();
        let of_type = match kind {
            Type::GetHealth => {
                response.get_health = Some(response::GetHealth { healthy: true });
                ResponseType::GetHealth
            }
            Type::GetFlags => {
                let flag =
                    |(name, value): (&String, &String)| v1::Flag { name: name.clone(), value: Some(value.clone()) };
                response.get_flags = Some(response::GetFlags { flags: self.config.flags.iter().map(flag).collect() });
                ResponseType::GetFlags
            }
            Type::GetVersion => {
                let version_info = v1::VersionInfo { version: self.version(), ..v1::VersionInfo::default() };
                response.get_version = Some(response::GetVersion { version_info });
                ResponseType::GetVersion
            }
            Type::GetMetrics => {
                let metric = |(name, value)| v1::Metric { name, value: Some(value) };
                response.get_metrics =
                    Some(response::GetMetrics { metrics: self.metrics().into_iter().map(metric).collect() });
                ResponseType::GetMetrics
            }
            Type::GetLoggingLevel => {
                response.get_logging_level = Some(response::GetLoggingLevel { level: 0 });
                ResponseType::GetLoggingLevel
            }
            Type::GetState => {
                response.get_state = Some(self.get_state());
                ResponseType::GetState
            }
            Type::GetAgents => {
                response.get_agents = Some(self.get_agents());
                ResponseType::GetAgents
            }
            Type::GetFrameworks => {
                response.get_frameworks = Some(self.get_frameworks());
                ResponseType::GetFrameworks
            }
            Type::GetExecutors => {
                response.get_executors = Some(self.get_executors());
                ResponseType::GetExecutors
            }
            Type::GetOperations => {
                let all = self.agents.values().flat_map(|agent| agent.operations.values());
                response.get_operations = Some(response::GetOperations { operations: all.cloned().collect() });
                ResponseType::GetOperations
            }
            Type::GetTasks => {
                response.get_tasks = Some(self.get_tasks());
                ResponseType::GetTasks
            }
            Type::GetRoles => {
                let roles = self.role_names().iter().map(|name| self.role_view(name)).collect();
                response.get_roles = Some(response::GetRoles { roles });
                ResponseType::GetRoles
            }
            Type::GetWeights => {
                let weight =
                    |(role, weight): (&String, &f64)| v1::WeightInfo { weight: *weight, role: Some(role.clone()) };
                let weight_infos = self.allocator.weights().iter().map(weight).collect();
                response.get_weights = Some(response::GetWeights { weight_infos });
                ResponseType::GetWeights
            }
            Type::GetMaster => {
                response.get_master = Some(response::GetMaster {
                    master_info: Some(self.config.info.clone()),
                    start_time: Some(seconds(self.started)),
                    elected_time: Some(seconds(self.started)),
                });
                ResponseType::GetMaster
            }
            Type::GetMaintenanceStatus => {
                response.get_maintenance_status =
                    Some(response::GetMaintenanceStatus { status: self.maintenance_status() });
                ResponseType::GetMaintenanceStatus
            }
            Type::GetMaintenanceSchedule => {
                let schedule = self.schedule.clone();
                response.get_maintenance_schedule = Some(response::GetMaintenanceSchedule { schedule });
                ResponseType::GetMaintenanceSchedule
            }
            Type::GetQuota => {
                response.get_quota = Some(response::GetQuota { status: self.quota_status() });
                ResponseType::GetQuota
            }
            _ => return None,
        };
        response.r#type = Some(of_type as i32);
        Some(response)
    }

    /// Quota as operators see it.
    pub(super) fn quota_status(&self) -> v1::quota::QuotaStatus {
        let quotas = self.allocator.quotas().iter();
        #[allow(deprecated)]
        let infos = quotas.clone().map(|(role, quota)| quota.to_info(role)).collect();
        #[allow(deprecated)]
        v1::quota::QuotaStatus { configs: quotas.map(|(role, quota)| quota.to_config(role)).collect(), infos }
    }

    /// The version that clients parse as numbers with dots.
    pub(super) fn version(&self) -> String {
        self.config.info.version.clone().unwrap_or_else(|| "1.11.0".to_owned())
    }

    fn operator_teardown(&mut self, framework: &str) -> Answer {
        if !self.frameworks.contains_key(framework) {
            return Answer::refused(400, "No framework found with specified ID");
        }
        self.remove_framework(framework);
        Answer::ok()
    }

    fn operator_mark_gone(&mut self, id: &str) -> Answer {
        if self.gone.contains_key(id) {
            return Answer::ok();
        }
        if self.info_of_agent(id).is_none() {
            return Answer::refused(404, format!("Agent '{id}' not found"));
        }
        self.mark_gone(id);
        Answer::ok()
    }

    /// With `source`, a reservation moves from one role to another: the old one ends and the new one begins at once.
    fn operator_reserve(&mut self, principal: Option<&str>, call: v1::master::call::ReserveResources) -> Answer {
        let agent = call.agent_id.value;
        if !call.source.is_empty() {
            let mut operation = operator_operation(OperationType::Unreserve);
            operation.unreserve = Some(operation::Unreserve { resources: call.source });
            if let Err((status, reason)) = self.convert_by_operator(principal, &agent, &operation) {
                return Answer::refused(status, reason);
            }
        }
        let mut operation = operator_operation(OperationType::Reserve);
        operation.reserve = Some(operation::Reserve { resources: call.resources, source: Vec::new() });
        self.operator_convert(principal, &agent, &operation)
    }

    fn operator_convert(&mut self, principal: Option<&str>, agent: &str, operation: &v1::offer::Operation) -> Answer {
        match self.convert_by_operator(principal, agent, operation) {
            Ok(()) => Answer::accepted(),
            Err((status, reason)) => Answer::refused(status, reason),
        }
    }
}

fn missing(field: &str) -> Answer {
    Answer::refused(400, format!("Failed to validate master::Call: Expecting '{field}' to be present"))
}
