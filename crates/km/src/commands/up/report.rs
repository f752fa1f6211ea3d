//! What the user sees at the end of `km up`: what runs, and what to type next.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::local::Local;
use crate::exit::Failed;

pub async fn print(client: &Client, cluster: &Local, took: Duration, in_background: bool) -> Result<(), Failed> {
    let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await.context("cannot list pods")?;
    let services =
        Api::<Service>::all(client.clone()).list(&ListParams::default()).await.context("cannot list services")?;
    println!("\nThe cluster is up after {:.1} s.", took.as_secs_f64());
    if !pods.items.is_empty() {
        println!("\n{:<12} {:<40} {:<10} {:<10}", "NAMESPACE", "POD", "STATUS", "NODE");
        for pod in &pods {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("");
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("");
            println!("{:<12} {:<40} {phase:<10} {node:<10}", pod.namespace().unwrap_or_default(), pod.name_any());
        }
    }
    println!("\n{:<12} {:<40} URL", "NAMESPACE", "SERVICE");
    for service in &services {
        println!("{:<12} {:<40} {}", service.namespace().unwrap_or_default(), service.name_any(), url(service));
    }
    let data = cluster.layout().root.display();
    println!("\nTry next:\n  kubectl --context km get pods -o wide");
    if let Some(service) = services.iter().find(|service| service.name_any() != "kubernetes") {
        println!("  curl {}", url(service));
        println!(
            "  kubectl --context km -n {} get endpoints {}",
            service.namespace().unwrap_or_default(),
            service.name_any()
        );
    }
    println!("  km status --data-dir {data}");
    if in_background {
        println!("  km down --data-dir {data}");
    } else {
        println!("Ctrl-C stops the cluster.");
    }
    Ok(())
}

fn url(service: &Service) -> String {
    let spec = service.spec.as_ref();
    let ip = spec.and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or("None");
    let port = spec.and_then(|spec| spec.ports.as_ref()).and_then(|ports| ports.first()).map_or(0, |port| port.port);
    let scheme = if port == 443 { "https" } else { "http" };
    format!("{scheme}://{ip}:{port}")
}
