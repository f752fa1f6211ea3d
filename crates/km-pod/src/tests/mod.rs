//! Tests of the machine against a simulated runtime.

mod random;
mod rules;
mod updates;
mod world;
