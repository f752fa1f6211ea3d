//! Services: nftables, or a userspace proxy where there is none.
