//! The server over its own HTTPS port, as clients see it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails, in its helpers too")]

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
mod storage;
mod subresources;
mod trouble;
mod watches;
