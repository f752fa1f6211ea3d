//! CommandInfo, ContainerInfo and their volumes (M143 to M146, X042 to X044).

use km_mesos_proto::v1::{self, container_info, environment::variable, secret, volume::source};

use super::ensure;

pub(in crate::master) fn command(command: &v1::CommandInfo) -> Result<(), String> {
    let variables = command.environment.iter().flat_map(|environment| &environment.variables);
    for one in variables {
        environment_variable(one)?;
    }
    Ok(())
}

fn environment_variable(one: &v1::environment::Variable) -> Result<(), String> {
    let name = &one.name;
    match variable::Type::try_from(one.r#type() as i32).unwrap_or(variable::Type::Unknown) {
        variable::Type::Unknown => Err("Environment variable of type 'UNKNOWN' is not allowed".to_owned()),
        variable::Type::Value => {
            ensure(one.value.is_some(), || {
                format!("Environment variable '{name}' of type 'VALUE' must have a value set")
            })?;
            ensure(one.secret.is_none(), || {
                format!("Environment variable '{name}' of type 'VALUE' must not have a secret set")
            })
        }
        variable::Type::Secret => {
            let Some(secret) = &one.secret else {
                return Err(format!("Environment variable '{name}' of type 'SECRET' must have a secret set"));
            };
            ensure(one.value.is_none(), || {
                format!("Environment variable '{name}' of type 'SECRET' must not have a value set")
            })?;
            secret_of(secret)
                .map_err(|reason| format!("Environment variable '{name}' specifies an invalid secret: {reason}"))?;
            let has_nul = secret.value.as_ref().is_some_and(|value| value.data.contains(&0));
            ensure(!has_nul, || {
                format!(
                    "Environment variable '{name}' specifies a secret containing null bytes, which is not allowed in the environment"
                )
            })
        }
    }
}

fn secret_of(one: &v1::Secret) -> Result<(), String> {
    match one.r#type() {
        secret::Type::Reference => {
            ensure(one.reference.is_some(), || {
                "Secret of type REFERENCE must have the 'reference' field set".to_owned()
            })?;
            ensure(one.value.is_none(), || "Secret of type REFERENCE must not have the 'value' field set".to_owned())
        }
        secret::Type::Value => {
            ensure(one.value.is_some(), || "Secret of type VALUE must have the 'value' field set".to_owned())?;
            ensure(one.reference.is_none(), || {
                "Secret of type VALUE must not have the 'reference' field set".to_owned()
            })
        }
        secret::Type::Unknown => Err("Secret of type UNKNOWN is not allowed".to_owned()),
    }
}

pub(in crate::master) fn container(container: &v1::ContainerInfo) -> Result<(), String> {
    for one in &container.volumes {
        volume(one).map_err(|reason| format!("Invalid volume: {reason}"))?;
    }
    if container.r#type != container_info::Type::Docker as i32 {
        return Ok(());
    }
    let Some(docker) = &container.docker else {
        return Err("DockerInfo 'docker' is not set for DOCKER typed ContainerInfo".to_owned());
    };
    ensure(docker.parameters.iter().all(|parameter| parameter.key != "name"), || {
        "Parameter in DockerInfo must not be 'name'".to_owned()
    })
}

fn volume(volume: &v1::Volume) -> Result<(), String> {
    let sources = [volume.host_path.is_some(), volume.image.is_some(), volume.source.is_some()];
    ensure(sources.into_iter().filter(|set| *set).count() == 1, || {
        "Only one of them should be set: 'host_path', 'image' and 'source'".to_owned()
    })?;
    let Some(source) = &volume.source else { return Ok(()) };
    let (field, kind, set) = match source.r#type() {
        source::Type::DockerVolume => ("docker_volume", "DOCKER_VOLUME", source.docker_volume.is_some()),
        source::Type::HostPath => ("host_path", "HOST_PATH", source.host_path.is_some()),
        source::Type::SandboxPath => ("sandbox_path", "SANDBOX_PATH", source.sandbox_path.is_some()),
        source::Type::Secret => ("secret", "SECRET", source.secret.is_some()),
        source::Type::CsiVolume => return Ok(()),
        source::Type::Unknown => return Err("'source.type' is unknown".to_owned()),
    };
    ensure(set, || format!("'source.{field}' is not set for {kind} volume"))
}
