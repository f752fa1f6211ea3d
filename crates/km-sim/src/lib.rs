//! A whole cluster in virtual time, from a seed, with faults and checked invariants.
