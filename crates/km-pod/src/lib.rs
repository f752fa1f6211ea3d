//! The life of a pod on a node as a state machine. No IO.
