//! Talking to a scheduler: what the commands about it share.

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::Value;

use super::{DataDir, Output};
use crate::{
    cluster::State,
    exit::{Exit, Failed},
};

/// How long the scheduler may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which scheduler.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// Where the scheduler serves HTTP: `host:port` or a URL [default: the local cluster's].
    #[arg(long, value_name = "URL", env = "KM_SCHEDULER")]
    scheduler: Option<String>,
    #[command(flatten)]
    pub data: DataDir,
}

impl Target {
    /// The URL without a slash at its end.
    pub fn url(&self) -> Result<String, Failed> {
        if let Some(given) = &self.scheduler {
            let url = if given.contains("://") { given.clone() } else { format!("http://{given}") };
            return Ok(url.trim_end_matches('/').to_owned());
        }
        let layout = self.data.layout();
        let state = State::load(&layout.state())?;
        let port = state.map(|state| state.scheduler_port).filter(|port| *port != 0);
        let port = port.ok_or_else(|| {
            let nothing = anyhow!("no cluster is known on {}", layout.root.display());
            Failed::new(Exit::NotRunning, nothing).way_out("name the scheduler by --scheduler=HOST:PORT")
        })?;
        Ok(format!("http://127.0.0.1:{port}"))
    }

    /// The JSON at a path.
    pub async fn get(&self, path: &str) -> Result<Value, Failed> {
        let text = self.ask(path).await?;
        Ok(serde_json::from_str(&text).with_context(|| format!("{path}: the scheduler's answer is no JSON"))?)
    }

    /// The text at a path.
    pub async fn ask(&self, path: &str) -> Result<String, Failed> {
        let url = format!("{}{path}", self.url()?);
        let unreachable = |error: reqwest::Error| {
            let error = anyhow::Error::from(error).context(format!("the scheduler doesn't answer at {url}"));
            Failed::new(Exit::Unreachable, error).way_out("--scheduler=HOST:PORT names another")
        };
        let client = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build().context("no HTTP client")?;
        let answer = client.get(&url).send().await.map_err(unreachable)?;
        let status = answer.status();
        let text = answer.text().await.map_err(unreachable)?;
        match status.as_u16() {
            200..300 => Ok(text),
            503 => Err(Failed::new(Exit::Unreachable, anyhow!("the scheduler at {url} can't answer now: {text}"))
                .way_out("ask the one that leads, or wait until it is subscribed")),
            404 if !text.is_empty() => Err(anyhow!("{text}").into()),
            _ => Err(anyhow!("{url}: {status} {text}").into()),
        }
    }
}

/// A question to a scheduler, and the form of its answer.
#[derive(Args, Debug)]
pub struct Question {
    #[command(flatten)]
    target: Target,
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Question {
    /// The answer at a path, if it is to be shown to people; in the other forms it is printed.
    pub async fn ask(&self, path: &str) -> Result<Option<Value>, Failed> {
        let document = self.target.get(path).await?;
        Ok(if self.output.print(&document)? { None } else { Some(document) })
    }
}

/// Lines of columns, as wide as they must be.
pub fn print_table(heads: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let print = |cells: Vec<&str>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", padded.join("   ").trim_end());
    };
    print(heads.to_vec());
    rows.iter().for_each(|row| print(row.iter().map(String::as_str).collect()));
}

/// What the scheduler asks of Mesos in each role.
pub fn print_asked(asked: &Value) {
    let suppressed = asked["suppressed"] == true;
    let row = |role: &Value| {
        let offers = if suppressed { "suppressed" } else { "wanted" };
        let or =
            |field: &str, none: &str| Some(cell(role, field)).filter(|text| !text.is_empty()).unwrap_or(none.into());
        vec![cell(role, "role"), offers.to_owned(), or("agents", "all"), or("minima", "as the master has it")]
    };
    let roles: Vec<_> = asked["roles"].as_array().into_iter().flatten().map(row).collect();
    if !roles.is_empty() {
        println!();
        print_table(&["ROLE", "OFFERS", "OF AGENTS", "AT LEAST"], &roles);
    }
    if asked["told"] == false && roles.iter().any(|row| row[2] != "all") {
        println!("The master knows no offer constraints: offers of other agents are declined.");
    }
    let refused = cell(asked, "refused");
    if !refused.is_empty() {
        println!("The master refused the last change of the framework: {refused}");
    }
}

/// A field as a cell: texts as they are, nothing for null.
pub fn cell(value: &Value, field: &str) -> String {
    match &value[field] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A time in milliseconds as people say it.
pub fn ago(value: &Value, field: &str) -> String {
    let Some(milliseconds) = value[field].as_u64() else { return String::new() };
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        1000..600_000 => format!("{}s", milliseconds / 1000),
        600_000..36_000_000 => format!("{}m", milliseconds / 60_000),
        _ => format!("{}h", milliseconds / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_short() {
        for (milliseconds, text) in
            [(0, "0ms"), (999, "999ms"), (1000, "1s"), (599_999, "599s"), (600_000, "10m"), (36_000_000, "10h")]
        {
            assert_eq!(ago(&json!({ "age": milliseconds }), "age"), text);
        }
        assert_eq!(ago(&json!({}), "age"), "");
    }
}
