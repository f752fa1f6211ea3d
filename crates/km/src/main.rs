//! Kubernetes as a framework of Apache Mesos, in one binary.

fn main() {}
