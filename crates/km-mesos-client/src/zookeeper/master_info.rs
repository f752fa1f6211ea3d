//! What a master writes about itself into its node: where it is reached.

use std::net::Ipv4Addr;

use km_mesos_proto::{decode_checked, json, v1::MasterInfo};

use super::detector::Form;
use crate::{Authority, address::DEFAULT_MASTER_PORT};

/// Where the master that wrote `content` is reached.
///
/// Without TLS by its IP address, which needs no name service; with TLS by its name, which is what certificates hold.
pub(super) fn authority(form: Form, content: &[u8], by_name: bool) -> Result<Authority, String> {
    let info: MasterInfo = match form {
        Form::Json => json::from_slice(content).map_err(|error| error.to_string())?,
        Form::Protobuf => decode_checked(content).map_err(|error| error.to_string())?,
    };
    let address = info.address.as_ref();
    let port = address.map_or(i64::from(info.port), |address| address.port.into());
    let port = u16::try_from(port).ok().filter(|port| *port != 0);
    let port = port.ok_or_else(|| "its port is no number from 1 to 65535".to_owned())?;
    let name = address.and_then(|address| address.hostname.clone()).or_else(|| info.hostname.clone());
    // The number has the address's bytes in the order of the network, as masters before 0.24 wrote nothing else.
    let number = (info.ip != 0).then(|| Ipv4Addr::from(info.ip.to_le_bytes()).to_string());
    let ip = address.and_then(|address| address.ip.clone()).or_else(|| ip_of_pid(info.pid.as_deref()?)).or(number);
    let hosts = if by_name { [name, ip] } else { [ip, name] };
    let host = hosts.into_iter().flatten().find(|host| !host.is_empty());
    host.map(|host| Authority { host, port }).ok_or_else(|| "it says neither its name nor its address".to_owned())
}

/// The address in `master@10.0.0.1:5050`.
fn ip_of_pid(pid: &str) -> Option<String> {
    let (_, address) = pid.split_once('@')?;
    Authority::parse(address, DEFAULT_MASTER_PORT).ok().map(|authority| authority.host)
}

#[cfg(test)]
mod tests {
    use km_mesos_proto::{Message, v1::Address};

    use super::*;

    fn protobuf(message: &impl Message) -> Vec<u8> {
        message.encode_to_vec()
    }

    /// As Apache Mesos 1.11 writes it.
    const TODAY: &str = r#"{"address":{"hostname":"m1.example","ip":"10.0.0.1","port":5051},
        "capabilities":[{"type":"AGENT_UPDATE"},{"type":"AGENT_DRAINING"},{"type":"QUOTA_V2"}],
        "hostname":"m1.example","id":"a","ip":16777226,"pid":"master@10.0.0.1:5051","port":5051,"version":"1.11.0"}"#;

    #[test]
    fn masters_in_json() {
        let cases = [
            (TODAY, false, Ok("10.0.0.1:5051")),
            (TODAY, true, Ok("m1.example:5051")),
            (r#"{"id":"a","ip":16777226,"port":5050,"pid":"master@10.0.0.9:5050"}"#, false, Ok("10.0.0.9:5050")),
            (r#"{"id":"a","ip":16777226,"port":5050}"#, true, Ok("10.0.0.1:5050")),
            (r#"{"id":"a","ip":0,"port":5050,"hostname":"m"}"#, false, Ok("m:5050")),
            (r#"{"id":"a","ip":0,"port":5050}"#, false, Err("neither its name nor its address")),
            (r#"{"id":"a","ip":1,"port":0}"#, false, Err("port is no number")),
            (r#"{"id":"a","ip":1,"port":70000}"#, false, Err("port is no number")),
            (r#"{"id":"a"}"#, false, Err("ip")),
            ("", false, Err("")),
            ("[", false, Err("")),
        ];
        for (content, by_name, expected) in cases {
            match (authority(Form::Json, content.as_bytes(), by_name), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.to_string(), expected, "{content}"),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{content}: {reason}"),
                (found, _) => panic!("{content}: {found:?}"),
            }
        }
    }

    #[test]
    fn masters_in_protobuf() {
        let address = Address { hostname: None, ip: Some("::1".to_owned()), port: 7 };
        let new = MasterInfo { id: "a".to_owned(), ip: 1, port: 5050, address: Some(address), ..Default::default() };
        let old = MasterInfo { id: "a".to_owned(), ip: 0x0100_007f, port: 5050, ..Default::default() };
        for (info, expected) in [(new, "[::1]:7"), (old, "127.0.0.1:5050")] {
            let found = authority(Form::Protobuf, &protobuf(&info), false);
            assert_eq!(found.map(|found| found.to_string()), Ok(expected.to_owned()));
        }
        assert!(authority(Form::Protobuf, b"\xff\xff", false).is_err());
    }
}
