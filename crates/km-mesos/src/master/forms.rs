//! The older endpoints that change something: forms for reservations, volumes and teardown, JSON for weights. Each
//! becomes a call of the operator API.

use std::{collections::BTreeMap, sync::Arc};

use axum::body::Body;
use http::{HeaderValue, Method, Response, StatusCode, header};
use km_mesos_core::master::Event;
use km_mesos_proto::{
    json::from_value,
    v1::{
        self,
        master::{self, call, call::Type},
    },
};
use serde_json::Value;

use super::{
    auth::Realm,
    operator_api::to_response,
    routes::{Call, parameters},
    shell::Shell,
};
use crate::wire::{Encoding, Refusal, only, refuse, text};

/// What a form is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Teardown,
    Reserve,
    Unreserve,
    CreateVolumes,
    DestroyVolumes,
}

impl Form {
    /// The form of an endpoint's path.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "teardown" => Self::Teardown,
            "reserve" => Self::Reserve,
            "unreserve" => Self::Unreserve,
            "create-volumes" => Self::CreateVolumes,
            "destroy-volumes" => Self::DestroyVolumes,
            _ => return None,
        })
    }
}

/// Answers a form that was sent.
pub(super) fn serve(shell: &Arc<Shell>, request: &Call, form: Form) -> Response<Body> {
    judge(shell, request, form).unwrap_or_else(|refusal| *refusal)
}

fn judge(shell: &Arc<Shell>, request: &Call, form: Form) -> Result<Response<Body>, Refusal> {
    let principal = shell.auth.principal(Realm::ReadWrite, &request.parts.headers)?;
    if request.parts.method != Method::POST {
        return Err(Box::new(only("POST", &request.parts.method)));
    }
    let fields = parameters(&String::from_utf8_lossy(&request.body));
    let call = Box::new(read(form, &fields)?);
    Ok(to_response(shell.handle(Event::OperatorCall { principal, call }), Encoding::Json))
}

fn read(form: Form, fields: &BTreeMap<String, String>) -> Result<master::Call, Refusal> {
    let field = |name: &str| {
        let missing = || bad(format!("Missing '{name}' query parameter in the request body"));
        fields.get(name).ok_or_else(missing)
    };
    if form == Form::Teardown {
        let teardown = call::Teardown { framework_id: v1::FrameworkId::new(field("frameworkId")?) };
        return Ok(master::Call {
            r#type: Some(Type::Teardown as i32),
            teardown: Some(teardown),
            ..Default::default()
        });
    }
    let agent_id = v1::AgentId { value: field("slaveId")?.clone() };
    // The words are not the same for all of them there.
    let parsing = if form == Form::Unreserve { "Error in parsing" } else { "Error parsing" };
    let list = |name: &str| resources(parsing, name, field(name)?);
    let mut call = master::Call::default();
    let kind = match form {
        Form::Reserve => {
            let resources = list("resources")?;
            call.reserve_resources = Some(call::ReserveResources { agent_id, resources, source: Vec::new() });
            Type::ReserveResources
        }
        Form::Unreserve => {
            call.unreserve_resources = Some(call::UnreserveResources { agent_id, resources: list("resources")? });
            Type::UnreserveResources
        }
        Form::CreateVolumes => {
            call.create_volumes = Some(call::CreateVolumes { agent_id, volumes: list("volumes")? });
            Type::CreateVolumes
        }
        Form::DestroyVolumes | Form::Teardown => {
            call.destroy_volumes = Some(call::DestroyVolumes { agent_id, volumes: list("volumes")? });
            Type::DestroyVolumes
        }
    };
    call.r#type = Some(kind as i32);
    Ok(call)
}

fn bad(reason: String) -> Refusal {
    refuse(StatusCode::BAD_REQUEST, reason)
}

fn resources(parsing: &str, name: &str, text: &str) -> Result<Vec<v1::Resource>, Refusal> {
    let wrong = |reason: String| bad(format!("{parsing} '{name}' query parameter in the request body: {reason}"));
    let all: Vec<Value> = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    all.iter().map(|one| from_value(one).map_err(|error| wrong(error.to_string()))).collect()
}

/// `PUT /weights` with a JSON array of roles and weights. Other methods than this and GET are refused.
pub(super) fn weights(shell: &Arc<Shell>, request: &Call) -> Option<Response<Body>> {
    match request.parts.method {
        Method::GET | Method::HEAD => None,
        Method::PUT => Some(put_weights(shell, request).unwrap_or_else(|refusal| *refusal)),
        ref other => {
            let reason =
                format!("405 Method Not Allowed. Expecting one of {{ 'GET', 'PUT' }}, but received '{other}'.");
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, reason);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, PUT"));
            Some(response)
        }
    }
}

fn put_weights(shell: &Arc<Shell>, request: &Call) -> Result<Response<Body>, Refusal> {
    let principal = shell.auth.principal(Realm::ReadWrite, &request.parts.headers)?;
    let body = String::from_utf8_lossy(&request.body);
    let parsed: Result<Vec<Value>, _> = serde_json::from_str(&body);
    let all = parsed.map_err(|error| bad(format!("Failed to parse update weights request JSON '{body}': {error}")))?;
    let read = |one: &Value| {
        from_value(one)
            .map_err(|error| bad(format!("Failed to convert weights JSON array to protobuf '{body}': {error}")))
    };
    let weight_infos = all.iter().map(read).collect::<Result<_, _>>()?;
    let call = Box::new(master::Call {
        r#type: Some(Type::UpdateWeights as i32),
        update_weights: Some(call::UpdateWeights { weight_infos }),
        ..Default::default()
    });
    Ok(to_response(shell.handle(Event::OperatorCall { principal, call }), Encoding::Json))
}
