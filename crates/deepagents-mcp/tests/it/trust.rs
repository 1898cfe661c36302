//! Issuers that a server names, and the one that the configuration names.

use deepagents_mcp::{McpOptions, McpServers, ServerConfig, auth};
use serde_json::{Value, json};

use crate::issuer::{Issuer, ok};
use crate::logins::{entry, http, login};
use crate::script::options;

/// A server that is not on this machine, and its issuer, which it names.
async fn apart() -> (Issuer, Issuer) {
    let (server, issuer) = (Issuer::start_elsewhere().await, Issuer::start().await);
    server.change(|wants| wants.elsewhere = Some(issuer.address.clone()));
    (server, issuer)
}

fn with_issuer(issuer: &Issuer, mut oauth: Value) -> Value {
    oauth["issuer"] = json!(issuer.address);
    oauth
}

/// Why a server is not available.
async fn problem(config: &ServerConfig, folder: &std::path::Path) -> String {
    let options = McpOptions { token_dir: Some(folder.to_owned()), ..options() };
    let servers = McpServers::new([("alpha", config.clone())], options);
    servers.ready().await;
    let problem = servers.status()[0].problem().unwrap().to_owned();
    servers.close().await;
    problem
}

#[tokio::test]
async fn a_configured_secret_is_not_sent_to_an_issuer_of_another_origin_that_only_the_server_names() {
    let (server, issuer) = apart().await;
    let folder = tempfile::tempdir().unwrap();
    for oauth in [
        json!({"clientId": "us", "clientSecret": "s3"}),
        json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}),
        json!({"grant": "client_credentials", "clientId": "us", "privateKey": "k"}),
        json!({"grant": "jwt_bearer", "assertion": "a"}),
    ] {
        let config = http(&entry(&server, &oauth));
        let refused = auth::login("alpha", &config, folder.path(), |shown| panic!("{shown} is shown")).await;
        let words = refused.unwrap_err().to_string();
        assert!(words.contains(&issuer.address) && words.contains("`oauth.issuer`"), "{oauth}: {words}");
    }
    let grant = json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"});
    let problem = problem(&entry(&server, &grant), folder.path()).await;
    assert!(problem.contains(&issuer.address) && problem.contains("set `oauth.issuer` to it"), "{problem}");
    assert!(issuer.requests("POST").is_empty(), "{:?}", issuer.requests("POST"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_configured_secret_is_sent_to_the_configured_issuer_and_between_programs_of_this_machine() {
    let (server, issuer) = apart().await;
    let (local, other) = (Issuer::start().await, Issuer::start().await);
    local.change(|wants| wants.elsewhere = Some(other.address.clone()));
    let folder = tempfile::tempdir().unwrap();
    for oauth in [
        json!({"clientId": "us", "clientSecret": "s3"}),
        json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}),
    ] {
        for (config, issuer) in
            [(entry(&server, &with_issuer(&issuer, oauth.clone())), &issuer), (entry(&local, &oauth), &other)]
        {
            let before = issuer.requests("POST /token").len();
            match oauth.get("grant") {
                None => drop(login(&config, folder.path()).await),
                Some(_) => auth::login("alpha", &http(&config), folder.path(), |_| {}).await.unwrap(),
            }
            let asked = issuer.requests("POST /token").split_off(before);
            assert!(asked.len() == 1 && asked[0].header("authorization").is_some(), "{oauth}: {asked:?}");
        }
    }
}

#[tokio::test]
async fn a_login_without_a_secret_follows_the_server_to_its_issuer() {
    let (server, issuer) = apart().await;
    let folder = tempfile::tempdir().unwrap();
    let address = login(&ServerConfig::http(server.url()), folder.path()).await;
    assert_eq!(address.origin().ascii_serialization(), issuer.address);
}

