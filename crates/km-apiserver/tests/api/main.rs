//! The server over its own HTTPS port, as clients see it.

mod auth;
mod bad_input;
mod clients;
mod deletion;
mod discovery;
mod harness;
mod lists;
mod logs;
mod objects;
mod services;
mod subresources;
mod trouble;
mod watches;
