//! Placement of pending pods on offers: filters, scores, packing. No IO.
