//! Pod and task: states, transitions, port mapping, procurement, task info, recovery. No IO.
