//! The master's core by its events and actions. Numbers like M124 name the behaviour in Apache Mesos' own tests.

mod accept;
mod agents;
mod allocation;
mod harness;
mod invariants;
mod operations;
mod operators;
mod stage;
mod subscription;
mod tasks;
