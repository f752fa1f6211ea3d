//! The supervisor of executor and proxy on an agent.
