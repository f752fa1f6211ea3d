//! The algebra of Mesos resources.
