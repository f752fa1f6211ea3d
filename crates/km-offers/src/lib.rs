//! The offer pool: every offer ends exactly once. No IO.
