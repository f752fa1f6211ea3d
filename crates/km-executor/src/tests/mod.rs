//! The executor against a fake agent, a fake API server and a fake runtime.
