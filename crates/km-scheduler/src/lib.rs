//! The Kubernetes scheduler as a Mesos framework.
