//! Who may call what.

use anyhow::Result;
use serde_json::json;

use crate::{
    compare::{Script, scripts},
    framework::{info, with},
    player::{Player, SCHEDULER},
};

/// The credentials that `LOGIN` and others are of.
pub const CREDENTIALS: (&str, &str) = (
    "credentials",
    r#"{"credentials": [{"principal": "operator", "secret": "o"}, {"principal": "framework", "secret": "f"}]}"#,
);

/// As whom the scripts read.
pub const LOGIN: &str = "operator:o";

/// Of a master that asks frameworks and readers.
pub const ASKS_FRAMEWORKS: [&str; 4] = [
    "authenticate_http_frameworks=true",
    "http_framework_authenticators=basic",
    "authenticate_http_readonly=true",
    "credentials={folder}/credentials",
];

/// Of a master that asks those who change something.
pub const ASKS_WRITERS: [&str; 2] = ["authenticate_http_readwrite=true", "credentials={folder}/credentials"];

/// Need the first flags.
pub const OF_FRAMEWORKS: &[Script] =
    scripts![frameworks_need_credentials, the_principal_must_be_the_one_that_asks, readers_need_credentials];

/// Need the second flags.
pub const OF_WRITERS: &[Script] = scripts![writers_need_credentials];

/// Need a master that asks nobody.
pub const OF_NOBODY: &[Script] = scripts![credentials_do_no_harm_where_nobody_asks];

const LOGINS: [Option<&str>; 5] =
    [None, Some("nobody:x"), Some("framework:wrong"), Some("framework:"), Some("framework:f")];

fn set(p: &mut Player, login: Option<&str>) {
    p.login = login.map(str::to_owned);
    p.note("login", &login.into());
}

// M016, M335
async fn frameworks_need_credentials(p: &mut Player) -> Result<()> {
    let subscribe = json!({ "type": "SUBSCRIBE", "subscribe": { "framework_info": info(&["*"]) } });
    let teardown = json!({ "type": "TEARDOWN", "framework_id": { "value": "unknown" } });
    for login in LOGINS.into_iter().take(4) {
        set(p, login);
        p.post(SCHEDULER, &[], &subscribe).await?;
        p.request("GET", SCHEDULER, &[], "").await?;
    }
    for login in LOGINS {
        set(p, login);
        p.post(SCHEDULER, &[], &teardown).await?;
    }
    set(p, Some(LOGIN));
    Ok(())
}

// M335, M336
async fn the_principal_must_be_the_one_that_asks(p: &mut Player) -> Result<()> {
    set(p, Some("framework:f"));
    let other = with(info(&["*"]), "principal", "operator".into());
    p.post(SCHEDULER, &[], &json!({ "type": "SUBSCRIBE", "subscribe": { "framework_info": other } })).await?;
    let mine = with(info(&["*"]), "principal", "framework".into());
    for information in [info(&["*"]), mine] {
        let framework = p.framework(information).await?;
        set(p, Some("operator:o"));
        let shown = p.framework_state(&framework).await?;
        p.note("principal", &shown["principal"]);
        p.call(&framework, "REVIVE", json!({})).await?;
        set(p, Some("framework:f"));
        p.call(&framework, "REVIVE", json!({})).await?;
        p.call(&framework, "TEARDOWN", json!({})).await?;
    }
    set(p, Some(LOGIN));
    Ok(())
}

const READERS: [&str; 14] = [
    "/state",
    "/state-summary",
    "/slaves",
    "/frameworks",
    "/tasks",
    "/roles",
    "/flags",
    "/weights",
    "/quota",
    "/maintenance/schedule",
    "/maintenance/status",
    "/metrics/snapshot",
    "/version",
    "/health",
];

async fn read_all(p: &mut Player) -> Result<()> {
    for path in READERS {
        let response = p.send("GET", path, &[], "").await?;
        p.note_head(path, &response);
    }
    let body = json!({ "type": "GET_HEALTH" });
    p.post("/api/v1", &[], &body).await?;
    p.post("/teardown", &[], &json!({})).await?;
    Ok(())
}

// M337
async fn readers_need_credentials(p: &mut Player) -> Result<()> {
    for login in [None, Some("operator:wrong"), Some(LOGIN)] {
        set(p, login);
        read_all(p).await?;
    }
    Ok(())
}

// M337
async fn writers_need_credentials(p: &mut Player) -> Result<()> {
    for login in [None, Some("operator:wrong"), Some(LOGIN)] {
        set(p, login);
        read_all(p).await?;
        let framework = p.framework(info(&["*"])).await;
        p.note("a framework", &framework.is_ok().into());
    }
    Ok(())
}

// M335, M336
async fn credentials_do_no_harm_where_nobody_asks(p: &mut Player) -> Result<()> {
    set(p, Some("somebody:s"));
    for information in [info(&["*"]), with(info(&["*"]), "principal", "another".into())] {
        let framework = p.framework(information).await?;
        let shown = p.framework_state(&framework).await?;
        p.note("principal", &shown["principal"]);
        p.call(&framework, "REVIVE", json!({})).await?;
    }
    Ok(())
}
