//! What operations on resources do: RESERVE, UNRESERVE, CREATE, DESTROY, GROW_VOLUME, SHRINK_VOLUME.

use super::{Resource, ResourceError, Resources, Scalar, Value};
use crate::v1::{
    self,
    offer::{Operation, operation},
};

/// One step of an operation: what it takes and what it makes of that. Amounts are the same on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion {
    /// Must be there before.
    pub consumed: Resources,
    /// Is there in its place.
    pub converted: Resources,
}

impl Conversion {
    /// The steps of an operation, in order. Launches convert nothing.
    ///
    /// # Errors
    /// The operation is malformed, unknown, or needs a resource provider (`CREATE_DISK`, `DESTROY_DISK`).
    pub fn of(operation: &Operation) -> Result<Vec<Self>, ResourceError> {
        let missing = |field: &str| ResourceError::new(format!("Invalid operation: '{field}' is not set"));
        match operation.r#type() {
            operation::Type::Launch | operation::Type::LaunchGroup => Ok(Vec::new()),
            operation::Type::Reserve => {
                each("RESERVE", &operation.reserve.as_ref().ok_or_else(|| missing("reserve"))?.resources, reserve)
            }
            operation::Type::Unreserve => {
                let resources = &operation.unreserve.as_ref().ok_or_else(|| missing("unreserve"))?.resources;
                each("UNRESERVE", resources, |resource| reserve(resource).map(Self::reversed))
            }
            operation::Type::Create => {
                each("CREATE", &operation.create.as_ref().ok_or_else(|| missing("create"))?.volumes, create)
            }
            operation::Type::Destroy => {
                let volumes = &operation.destroy.as_ref().ok_or_else(|| missing("destroy"))?.volumes;
                each("DESTROY", volumes, |volume| create(volume).map(Self::reversed))
            }
            operation::Type::GrowVolume => {
                let grow = operation.grow_volume.as_ref().ok_or_else(|| missing("grow_volume"))?;
                let volume = read("GROW_VOLUME", &grow.volume)?;
                let addition = read("GROW_VOLUME", &grow.addition)?;
                let grown = resized(&volume, amount(&volume) + amount(&addition));
                Ok(vec![Self { consumed: [volume, addition].into_iter().collect(), converted: grown.into() }])
            }
            operation::Type::ShrinkVolume => {
                let shrink = operation.shrink_volume.as_ref().ok_or_else(|| missing("shrink_volume"))?;
                shrink_volume(read("SHRINK_VOLUME", &shrink.volume)?, Scalar::from_f64(shrink.subtract.value))
                    .map(|step| vec![step])
            }
            kind @ (operation::Type::CreateDisk | operation::Type::DestroyDisk | operation::Type::Unknown) => {
                Err(ResourceError::new(format!("Operation {} is not supported", kind.as_str_name())))
            }
        }
    }

    fn reversed(self) -> Self {
        Self { consumed: self.converted, converted: self.consumed }
    }
}

impl Resources {
    /// What this becomes by the operation.
    ///
    /// # Errors
    /// The operation is malformed, needs what isn't here, or destroys a shared volume of which there are more copies.
    pub fn apply(&self, operation: &Operation) -> Result<Self, ResourceError> {
        let name = operation.r#type().as_str_name();
        let mut result = self.clone();
        for step in Conversion::of(operation)? {
            if !result.contains(&step.consumed) {
                return Err(ResourceError::new(format!("{result} does not contain {}", step.consumed)));
            }
            result -= &step.consumed;
            if operation.r#type() == operation::Type::Destroy && result.contains(&step.consumed) {
                return Err(ResourceError::new(format!(
                    "Invalid {name} Operation: Persistent volume {} cannot be removed due to additional shared copies",
                    step.consumed
                )));
            }
            result += step.converted;
        }
        Ok(result)
    }
}

fn each(
    name: &str,
    resources: &[v1::Resource],
    convert: impl Fn(Resource) -> Result<Conversion, &'static str>,
) -> Result<Vec<Conversion>, ResourceError> {
    let step = |resource| {
        convert(read(name, resource)?)
            .map_err(|reason| ResourceError::new(format!("Invalid {name} Operation: {reason}")))
    };
    resources.iter().map(step).collect()
}

fn read(name: &str, resource: &v1::Resource) -> Result<Resource, ResourceError> {
    Resource::from_proto(resource).map_err(|error| ResourceError::new(format!("Invalid {name} Operation: {error}")))
}

/// The last level of reservation is put on.
fn reserve(reserved: Resource) -> Result<Conversion, &'static str> {
    if !reserved.is_reserved() {
        return Err("Resource must be reserved");
    }
    if !reserved.is_dynamically_reserved() {
        return Err("Resource must be dynamically reserved");
    }
    let reserved = Resources::from(reserved);
    Ok(Conversion { consumed: reserved.pop_reservation(), converted: reserved })
}

/// Plain disk becomes a persistent volume.
fn create(volume: Resource) -> Result<Conversion, &'static str> {
    if volume.disk.is_none() {
        return Err("Missing 'disk'");
    }
    if !volume.is_persistent_volume() {
        return Err("Missing 'persistence'");
    }
    Ok(Conversion { consumed: plain_disk(&volume).into(), converted: volume.into() })
}

/// The disk of which a volume was made. Only volumes are shared.
fn plain_disk(volume: &Resource) -> Resource {
    let source = volume.disk.as_ref().and_then(|disk| disk.source.clone());
    let disk = source.map(|source| v1::resource::DiskInfo { source: Some(source), ..Default::default() });
    Resource { disk, shared: false, ..volume.clone() }
}

fn shrink_volume(volume: Resource, subtract: Scalar) -> Result<Conversion, ResourceError> {
    if subtract <= Scalar::ZERO || subtract >= amount(&volume) {
        return Err(ResourceError::new(format!(
            "Invalid SHRINK_VOLUME Operation: 'subtract' must be more than 0 and less than the volume's {}",
            amount(&volume)
        )));
    }
    let rest = resized(&volume, amount(&volume) - subtract);
    let freed = resized(&plain_disk(&volume), subtract);
    Ok(Conversion { consumed: volume.into(), converted: [rest, freed].into_iter().collect() })
}

fn amount(resource: &Resource) -> Scalar {
    resource.value.quantity()
}

fn resized(resource: &Resource, amount: Scalar) -> Resource {
    Resource { value: Value::Scalar(amount), ..resource.clone() }
}
