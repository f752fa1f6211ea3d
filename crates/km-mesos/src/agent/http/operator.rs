//! `POST /api/v1`: the operator API of an agent.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, StatusCode},
    response::Response as HttpResponse,
};
use km_mesos_proto::v1::{
    self,
    agent::{Call, Response, call, response},
};

use super::headers;
use super::{
    super::{MESOS_VERSION, shared::Shared},
    files, metrics, v0,
};
use crate::wire::{Refusal, message, parse, refuse};

pub(super) async fn call(shared: &Arc<Shared>, headers: &HeaderMap, body: &[u8]) -> HttpResponse {
    answer(shared, headers, body).await.unwrap_or_else(|refusal| *refusal)
}

async fn answer(shared: &Arc<Shared>, headers: &HeaderMap, body: &[u8]) -> Result<HttpResponse, Refusal> {
    headers::check_request(headers)?;
    let call: Call = parse(headers, body)?;
    let encoding = headers::answer_encoding(headers, call.r#type().as_str_name())?;
    let missing = |name: &str| {
        refuse(StatusCode::BAD_REQUEST, format!("Failed to validate agent::Call: Expecting '{name}' to be present"))
    };
    let mut answer = Response::default();
    let kind = match call.r#type() {
        call::Type::Unknown if call.r#type.is_none() => return Err(missing("type")),
        call::Type::GetHealth => {
            answer.get_health = Some(response::GetHealth { healthy: true });
            response::Type::GetHealth
        }
        call::Type::GetVersion => {
            let version_info = v1::VersionInfo { version: MESOS_VERSION.to_owned(), ..Default::default() };
            answer.get_version = Some(response::GetVersion { version_info });
            response::Type::GetVersion
        }
        call::Type::GetFlags => {
            let flag = |(name, value)| v1::Flag { name, value: Some(value) };
            answer.get_flags = Some(response::GetFlags { flags: v0::flags(shared).into_iter().map(flag).collect() });
            response::Type::GetFlags
        }
        call::Type::GetMetrics => {
            let metric = |(name, value): (String, f64)| v1::Metric { name, value: Some(value) };
            answer.get_metrics =
                Some(response::GetMetrics { metrics: metrics::metrics(shared).into_iter().map(metric).collect() });
            response::Type::GetMetrics
        }
        call::Type::GetState => {
            answer.get_state = Some(shared.core().get_state());
            response::Type::GetState
        }
        call::Type::GetContainers => {
            answer.get_containers = Some(shared.core().get_containers());
            response::Type::GetContainers
        }
        call::Type::GetOperations => {
            answer.get_operations = Some(shared.core().get_operations());
            response::Type::GetOperations
        }
        call::Type::GetTasks => {
            answer.get_tasks = Some(shared.core().get_tasks());
            response::Type::GetTasks
        }
        call::Type::GetExecutors => {
            answer.get_executors = Some(shared.core().get_executors());
            response::Type::GetExecutors
        }
        call::Type::GetFrameworks => {
            answer.get_frameworks = Some(shared.core().get_frameworks());
            response::Type::GetFrameworks
        }
        call::Type::GetAgent => {
            let core = shared.core();
            let draining = core.draining();
            answer.get_agent = Some(response::GetAgent {
                agent_info: Some(core.info().clone()),
                drain_config: draining.map(|(config, _)| *config),
                estimated_drain_start_time: draining.map(|(_, since)| v1::TimeInfo {
                    nanoseconds: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
                }),
            });
            response::Type::GetAgent
        }
        call::Type::ListFiles => {
            let path = call.list_files.ok_or_else(|| missing("list_files"))?.path;
            let file_infos = files::list(shared, path).await.map_err(files::Problem::into_refusal)?;
            answer.list_files = Some(response::ListFiles { file_infos });
            response::Type::ListFiles
        }
        call::Type::ReadFile => {
            let wanted = call.read_file.ok_or_else(|| missing("read_file"))?;
            let (size, data) = files::read(shared, wanted.path, wanted.offset, wanted.length)
                .await
                .map_err(files::Problem::into_refusal)?;
            answer.read_file = Some(response::ReadFile { size, data });
            response::Type::ReadFile
        }
        call::Type::Unknown => return Err(refuse(StatusCode::NOT_IMPLEMENTED, "501 Not Implemented.")),
        other => {
            let text = format!("The embedded agent does not implement {}", other.as_str_name());
            return Err(refuse(StatusCode::NOT_IMPLEMENTED, text));
        }
    };
    answer.r#type = Some(kind.into());
    Ok(message(encoding, &answer))
}
