//! A versioned key-value store with watch, durable in one file.
