//! The table itself and the questions one may ask a type.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(super) const TEXT: &str = include_str!("../../schema/v1_37.json");
pub(super) const REF_PREFIX: &str = "#/components/schemas/";

pub(super) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // The text is part of the program and a test reads it: it cannot be malformed here.
        #[expect(clippy::expect_used, reason = "the embedded table is read by every test")]
        serde_json::from_str(TEXT).expect("the embedded type table is well-formed")
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct Table {
    pub kinds: Vec<Kind>,
    pub types: BTreeMap<String, Node>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    #[serde(rename = "type")]
    pub type_name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Node {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    #[serde(rename = "type")]
    json_type: Option<String>,
    format: Option<String>,
    #[serde(default)]
    required: Vec<String>,
    properties: Option<BTreeMap<String, Node>>,
    items: Option<Box<Node>>,
    #[serde(rename = "additionalProperties")]
    values: Option<Box<Node>>,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: Option<String>,
    #[serde(rename = "x-kubernetes-list-map-keys", default)]
    list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-map-type")]
    map_type: Option<String>,
    #[serde(rename = "x-kubernetes-patch-strategy")]
    patch_strategy: Option<String>,
    #[serde(rename = "x-kubernetes-patch-merge-key")]
    patch_merge_key: Option<String>,
}

impl Table {
    pub(super) fn kind(&'static self, group: &str, version: &str, kind: &str) -> Option<TypeRef> {
        let found = self.kinds.iter().find(|k| k.group == group && k.version == version && k.kind == kind)?;
        self.types.get(&found.type_name).map(|node| TypeRef { place: node, definition: node })
    }

    fn at(&'static self, place: &'static Node) -> TypeRef {
        let name = place.reference.as_deref().and_then(|reference| reference.strip_prefix(REF_PREFIX));
        let definition = name.and_then(|name| self.types.get(name)).unwrap_or(place);
        TypeRef { place, definition }
    }
}

/// The kind of JSON value that a type takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Named fields; others are unknown.
    Object,
    /// Any keys, all values of one type.
    Map,
    List,
    String,
    /// `date-time` text.
    Time,
    /// Base64 text.
    Bytes,
    /// Whole number within 32 bits.
    Int32,
    /// Whole number within 64 bits.
    Int64,
    Number,
    Boolean,
    IntOrString,
    Quantity,
    /// An object of unknown fields.
    Any,
}

/// How server-side apply merges a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map,
}

/// A type at a place: its definition, and how the place that mentions it merges.
#[derive(Clone, Copy, Debug)]
pub struct TypeRef {
    place: &'static Node,
    definition: &'static Node,
}

impl TypeRef {
    #[must_use]
    pub fn shape(self) -> Shape {
        let node = self.definition;
        match (node.json_type.as_deref(), node.format.as_deref()) {
            (Some("object"), _) if node.properties.is_some() => Shape::Object,
            (Some("object"), _) if node.values.is_some() => Shape::Map,
            (Some("array"), _) => Shape::List,
            (Some("string"), Some("quantity")) => Shape::Quantity,
            (Some("string"), Some("date-time")) => Shape::Time,
            (Some("string"), Some("byte")) => Shape::Bytes,
            (Some("string"), _) => Shape::String,
            (Some("integer"), Some("int32")) => Shape::Int32,
            (Some("integer"), _) => Shape::Int64,
            (Some("number"), _) => Shape::Number,
            (Some("boolean"), _) => Shape::Boolean,
            (None, Some("int-or-string")) => Shape::IntOrString,
            _ => Shape::Any,
        }
    }

    /// The type of a field of an object, or of a map's values.
    #[must_use]
    pub fn field(self, name: &str) -> Option<Self> {
        match &self.definition.properties {
            Some(properties) => properties.get(name).map(|node| table().at(node)),
            None => self.definition.values.as_deref().map(|node| table().at(node)),
        }
    }

    /// Named fields in alphabetical order; none for anything but an object.
    pub fn fields(self) -> impl Iterator<Item = (&'static str, Self)> {
        self.definition.properties.iter().flatten().map(|(name, node)| (name.as_str(), table().at(node)))
    }

    /// The type of a list's items.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        self.definition.items.as_deref().map(|node| table().at(node))
    }

    /// Fields that an object must have.
    #[must_use]
    pub fn required(self) -> &'static [String] {
        &self.definition.required
    }

    /// How server-side apply merges this list; atomic when nothing is said.
    #[must_use]
    pub fn list_type(self) -> ListType {
        match self.either(|node| node.list_type.as_deref()) {
            Some("map") => ListType::Map,
            Some("set") => ListType::Set,
            _ => ListType::Atomic,
        }
    }

    /// The fields that identify an item of a [`ListType::Map`].
    #[must_use]
    pub fn list_map_keys(self) -> &'static [String] {
        let place = &self.place.list_map_keys;
        if place.is_empty() { &self.definition.list_map_keys } else { place }
    }

    /// Whether server-side apply replaces this object or map as a whole.
    #[must_use]
    pub fn is_atomic_map(self) -> bool {
        self.either(|node| node.map_type.as_deref()) == Some("atomic")
    }

    /// Whether a strategic merge patch merges this list (a list of objects by [`Self::merge_key`]).
    #[must_use]
    pub fn patch_merges(self) -> bool {
        self.has_patch_strategy("merge")
    }

    /// Whether a strategic merge patch replaces this object as a whole.
    #[must_use]
    pub fn patch_replaces(self) -> bool {
        self.has_patch_strategy("replace")
    }

    /// The field that identifies an item in a strategic merge patch.
    #[must_use]
    pub fn merge_key(self) -> Option<&'static str> {
        self.either(|node| node.patch_merge_key.as_deref())
    }

    fn has_patch_strategy(self, strategy: &str) -> bool {
        let strategies = self.either(|node| node.patch_strategy.as_deref());
        strategies.is_some_and(|text| text.split(',').any(|one| one == strategy))
    }

    /// What the place says, else what the definition says.
    fn either(self, of: impl Fn(&'static Node) -> Option<&'static str>) -> Option<&'static str> {
        of(self.place).or_else(|| of(self.definition))
    }
}
