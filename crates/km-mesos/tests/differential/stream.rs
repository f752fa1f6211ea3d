//! An event stream, read in the background.

use std::{collections::VecDeque, time::Duration};

use anyhow::{Context, Result, bail};
use km_mesos_proto::recordio::Decoder;
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

/// No event of these scripts takes longer, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const LONGEST_EVENT: usize = 16 << 20;

/// Events as they came; dropping it closes the connection.
pub struct Stream {
    received: mpsc::UnboundedReceiver<Value>,
    reader: JoinHandle<()>,
    /// Offers that came while something else was waited for.
    pub offers: VecDeque<Value>,
    /// The same of inverse offers.
    pub inverse: VecDeque<Value>,
}

impl Stream {
    /// Reads the answer of a SUBSCRIBE.
    pub fn read(mut response: reqwest::Response) -> Self {
        let (send, received) = mpsc::unbounded_channel();
        let reader = tokio::spawn(async move {
            let mut decoder = Decoder::new(LONGEST_EVENT);
            // The end of the stream and its failure are the same to a client.
            while let Ok(Some(chunk)) = response.chunk().await {
                decoder.push(&chunk);
                while let Ok(Some(record)) = decoder.next() {
                    let event = serde_json::from_slice(&record)
                        .unwrap_or_else(|_| Value::String(format!("not JSON: {record:?}")));
                    if send.send(event).is_err() {
                        return;
                    }
                }
            }
        });
        Self { received, reader, offers: VecDeque::new(), inverse: VecDeque::new() }
    }

    /// The next event, of any type; `None` once the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        timeout(PATIENCE, self.received.recv()).await.context("no event came, and the stream is open")
    }

    /// The next event that is no heartbeat; the end of the stream is an error.
    pub async fn event(&mut self) -> Result<Value> {
        let wait = async {
            loop {
                match self.received.recv().await {
                    None => bail!("the stream ended"),
                    Some(event) if event["type"] == "HEARTBEAT" => {}
                    Some(event) => return Ok(event),
                }
            }
        };
        timeout(PATIENCE, wait).await.context("no event came, and the stream is open")?
    }

    /// The next event that is not about offers and inverse offers which nobody has taken: how many of these come before
    /// something else is a matter of timing. They are kept in `offers` and `inverse` until they are taken or rescinded.
    pub async fn news(&mut self) -> Result<Value> {
        loop {
            if let Some(event) = self.step().await? {
                return Ok(event);
            }
        }
    }

    /// The next event, as `news`, or nothing if it was about offers which nobody has taken.
    pub async fn step(&mut self) -> Result<Option<Value>> {
        let event = self.event().await?;
        let named = |field: &str| event[field][field].as_array().cloned().unwrap_or_default();
        let kept = self.offers.len() + self.inverse.len();
        match event["type"].as_str() {
            Some("OFFERS") => {
                self.offers.extend(named("offers"));
                return Ok(None);
            }
            Some("INVERSE_OFFERS") => {
                self.inverse.extend(named("inverse_offers"));
                return Ok(None);
            }
            Some("RESCIND") => self.offers.retain(is_not(&event["rescind"]["offer_id"])),
            Some("RESCIND_INVERSE_OFFER") => {
                self.inverse.retain(is_not(&event["rescind_inverse_offer"]["inverse_offer_id"]));
            }
            _ => {}
        }
        Ok((self.offers.len() + self.inverse.len() == kept).then_some(event))
    }

    /// What has come so far and was not taken yet.
    pub fn waiting(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Ok(event) = self.received.try_recv() {
            events.push(event);
        }
        events.retain(|event| event["type"] != "HEARTBEAT");
        events
    }
}

fn is_not(id: &Value) -> impl Fn(&Value) -> bool + '_ {
    move |offer| offer["id"] != *id
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
