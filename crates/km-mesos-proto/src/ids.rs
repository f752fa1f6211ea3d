//! Short ways to make and to read the messages that only wrap an identifier.

use std::fmt;

use crate::v1;

macro_rules! ids {
    ($($id:ident),+) => {$(
        impl v1::$id {
            /// Wraps the text; whether it is a lawful identifier is for the receiver to judge.
            pub fn new(value: impl Into<String>) -> Self {
                let mut id = Self::default();
                id.value = value.into();
                id
            }
        }

        impl From<&str> for v1::$id {
            fn from(value: &str) -> Self {
                Self::new(value)
            }
        }

        impl From<String> for v1::$id {
            fn from(value: String) -> Self {
                Self::new(value)
            }
        }

        impl AsRef<str> for v1::$id {
            fn as_ref(&self) -> &str {
                &self.value
            }
        }
    )+};
}

ids!(FrameworkId, OfferId, AgentId, TaskId, ExecutorId, ContainerId, ResourceProviderId, OperationId);

macro_rules! plain_display {
    ($($id:ident),+) => {$(
        impl fmt::Display for v1::$id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.value)
            }
        }
    )+};
}

plain_display!(FrameworkId, OfferId, AgentId, TaskId, ExecutorId, ResourceProviderId, OperationId);

impl fmt::Display for v1::ContainerId {
    /// Nested containers are written `parent.child`, as Mesos does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = &self.parent {
            write!(f, "{parent}.")?;
        }
        f.write_str(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_come_from_text_and_print_as_it() {
        assert_eq!(v1::TaskId::from("t1"), v1::TaskId { value: "t1".to_owned() });
        assert_eq!(v1::OfferId::from(String::from("o1")).to_string(), "o1");
        let mut child = v1::ContainerId::new("b");
        child.parent = Some(Box::new("a".into()));
        assert_eq!(child.to_string(), "a.b");
    }
}
