//! Label selectors: a conjunction of requirements on the labels of an object.

use super::SelectorError;
use crate::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    pub key: String,
    pub operator: Operator,
    /// Empty for `Exists` and `DoesNotExist`; one integer for `GreaterThan` and `LessThan`.
    pub values: Vec<String>,
}

/// All requirements must hold. Without any it matches everything; [`LabelSelector::nothing`] matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
    nothing: bool,
}

impl LabelRequirement {
    /// Checks key, number of values and their form.
    ///
    /// # Errors
    /// When the key is no label key, a value no label value, or the number of values does not fit the operator.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        names::qualified_name(key)
            .map_err(|message| SelectorError::Invalid(format!("key: Invalid value: {key:?}: {message}")))?;
        let fits = match operator {
            Operator::In | Operator::NotIn => !values.is_empty(),
            Operator::Exists | Operator::DoesNotExist => values.is_empty(),
            Operator::GreaterThan | Operator::LessThan => {
                matches!(values.as_slice(), [only] if only.parse::<i64>().is_ok())
            }
        };
        if !fits {
            return Err(SelectorError::Invalid(format!(
                "values: Invalid value: {values:?}: {} needs {}",
                operator.name(),
                operator.wanted_values()
            )));
        }
        for value in &values {
            names::label_value(value).map_err(|message| {
                SelectorError::Invalid(format!("values[0][{key}]: Invalid value: {value:?}: {message}"))
            })?;
        }
        Ok(Self { key: key.to_owned(), operator, values })
    }

    /// A missing label satisfies `NotIn` and `DoesNotExist`.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.accepts(labels.get(&self.key).map(String::as_str))
    }

    /// Like [`Self::matches`] for the value of the key itself.
    #[must_use]
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|one| one == value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compares(value, |have, want| have > want),
            Operator::LessThan => self.compares(value, |have, want| have < want),
        }
    }

    fn compares(&self, value: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let have = value.and_then(|value| value.parse().ok());
        let want = self.values.first().and_then(|value| value.parse().ok());
        matches!((have, want), (Some(have), Some(want)) if holds(have, want))
    }
}

impl Operator {
    /// Spelling in selector objects.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::GreaterThan => "Gt",
            Self::LessThan => "Lt",
        }
    }

    /// Reads the spelling of selector objects (`In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::GreaterThan, Self::LessThan]
            .into_iter()
            .find(|operator| operator.name() == name)
    }

    fn wanted_values(self) -> &'static str {
        match self {
            Self::In | Self::NotIn => "at least one value",
            Self::Exists | Self::DoesNotExist => "no values",
            Self::GreaterThan | Self::LessThan => "exactly one integer",
        }
    }
}

impl LabelSelector {
    /// Matches every object.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches no object.
    #[must_use]
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Reads a query text: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`. Empty text matches everything.
    ///
    /// # Errors
    /// When the text does not follow the grammar or a key or value is no label key or value.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Ok(Self { requirements: super::label_text::parse(text)?, nothing: false })
    }

    /// All pairs must be there, as in a Service's or ReplicationController's selector. Without pairs it matches
    /// everything; whoever wants "no selector selects nothing" asks before.
    #[must_use]
    pub fn from_map(pairs: &BTreeMap<String, String>) -> Self {
        let requirement = |(key, value): (&String, &String)| LabelRequirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.clone()],
        };
        Self { requirements: pairs.iter().map(requirement).collect(), nothing: false }
    }

    /// From a `LabelSelector` object (`matchLabels`, `matchExpressions`). `null` matches nothing, `{}` everything.
    ///
    /// # Errors
    /// When the object is not shaped so, or a requirement is not valid.
    pub fn from_object(object: &Value) -> Result<Self, SelectorError> {
        if object.is_null() {
            return Ok(Self::nothing());
        }
        let typed: meta::LabelSelector = serde_json::from_value(object.clone())
            .map_err(|error| SelectorError::Invalid(format!("not a label selector: {error}")))?;
        Self::from_typed(&typed)
    }

    /// Like [`Self::from_object`] for the typed object.
    ///
    /// # Errors
    /// When a requirement is not valid.
    pub fn from_typed(typed: &meta::LabelSelector) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in typed.match_labels.iter().flatten() {
            requirements.push(LabelRequirement::new(key, Operator::In, vec![value.clone()])?);
        }
        for expression in typed.match_expressions.iter().flatten() {
            let operator = Operator::from_name(&expression.operator).ok_or_else(|| {
                SelectorError::Invalid(format!("{:?} is not a valid label selector operator", expression.operator))
            })?;
            let values = expression.values.clone().unwrap_or_default();
            requirements.push(LabelRequirement::new(&expression.key, operator, values)?);
        }
        Ok(Self { requirements, nothing: false })
    }

    /// The requirements, in the order of the text.
    #[must_use]
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Whether it matches every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Like [`Self::matches`] for the labels of an object that may have none.
    #[must_use]
    pub fn matches_meta(&self, object: &meta::ObjectMeta) -> bool {
        match &object.labels {
            Some(labels) => self.matches(labels),
            None => self.matches(&BTreeMap::new()),
        }
    }

    /// Like [`Self::matches`] for `metadata.labels` of an object.
    #[must_use]
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        self.matches(&labels.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect())
    }
}

/// The text form that `parse` reads, as Kubernetes prints it in `status.selector`.
impl fmt::Display for LabelSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nothing {
            return out.write_str("<none>");
        }
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                out.write_str(",")?;
            }
            write!(out, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::In if self.values.len() == 1 => write!(out, "{key}={values}"),
            Operator::NotIn if self.values.len() == 1 => write!(out, "{key}!={values}"),
            Operator::In => write!(out, "{key} in ({values})"),
            Operator::NotIn => write!(out, "{key} notin ({values})"),
            Operator::Exists => write!(out, "{key}"),
            Operator::DoesNotExist => write!(out, "!{key}"),
            Operator::GreaterThan => write!(out, "{key}>{values}"),
            Operator::LessThan => write!(out, "{key}<{values}"),
        }
    }
}
