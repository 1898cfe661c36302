//! Discovery of token issuers with missing or broken metadata.

use deepagents_mcp::{ServerConfig, auth};
use serde_json::{Value, json};

use crate::issuer::{Answer, Issuer, ok};
use crate::logins::{called, entry, http, login, query};

fn written() -> (String, bool) {
    ("written".to_owned(), false)
}

fn status(status: &'static str, head: &str) -> Answer {
    (status, head.to_owned(), json!("a page for people"))
}

/// The metadata of an issuer.
fn describes(issuer: &str, endpoints: &str) -> Answer {
    ok(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{endpoints}/authorize"),
        "token_endpoint": format!("{endpoints}/token"),
        "registration_endpoint": format!("{endpoints}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    }))
}

/// The paths below `/.well-known/` that were requested.
fn looked_at(issuer: &Issuer) -> Vec<String> {
    let lines = issuer.requests("GET").into_iter().map(|request| request.line);
    let paths = lines.filter_map(|line| Some(line.split(' ').nth(1)?.to_owned()));
    paths.filter(|path| path.contains(".well-known")).collect()
}

#[tokio::test]
async fn a_server_that_names_no_issuer_is_taken_to_issue_its_own_tokens() {
    let issuer = Issuer::start().await;
    let origin = issuer.address.clone();
    issuer.change(|wants| {
        wants.points = false;
        wants.places = vec![
            ("GET /mcp", status("500 Internal Server Error", "")),
            ("GET /.well-known/oauth-protected-resource/mcp", status("503 Service Unavailable", "")),
            (
                "GET /mcp/.well-known/oauth-protected-resource",
                status("302 Found", "location: http://127.0.0.1:9/in\r\n"),
            ),
            ("GET /.well-known/oauth-protected-resource", status("200 OK", "")),
            // This describes the origin.
            ("GET /.well-known/oauth-authorization-server/mcp", describes(&origin, "http://127.0.0.1:9")),
        ];
    });
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    let address = login(&server, folder.path()).await;
    assert_eq!(address.path(), "/authorize");
    assert_eq!(query(&address, "resource"), issuer.url());
    assert_eq!(called(&server, folder.path()).await, written());
}

#[tokio::test]
async fn the_next_of_several_issuers_is_tried_if_one_is_unusable() {
    let (issuer, other) = (Issuer::start().await, Issuer::start().await);
    let (good, bad) = (issuer.address.clone(), other.address.clone());
    other.change(|wants| {
        wants.places = vec![("GET /.well-known/oauth-authorization-server", describes(&good, &bad))];
    });
    issuer.change(|wants| {
        let servers = json!(["http://127.0.0.1:9", bad, good]);
        let meta = json!({"resource": format!("{good}/mcp"), "authorization_servers": servers});
        wants.places = vec![("GET /meta", ok(meta))];
    });
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    let address = login(&server, folder.path()).await;
    assert_eq!(address.origin().ascii_serialization(), issuer.address);
    assert_eq!(called(&server, folder.path()).await, written());
    assert!(other.requests("POST").is_empty());
}

#[tokio::test]
async fn an_only_issuer_may_be_named_without_a_list() {
    let (server, issuer) = (Issuer::start().await, Issuer::start().await);
    let meta = json!({"resource": server.url(), "authorization_servers": issuer.address});
    server.change(|wants| wants.places = vec![("GET /meta", ok(meta))]);
    let folder = tempfile::tempdir().unwrap();
    let address = login(&ServerConfig::http(server.url()), folder.path()).await;
    assert_eq!(address.origin().ascii_serialization(), issuer.address);
}

#[tokio::test]
async fn an_issuer_with_a_path_is_discovered_in_the_order_of_the_specification() {
    let issuer = Issuer::start().await;
    let base = issuer.address.clone();
    let tenant = format!("{base}/tenant/1");
    issuer.change(|wants| {
        let meta = json!({"resource": format!("{base}/mcp"), "authorization_servers": [tenant]});
        wants.places = vec![
            ("GET /meta", ok(meta)),
            // An issuer without tenants returns its own metadata.
            ("GET /.well-known/oauth-authorization-server/tenant/1", describes(&base, "http://127.0.0.1:9")),
            ("GET /.well-known/openid-configuration/tenant/1", status("502 Bad Gateway", "")),
            ("GET /tenant/1/.well-known/openid-configuration", describes(&tenant, &base)),
        ];
    });
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    login(&server, folder.path()).await;
    let places = [
        "/.well-known/oauth-authorization-server/tenant/1",
        "/.well-known/openid-configuration/tenant/1",
        "/tenant/1/.well-known/openid-configuration",
    ];
    assert_eq!(looked_at(&issuer), places);
    assert_eq!(called(&server, folder.path()).await, written());
}

#[tokio::test]
async fn an_unavailable_metadata_endpoint_is_an_error_and_no_default_is_assumed() {
    let issuer = Issuer::start().await;
    issuer.change(|wants| {
        wants.points = false;
        wants.places = vec![
            ("GET /.well-known/oauth-protected-resource/mcp", status("503 Service Unavailable", "")),
            ("GET /.well-known/oauth-authorization-server", status("404 Not Found", "")),
        ];
    });
    let folder = tempfile::tempdir().unwrap();
    let config = http(&ServerConfig::http(issuer.url()));
    let refused = auth::login("alpha", &config, folder.path(), |shown| panic!("{shown} is shown")).await;
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("oauth-protected-resource/mcp: HTTP status 503"), "{words}");
    assert!(issuer.requests("POST /register").is_empty());
}

#[tokio::test]
async fn an_issuer_that_does_not_say_that_it_supports_pkce_is_refused_unless_the_configuration_does() {
    for (place, methods, if_assumed) in [
        ("GET /.well-known/oauth-authorization-server", None, true),
        ("GET /.well-known/openid-configuration", None, true),
        ("GET /.well-known/oauth-authorization-server", Some(json!(["plain"])), false),
        ("GET /.well-known/oauth-authorization-server", Some(json!([])), false),
    ] {
        let issuer = Issuer::start().await;
        let mut answer = describes(&issuer.address, &issuer.address);
        answer.2.as_object_mut().unwrap().remove("code_challenge_methods_supported");
        if let Some(methods) = &methods {
            answer.2["code_challenge_methods_supported"] = methods.clone();
        }
        let absent = ("GET /.well-known/oauth-authorization-server", status("404 Not Found", ""));
        issuer.change(|wants| wants.places = vec![(place, answer), absent]);
        let folder = tempfile::tempdir().unwrap();
        for assumed in [false, true] {
            let config = entry(&issuer, &json!({"assumePkce": assumed}));
            if assumed && if_assumed {
                let address = login(&config, folder.path()).await;
                assert_eq!(query(&address, "code_challenge_method"), "S256");
                continue;
            }
            let refused = auth::login("alpha", &http(&config), folder.path(), |shown| panic!("{shown} is shown")).await;
            let words = refused.unwrap_err().to_string();
            assert!(words.contains(&issuer.address) && words.contains("PKCE"), "{words}");
            assert_eq!(words.contains("set `oauth.assumePkce`"), methods.is_none(), "{words}");
            assert!(issuer.requests("POST /register").is_empty());
        }
    }
}

#[tokio::test]
async fn a_grant_without_a_login_needs_no_pkce() {
    let issuer = Issuer::start().await;
    let mut answer = describes(&issuer.address, &issuer.address);
    answer.2.as_object_mut().unwrap().remove("code_challenge_methods_supported");
    issuer.change(|wants| wants.places = vec![("GET /.well-known/oauth-authorization-server", answer)]);
    let folder = tempfile::tempdir().unwrap();
    let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}));
    assert_eq!(called(&config, folder.path()).await, written());
}

