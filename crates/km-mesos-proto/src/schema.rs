//! What the messages are made of, read once from the compiled `.proto` files: names, kinds, defaults.

use std::{collections::HashMap, sync::LazyLock};

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// All message types, found by full name and then by index.
pub(crate) struct Schema {
    messages: Vec<MessageType>,
    enums: Vec<EnumType>,
    by_name: HashMap<String, usize>,
}

/// One message type. Fields are in the order of their numbers.
#[derive(Default)]
pub(crate) struct MessageType {
    pub fields: Vec<Field>,
    by_name: HashMap<String, usize>,
    is_map_entry: bool,
}

/// One field of a message.
pub(crate) struct Field {
    pub number: u32,
    pub name: String,
    pub kind: Kind,
    pub shape: Shape,
    pub required: bool,
    /// The explicit default, when Mesos prints it for an unset field: not for deprecated fields.
    pub shown_default: Option<Default>,
}

/// How often a field occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Single,
    Repeated,
    /// Repeated messages of a key and a value.
    Map,
}

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Double,
    Float,
    String,
    Bytes,
    Enum(usize),
    Message(usize),
}

/// A default as it is printed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Default {
    Bool(bool),
    Integer(i64),
    Double(f64),
    Text(String),
}

/// An enumeration: its names and numbers.
pub(crate) struct EnumType {
    names: HashMap<i32, String>,
    numbers: HashMap<String, i32>,
}

/// The types of this crate's own messages.
pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let descriptors = FileDescriptorSet::decode(&include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"))[..]);
    // The build script wrote these bytes from checked files, so a failure would be a broken build.
    Schema::new(&descriptors.expect("the build's own descriptors decode"))
});

impl Schema {
    /// The type of a Rust message.
    pub fn of<M: prost::Name>(&self) -> &MessageType {
        let name = M::full_name();
        // Names and descriptors are generated from the same files in one build.
        let index = self.by_name.get(&name).expect("every generated message has a descriptor");
        &self.messages[*index]
    }

    pub fn message(&self, index: usize) -> &MessageType {
        &self.messages[index]
    }

    pub fn enumeration(&self, index: usize) -> &EnumType {
        &self.enums[index]
    }

    fn new(files: &FileDescriptorSet) -> Self {
        let mut types = Types::default();
        for file in &files.file {
            types.collect(file.package(), &file.message_type, &file.enum_type);
        }
        let messages = types.messages.iter().map(|(_, message)| types.message(message)).collect::<Vec<_>>();
        let mut schema = Self { messages, enums: types.enums, by_name: types.message_index };
        schema.mark_maps();
        schema
    }

    fn mark_maps(&mut self) {
        let entries: Vec<bool> = self.messages.iter().map(|message| message.is_map_entry).collect();
        for field in self.messages.iter_mut().flat_map(|message| &mut message.fields) {
            if matches!(field.kind, Kind::Message(index) if entries[index]) {
                field.shape = Shape::Map;
            }
        }
    }
}

impl MessageType {
    pub fn by_number(&self, number: u32) -> Option<(usize, &Field)> {
        let index = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some((index, &self.fields[index]))
    }

    pub fn by_name(&self, name: &str) -> Option<(usize, &Field)> {
        let index = *self.by_name.get(name)?;
        Some((index, &self.fields[index]))
    }
}

impl EnumType {
    pub fn name(&self, number: i32) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }

    pub fn number(&self, name: &str) -> Option<i32> {
        self.numbers.get(name).copied()
    }
}

/// Types found so far, with their places, so that fields can point at types that come later.
#[derive(std::default::Default)]
struct Types<'a> {
    messages: Vec<(String, &'a DescriptorProto)>,
    message_index: HashMap<String, usize>,
    enums: Vec<EnumType>,
    enum_index: HashMap<String, usize>,
}

impl<'a> Types<'a> {
    fn collect(&mut self, scope: &str, messages: &'a [DescriptorProto], enums: &'a [EnumDescriptorProto]) {
        for enumeration in enums {
            self.enum_index.insert(format!("{scope}.{}", enumeration.name()), self.enums.len());
            let pairs = || enumeration.value.iter().map(|value| (value.number(), value.name().to_owned()));
            self.enums.push(EnumType {
                names: pairs().collect(),
                numbers: pairs().map(|(number, name)| (name, number)).collect(),
            });
        }
        for message in messages {
            let name = format!("{scope}.{}", message.name());
            self.message_index.insert(name.clone(), self.messages.len());
            self.messages.push((name.clone(), message));
            self.collect(&name, &message.nested_type, &message.enum_type);
        }
    }

    fn message(&self, message: &DescriptorProto) -> MessageType {
        let mut fields: Vec<Field> = message.field.iter().map(|field| self.field(field)).collect();
        fields.sort_by_key(|field| field.number);
        let by_name = fields.iter().enumerate().map(|(index, field)| (field.name.clone(), index)).collect();
        let is_map_entry = message.options.as_ref().is_some_and(|options| options.map_entry());
        MessageType { fields, by_name, is_map_entry }
    }

    fn field(&self, field: &FieldDescriptorProto) -> Field {
        let kind = self.kind(field);
        let deprecated = field.options.as_ref().is_some_and(|options| options.deprecated());
        let default = field.default_value.as_deref().filter(|_| !deprecated);
        Field {
            number: field.number().unsigned_abs(),
            name: field.name().to_owned(),
            kind,
            shape: if field.label() == Label::Repeated { Shape::Repeated } else { Shape::Single },
            required: field.label() == Label::Required,
            shown_default: default.map(|text| default_value(kind, text)),
        }
    }

    fn kind(&self, field: &FieldDescriptorProto) -> Kind {
        let type_name = field.type_name().trim_start_matches('.');
        match field.r#type() {
            Type::Bool => Kind::Bool,
            Type::Int32 => Kind::Int32,
            Type::Int64 => Kind::Int64,
            Type::Uint32 => Kind::Uint32,
            Type::Uint64 => Kind::Uint64,
            Type::Double => Kind::Double,
            Type::Float => Kind::Float,
            Type::String => Kind::String,
            Type::Bytes => Kind::Bytes,
            Type::Enum => Kind::Enum(self.enum_index[type_name]),
            Type::Message => Kind::Message(self.message_index[type_name]),
            // A file that begins to use one of these fails the first test that touches the schema.
            other => unreachable!("no Mesos message uses the field type {other:?}"),
        }
    }
}

/// Reads a default; `protox` has checked that it fits its field.
fn default_value(kind: Kind, text: &str) -> Default {
    match kind {
        Kind::Bool => Default::Bool(text == "true"),
        Kind::Double | Kind::Float => Default::Double(text.parse().unwrap_or_default()),
        Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 => Default::Integer(text.parse().unwrap_or_default()),
        Kind::String | Kind::Bytes | Kind::Enum(_) | Kind::Message(_) => Default::Text(text.to_owned()),
    }
}
