//! Clients of the Mesos v1 scheduler, executor and operator APIs, and master detection.
