//! The embedded master over HTTP: order of checks, encodings, streams (M001 to M021), the older pages, and one task's
//! way through the embedded agent.

mod end_to_end;
mod harness;
mod pages;
mod requests;
mod streams;
