//! Builders, in-process clusters and condition waiting for tests.