#[tokio::test]
async fn default_endpoints_are_used_where_there_is_no_metadata_at_all() {
    let issuer = Issuer::start().await;
    issuer.change(|wants| {
        wants.points = false;
        wants.places = vec![("GET /.well-known/oauth-authorization-server", status("404 Not Found", ""))];
    });
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    let address = login(&server, folder.path()).await;
    assert_eq!(address.path(), "/authorize");
    assert_eq!(called(&server, folder.path()).await, written());
}

#[tokio::test]
async fn tokens_are_requested_and_refreshed_for_the_servers_own_resource_name() {
    for name in ["", "/", "/mcp/"] {
        let issuer = Issuer::start().await;
        let resource = format!("{}{name}", issuer.address);
        issuer.change(|wants| {
            let meta: Value = json!({"resource": resource, "authorization_servers": [issuer.address]});
            wants.places = vec![("GET /meta", ok(meta))];
        });
        let folder = tempfile::tempdir().unwrap();
        let server = ServerConfig::http(issuer.url());
        let address = login(&server, folder.path()).await;
        assert_eq!(query(&address, "resource"), resource);
        issuer.revoke();
        assert_eq!(called(&server, folder.path()).await, written());
        let asked: Vec<_> = issuer.requests("POST /token").iter().map(|request| request.param("resource")).collect();
        assert_eq!(asked, [Some(resource.clone()), Some(resource)]);
    }
}

#[tokio::test]
async fn looks_of_a_login_have_the_headers_of_the_entry_at_its_own_origin_and_nowhere_else() {
    let (server, elsewhere) = (Issuer::start().await, Issuer::start().await);
    server.change(|wants| wants.elsewhere = Some(elsewhere.address.clone()));
    let config = ServerConfig::http(server.url()).header("X-Gateway", "open").header("Authorization", "Basic no");
    let folder = tempfile::tempdir().unwrap();
    login(&config, folder.path()).await;
    let (own, others) = (server.requests(""), elsewhere.requests(""));
    assert!(own.len() >= 2 && others.len() >= 3, "{own:?} {others:?}");
    assert!(own.iter().all(|request| request.header("x-gateway") == Some("open")), "{own:?}");
    let leaks = |request: &&crate::issuer::Request| request.header("x-gateway").is_some();
    assert_eq!(others.iter().filter(leaks).count(), 0, "{others:?}");
    assert!(own.iter().chain(&others).all(|request| request.header("authorization") != Some("Basic no")), "{own:?}");
}
