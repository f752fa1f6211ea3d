//! Which master leads, told from what ZooKeeper shows. No IO.
//!
//! Each master that stands for election has a node of its own, which ZooKeeper numbers in the order of their coming and
//! removes when the master's session ends. Who has the lowest number leads.

use super::master_info;
use crate::Authority;

/// What is known of the leading master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The leader that was seen last; none when no master stands for election.
    pub leader: Option<Authority>,
    /// Why there is no leader, or why nothing newer is known.
    pub trouble: Option<String>,
}

/// How a master's node is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `json.info_NNNNNNNNNN`, since Mesos 0.24.
    Json,
    /// `info_NNNNNNNNNN`, before.
    Protobuf,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read this node, and tell by [`Detector::read`].
    Read(String),
    /// List the nodes again: what was listed isn't true any more.
    List,
    /// Wait for a change of the list.
    Wait(Sighting),
}

/// Follows the election.
#[derive(Debug)]
pub(super) struct Detector {
    path: String,
    by_name: bool,
    /// The leader's node and what stood in it; nodes never change their content.
    known: Option<(String, Authority)>,
}

impl Detector {
    /// `by_name`: whether masters are called by their names or by their addresses.
    pub fn new(path: &str, by_name: bool) -> Self {
        Self { path: path.to_owned(), by_name, known: None }
    }

    /// The nodes below the path are these; `None` when the path itself is not there.
    pub fn listed(&mut self, nodes: Option<&[String]>) -> Next {
        let Some(node) = nodes.and_then(leading) else {
            self.known = None;
            let path = &self.path;
            return Next::Wait(match nodes {
                None => nobody(format!("ZooKeeper has no {path}")),
                Some(_) => nobody(format!("no master stands for election below {path}")),
            });
        };
        match &self.known {
            Some((known, leader)) if known == node => Next::Wait(leads(leader)),
            _ => Next::Read(node.to_owned()),
        }
    }

    /// A node was read; `None` when it is gone.
    pub fn read(&mut self, node: &str, content: Option<&[u8]>) -> Next {
        let (Some(content), Some((form, _))) = (content, candidate(node)) else { return Next::List };
        match master_info::authority(form, content, self.by_name) {
            Ok(leader) => {
                let sighting = leads(&leader);
                self.known = Some((node.to_owned(), leader));
                Next::Wait(sighting)
            }
            Err(reason) => {
                self.known = None;
                Next::Wait(nobody(format!("the leading master's node {}/{node} is malformed: {reason}", self.path)))
            }
        }
    }

    /// ZooKeeper can't be asked. The leader seen last may lead on: masters without ZooKeeper step down by themselves,
    /// and then hang up.
    pub fn lost(&self, reason: String) -> Sighting {
        Sighting { leader: self.known.as_ref().map(|(_, leader)| leader.clone()), trouble: Some(reason) }
    }
}

fn leads(leader: &Authority) -> Sighting {
    Sighting { leader: Some(leader.clone()), trouble: None }
}

fn nobody(reason: String) -> Sighting {
    Sighting { leader: None, trouble: Some(reason) }
}

/// The leader's node. Other nodes, such as `log_replicas`, are none of our business.
fn leading(nodes: &[String]) -> Option<&str> {
    let candidates = nodes.iter().filter_map(|node| Some((candidate(node)?.1, node.as_str())));
    candidates.min().map(|(_, node)| node)
}

/// The form and the number of a master's node; `None` for others.
fn candidate(node: &str) -> Option<(Form, u64)> {
    let forms = [("json.info_", Form::Json), ("info_", Form::Protobuf)];
    let (form, number) = forms.into_iter().find_map(|(prefix, form)| Some((form, node.strip_prefix(prefix)?)))?;
    Some((form, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn info(port: u16) -> Vec<u8> {
        format!(r#"{{"id":"a","ip":16777343,"port":{port}}}"#).into_bytes()
    }

    #[test]
    fn the_lowest_number_leads() {
        let cases = [
            ("json.info_0000000007 json.info_0000000003 log_replicas", Some("json.info_0000000003")),
            ("json.info_0000000010 json.info_0000000009", Some("json.info_0000000009")),
            // Numbers grow past their ten digits' padding.
            ("json.info_10000000000 json.info_9999999999", Some("json.info_9999999999")),
            ("info_0000000002 json.info_0000000003", Some("info_0000000002")),
            ("log_replicas json.info_ json.info_x other_0000000001", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(leading(&nodes(text)), expected, "{text}");
        }
    }

    #[test]
    fn a_leader_is_read_once_and_followed() {
        let mut detector = Detector::new("/mesos", false);
        let sees = |port| Next::Wait(leads(&Authority { host: "127.0.0.1".to_owned(), port }));
        let both = nodes("json.info_0000000001 json.info_0000000002");
        assert_eq!(detector.listed(Some(&both)), Next::Read("json.info_0000000001".to_owned()));
        assert_eq!(detector.read("json.info_0000000001", Some(&info(1))), sees(1));
        // A second master comes: no news.
        assert_eq!(detector.listed(Some(&both)), sees(1));
        // The leader goes, and between list and read the second one, too.
        let second = nodes("json.info_0000000002");
        assert_eq!(detector.listed(Some(&second)), Next::Read("json.info_0000000002".to_owned()));
        assert_eq!(detector.read("json.info_0000000002", None), Next::List);
        let third = nodes("json.info_0000000003 log_replicas");
        assert_eq!(detector.listed(Some(&third)), Next::Read("json.info_0000000003".to_owned()));
        assert_eq!(detector.read("json.info_0000000003", Some(&info(3))), sees(3));
    }

    #[test]
    fn no_leader_has_a_reason() {
        let mut detector = Detector::new("/mesos", false);
        let cases: [(Option<&[String]>, &str); 2] =
            [(None, "ZooKeeper has no /mesos"), (Some(&[]), "no master stands for election below /mesos")];
        for (nodes, reason) in cases {
            assert_eq!(detector.listed(nodes), Next::Wait(nobody(reason.to_owned())));
        }
        let Next::Wait(sighting) = detector.read("json.info_0000000001", Some(b"?")) else { panic!("it is malformed") };
        let reason = sighting.trouble.unwrap_or_default();
        assert!(sighting.leader.is_none() && reason.contains("/mesos/json.info_0000000001 is malformed"), "{reason}");
    }

    #[test]
    fn the_loss_of_zookeeper_is_no_loss_of_the_leader() {
        let mut detector = Detector::new("/mesos", false);
        let lost = |detector: &Detector| detector.lost("timeout".to_owned());
        assert_eq!(lost(&detector).leader, None);
        detector.read("json.info_0000000001", Some(&info(1)));
        assert_eq!(lost(&detector).leader.map(|leader| leader.port), Some(1));
        assert_eq!(lost(&detector).trouble.as_deref(), Some("timeout"));
        detector.listed(Some(&[]));
        assert_eq!(lost(&detector).leader, None);
    }
}
