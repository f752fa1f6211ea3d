//! Logs, metrics, health and build information.
