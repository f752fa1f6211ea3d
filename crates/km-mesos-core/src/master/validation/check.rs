//! Checks and health checks of tasks (M157, M158).

use km_mesos_proto::v1::{self, check_info, health_check};

use super::{container, ensure};

pub(in crate::master) fn check(info: &v1::CheckInfo) -> Result<(), String> {
    let Some(kind) = info.r#type else { return Err("CheckInfo must specify 'type'".to_owned()) };
    match check_info::Type::try_from(kind).unwrap_or(check_info::Type::Unknown) {
        check_info::Type::Unknown => return Err("'UNKNOWN' is not a valid check type".to_owned()),
        check_info::Type::Command => {
            let Some(command) = info.command.as_ref().map(|command| &command.command) else {
                return Err("Expecting 'command' to be set for COMMAND check".to_owned());
            };
            shell_command(command).map_err(|reason| format!("Command check must contain {reason}"))?;
            container::command(command).map_err(|reason| format!("Check's `CommandInfo` is invalid: {reason}"))?;
        }
        check_info::Type::Http => {
            let Some(http) = &info.http else { return Err("Expecting 'http' to be set for HTTP check".to_owned()) };
            if let Some(path) = &http.path {
                ensure(path.starts_with('/'), || format!("The path '{path}' of HTTP check must start with '/'"))?;
            }
        }
        check_info::Type::Tcp => {
            ensure(info.tcp.is_some(), || "Expecting 'tcp' to be set for TCP check".to_owned())?;
        }
    }
    let times = [
        ("delay_seconds", info.delay_seconds),
        ("interval_seconds", info.interval_seconds),
        ("timeout_seconds", info.timeout_seconds),
    ];
    non_negative(&times)
}

pub(in crate::master) fn health_check(info: &v1::HealthCheck) -> Result<(), String> {
    let Some(kind) = info.r#type else { return Err("HealthCheck must specify 'type'".to_owned()) };
    match health_check::Type::try_from(kind).unwrap_or(health_check::Type::Unknown) {
        health_check::Type::Unknown => return Err("'UNKNOWN' is not a valid health check type".to_owned()),
        health_check::Type::Command => {
            let Some(command) = &info.command else {
                return Err("Expecting 'command' to be set for COMMAND health check".to_owned());
            };
            shell_command(command).map_err(|reason| format!("Command health check must contain {reason}"))?;
            container::command(command)
                .map_err(|reason| format!("Health check's `CommandInfo` is invalid: {reason}"))?;
        }
        health_check::Type::Http => {
            let Some(http) = &info.http else {
                return Err("Expecting 'http' to be set for HTTP health check".to_owned());
            };
            if let Some(scheme) = &http.scheme {
                ensure(scheme == "http" || scheme == "https", || {
                    format!("Unsupported HTTP health check scheme: '{scheme}'")
                })?;
            }
            if let Some(path) = &http.path {
                ensure(path.starts_with('/'), || {
                    format!("The path '{path}' of HTTP health check must start with '/'")
                })?;
            }
        }
        health_check::Type::Tcp => {
            ensure(info.tcp.is_some(), || "Expecting 'tcp' to be set for TCP health check".to_owned())?;
        }
    }
    let times = [
        ("delay_seconds", info.delay_seconds),
        ("grace_period_seconds", info.grace_period_seconds),
        ("interval_seconds", info.interval_seconds),
        ("timeout_seconds", info.timeout_seconds),
    ];
    non_negative(&times)
}

/// With a shell there must be a `value`, without one a program to run.
fn shell_command(command: &v1::CommandInfo) -> Result<(), String> {
    let kind = if command.shell.unwrap_or(true) { "'shell command'" } else { "'executable path'" };
    ensure(command.value.is_some(), || kind.to_owned())
}

fn non_negative(times: &[(&str, Option<f64>)]) -> Result<(), String> {
    for (name, value) in times {
        ensure(value.is_none_or(|value| value >= 0.0), || format!("Expecting '{name}' to be non-negative"))?;
    }
    Ok(())
}
