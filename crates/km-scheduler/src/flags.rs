//! The command line of `km scheduler`.

mod duration;
mod election;
