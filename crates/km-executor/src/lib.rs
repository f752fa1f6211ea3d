//! A Mesos executor with a kubelet inside.
