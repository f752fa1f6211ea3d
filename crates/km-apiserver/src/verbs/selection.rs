//! The label and field selectors of a request.

use km_kube::selector::{FieldSelector, LabelSelector};
use km_store::Stored;

use crate::{context::Context, failure::Failure};

/// Which objects a list, watch or collection delete is about.
pub struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Reads `labelSelector` and `fieldSelector`, and the name of the path for watches of one object.
    pub fn of(ctx: &Context) -> Result<Self, Failure> {
        let labels = LabelSelector::parse(ctx.query.get("labelSelector").unwrap_or_default())
            .map_err(|error| Failure::bad_request(format!("unable to parse labelSelector: {error}")))?;
        let mut text = ctx.query.get("fieldSelector").unwrap_or_default().to_owned();
        if let Some(name) = &ctx.name {
            text = format!("metadata.name={name}{}{text}", if text.is_empty() { "" } else { "," });
        }
        let fields = FieldSelector::parse(&text)
            .map_err(|error| Failure::bad_request(format!("unable to parse fieldSelector: {error}")))?;
        for requirement in fields.requirements() {
            if !ctx.kind.selects(&requirement.field) {
                return Err(Failure::bad_request(format!("field label not supported: {}", requirement.field)));
            }
        }
        Ok(Self { labels, fields })
    }

    /// Whether everything is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether an object is selected.
    pub fn matches(&self, stored: &Stored) -> bool {
        self.labels.matches(&stored.facets.labels)
            && self.fields.requirements().iter().all(|requirement| {
                let value = match requirement.field.as_str() {
                    "metadata.name" => &stored.key.name,
                    "metadata.namespace" => &stored.key.namespace,
                    label => stored.facets.field(label),
                };
                (value == requirement.value) != requirement.negated
            })
    }
}