#[tokio::test]
async fn a_configured_issuer_is_used_whichever_others_the_server_names() {
    let (server, issuer, hostile) = (Issuer::start().await, Issuer::start().await, Issuer::start().await);
    let named = json!({"resource": server.url(), "authorization_servers": [hostile.address]});
    let silent = json!({"resource": server.url()});
    let not_found = ("404 Not Found", String::new(), json!({}));
    for meta in [ok(named), ok(silent), not_found] {
        server.change(|wants| wants.places = vec![("GET /meta", meta.clone())]);
        let folder = tempfile::tempdir().unwrap();
        let config = entry(&server, &with_issuer(&issuer, json!({})));
        let address = login(&config, folder.path()).await;
        assert_eq!(address.origin().ascii_serialization(), issuer.address, "{meta:?}");
        assert_eq!(issuer.requests("POST /token").pop().unwrap().param("resource"), Some(server.url()));
    }
    assert!(hostile.requests("").is_empty(), "{:?}", hostile.requests(""));
}

#[tokio::test]
async fn a_configured_issuer_that_does_not_describe_itself_is_an_error_and_no_other_is_used() {
    let server = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    for issuer in ["http://127.0.0.1:9".to_owned(), format!("{}/tenant", server.address)] {
        let config = http(&entry(&server, &json!({"issuer": issuer})));
        let refused = auth::login("alpha", &config, folder.path(), |shown| panic!("{shown} is shown")).await;
        let words = refused.unwrap_err().to_string();
        assert!(words.contains(&issuer), "{words}");
    }
    assert!(server.requests("POST /register").is_empty());
}

#[tokio::test]
async fn a_server_with_damaged_metadata_does_not_become_the_issuer_in_place_of_the_configured_one() {
    let (server, issuer) = (Issuer::start().await, Issuer::start().await);
    let damaged = json!({"resource": server.url(), "authorization_servers": [server.address], "scopes_supported": 5});
    let absent = ("404 Not Found", String::new(), json!({}));
    server.change(|wants| {
        wants.places = vec![("GET /meta", ok(damaged)), ("GET /.well-known/oauth-authorization-server", absent)];
    });
    let folder = tempfile::tempdir().unwrap();
    let grant = json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"});
    let config = http(&entry(&server, &with_issuer(&issuer, grant)));
    let refused = auth::login("alpha", &config, folder.path(), |_| {}).await;
    let words = refused.unwrap_err().to_string();
    assert!(words.contains(&issuer.address), "{words}");
    assert!(server.requests("POST /token").is_empty());
}

#[tokio::test]
async fn tokens_of_another_issuer_than_the_configured_one_are_not_used() {
    let (server, other) = (Issuer::start().await, Issuer::start().await);
    let folder = tempfile::tempdir().unwrap();
    login(&ServerConfig::http(server.url()), folder.path()).await;
    let problem = problem(&entry(&server, &with_issuer(&other, json!({}))), folder.path()).await;
    assert!(problem.contains("deepagents mcp login alpha"), "{problem}");
    let with_token = |request: &crate::issuer::Request| request.header("authorization").is_some();
    assert!(!server.requests("POST /mcp").iter().any(with_token));
}

#[tokio::test]
async fn tokens_are_not_refreshed_with_a_secret_at_an_issuer_that_only_the_server_names() {
    let (server, issuer) = apart().await;
    let folder = tempfile::tempdir().unwrap();
    let oauth = json!({"clientId": "us", "clientSecret": "s3"});
    login(&entry(&server, &with_issuer(&issuer, oauth.clone())), folder.path()).await;
    let asked = issuer.requests("POST").len();
    let mut files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let state = files.find(|path| path.to_string_lossy().ends_with(".login.json")).unwrap();
    for _ in ["with the metadata of the login", "without"] {
        let problem = problem(&entry(&server, &oauth), folder.path()).await;
        assert!(problem.contains(&issuer.address) && problem.contains("`oauth.issuer`"), "{problem}");
        let _ = std::fs::remove_file(&state);
    }
    assert_eq!(issuer.requests("POST").len(), asked);
}
