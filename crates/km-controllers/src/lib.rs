//! The controller manager: host-port endpoints and the stock controllers.
