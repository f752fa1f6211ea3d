//! Which ports a local cluster listens on, and that it keeps them over a restart.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::anyhow;
use clap::Args;

use crate::{
    cluster::State,
    exit::{Exit, Failed},
};

/// 0 asks for any free port. A cluster that was up before keeps its ports, since running executors look for it there.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Flags {
    /// Port of the API server.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    api_port: u16,
    /// Port of the Mesos master.
    #[arg(long, value_name = "PORT", default_value_t = 5050)]
    mesos_port: u16,
    /// Port of the first Mesos agent; the others follow (0: any free one for each).
    #[arg(long, value_name = "PORT", default_value_t = 5051)]
    agent_port: u16,
    /// Port of the scheduler's own HTTP endpoints.
    #[arg(long, value_name = "PORT", default_value_t = 10251)]
    scheduler_port: u16,
    /// Port of the controller manager's own HTTP endpoints.
    #[arg(long, value_name = "PORT", default_value_t = 10252)]
    controller_manager_port: u16,
}

/// The ports of this run: those of the run before, else those of the flags; each is checked to be free.
pub fn choose(flags: &Flags, agents: u16, before: Option<State>) -> Result<State, Failed> {
    let mut state = match before {
        Some(state) => state,
        None => State {
            api_port: free_or(flags.api_port, "--api-port", "the API server")?,
            mesos_port: free_or(flags.mesos_port, "--mesos-port", "the Mesos master")?,
            scheduler_port: free_or(flags.scheduler_port, "--scheduler-port", "the scheduler")?,
            controller_manager_port: free_or(
                flags.controller_manager_port,
                "--controller-manager-port",
                "the controller manager",
            )?,
            agent_ports: Vec::new(),
        },
    };
    for number in state.agent_ports.len()..usize::from(agents) {
        let wanted = match flags.agent_port {
            0 => 0,
            first => first.checked_add(number as u16).ok_or_else(|| {
                Failed::new(Exit::Usage, anyhow!("--agent-port {first} leaves no room for {agents} agents"))
            })?,
        };
        state.agent_ports.push(free_or(wanted, "--agent-port", "a Mesos agent")?);
    }
    Ok(state)
}

fn free_or(port: u16, flag: &str, whose: &str) -> Result<u16, Failed> {
    match TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).and_then(|socket| socket.local_addr()) {
        Ok(address) => Ok(address.port()),
        Err(error) => {
            let error = anyhow!("port {port}, which {whose} needs, is not free: {error}");
            Err(Failed::new(Exit::InUse, error)
                .way_out(format!("end what listens there, or choose another with {flag}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> Flags {
        Flags { api_port: 0, mesos_port: 0, agent_port: 0, scheduler_port: 0, controller_manager_port: 0 }
    }

    #[test]
    fn a_taken_port_names_the_flag_that_chooses_another() {
        let taken = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let failed = choose(&Flags { api_port: port, ..flags() }, 1, None).unwrap_err();
        assert_eq!(failed.exit, Exit::InUse);
        assert!(failed.error.to_string().contains(&port.to_string()));
        assert!(failed.way_out.unwrap().contains("--api-port"));
    }

    #[test]
    fn ports_are_kept_and_new_agents_get_their_own() {
        let first = choose(&flags(), 1, None).unwrap();
        let second = choose(&flags(), 3, Some(first.clone())).unwrap();
        assert_eq!(second.api_port, first.api_port);
        assert_eq!(second.agent_ports[0], first.agent_ports[0]);
        assert_eq!(second.agent_ports.len(), 3);
    }
}
