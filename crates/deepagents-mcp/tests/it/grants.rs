//! Tokens without a person's login.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use deepagents_mcp::{Entry, EntryError};
use deepagents_models::scripted::Turn;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde_json::json;

use crate::issuer::{Issuer, decoded};
use crate::logins::{called, entry};
use crate::script::{agent, alone, one_call, results, run};

fn written() -> (String, bool) {
    ("written".to_owned(), false)
}

#[tokio::test]
async fn a_client_with_a_secret_gets_a_token_and_a_wider_one_when_a_call_needs_it() {
    let issuer = Issuer::start().await.with(|wants| wants.call_scope = Some("notes:write"));
    let folder = tempfile::tempdir().unwrap();
    let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "${SECRET}"}));
    assert_eq!(called(&config, folder.path()).await, written());
    let asked = issuer.requests("POST /token");
    let basic = format!("Basic {}", STANDARD.encode("us:hush-hush"));
    for request in &asked {
        assert_eq!(request.param("grant_type").as_deref(), Some("client_credentials"));
        assert_eq!(request.param("resource"), Some(issuer.url()));
        assert_eq!((request.header("authorization"), request.param("client_secret")), (Some(basic.as_str()), None));
    }
    let scopes: Vec<_> = asked.iter().map(|request| request.param("scope").unwrap()).collect();
    assert_eq!(scopes, ["notes:read", "notes:read notes:write"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "there is nothing to keep");
}

#[tokio::test]
async fn the_scopes_of_a_token_outlast_a_renewal_that_fails() {
    let issuer = Issuer::start().await.with(|wants| wants.call_scope = Some("notes:write"));
    let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}));
    let servers = alone(config);
    let (agent, _) = agent(&servers, (0..3).flat_map(|_| one_call("write", json!({}))));
    let call = async || results(&run(&agent, "Go.").await.0).pop().unwrap();
    assert_eq!(call().await, written());
    issuer.revoke();
    let refusal = ("503 Service Unavailable", String::new(), json!({}));
    issuer.change(|wants| wants.places = vec![("POST /token", refusal)]);
    assert!(call().await.1);
    let failed = issuer.requests("POST /token").len();
    issuer.change(|wants| wants.places.clear());
    assert_eq!(call().await, written());
    servers.close().await;
    let asked = issuer.requests("POST /token");
    let scopes: Vec<_> = asked.iter().skip(failed).map(|request| request.param("scope").unwrap()).collect();
    assert_eq!(scopes, ["notes:read notes:write"]);
}

#[tokio::test]
async fn calls_at_the_same_time_share_a_request_for_a_token() {
    let issuer = Issuer::start().await;
    let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}));
    let servers = alone(config);
    servers.connect().await;
    assert_eq!(issuer.requests("POST /token").len(), 1);
    issuer.revoke();
    let calls = Turn::calls((0..8).map(|_| ("mcp__alpha__write", json!({}))));
    let (agent, _) = agent(&servers, [calls, Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), vec![written(); 8]);
    assert_eq!(issuer.requests("POST /token").len(), 2);
}

#[tokio::test]
async fn calls_at_the_same_time_that_need_different_scopes_get_a_token_for_all_of_them() {
    let issuer = Issuer::start().await;
    let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}));
    let servers = alone(config);
    let needed = ["notes:write", "notes:share", "notes:print"];
    let calls = || Turn::calls(needed.map(|scope| ("mcp__alpha__write", json!({"scope": scope}))));
    let (agent, _) = agent(&servers, [calls(), calls(), Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), vec![written(); 6]);
    let asked = issuer.requests("POST /token");
    assert_eq!(asked.len(), 1 + needed.len(), "{asked:?}");
    let last = asked.last().unwrap().param("scope").unwrap();
    assert!(needed.iter().all(|scope| last.split(' ').any(|asked| asked == *scope)), "{last}");
}

#[tokio::test]
async fn a_scope_that_the_issuer_refuses_is_not_asked_for_again_by_a_call_at_the_same_time() {
    let issuer = Issuer::start().await.with(|wants| wants.refused_scope = Some("notes:never"));
    let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}));
    let servers = alone(config);
    let calls = Turn::calls(["notes:never", "notes:write"].map(|scope| ("mcp__alpha__write", json!({"scope": scope}))));
    let (agent, _) = agent(&servers, [calls, Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert!(results[0].1 && results[0].0.contains("invalid_scope"), "{results:?}");
    assert_eq!(results[1], written());
}

#[tokio::test]
async fn a_token_that_lives_for_half_a_minute_serves_more_than_one_request() {
    let issuer = Issuer::start().await.with(|wants| wants.expires_in = json!(30));
    let folder = tempfile::tempdir().unwrap();
    let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}));
    assert_eq!(called(&config, folder.path()).await, written());
    assert_eq!(issuer.requests("POST /token").len(), 1);
}

#[tokio::test]
async fn an_issuer_that_takes_secrets_only_in_the_body_gets_them_there() {
    let issuer = Issuer::start().await.with(|wants| wants.methods = vec!["client_secret_post"]);
    let folder = tempfile::tempdir().unwrap();
    let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}));
    assert_eq!(called(&config, folder.path()).await, written());
    let asked = &issuer.requests("POST /token")[0];
    assert_eq!((asked.header("authorization"), asked.param("client_secret").as_deref()), (None, Some("s3")));
}

#[tokio::test]
async fn a_token_lifetime_may_exceed_the_clocks_range_or_be_written_in_another_way() {
    for lifetime in
        [json!(u64::MAX), json!(u64::MAX.to_string()), json!("3600"), json!(3599.5), json!("3599.5"), json!(null)]
    {
        let issuer = Issuer::start().await.with(|wants| wants.expires_in = lifetime.clone());
        let folder = tempfile::tempdir().unwrap();
        let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}));
        assert_eq!(called(&config, folder.path()).await, written(), "{lifetime}");
        assert_eq!(issuer.requests("POST /token").len(), 1, "{lifetime}");
    }
}

#[tokio::test]
async fn the_scope_that_a_call_needs_is_found_among_several_challenges() {
    let more = "error_description=\"say \\\"please\\\", scope=none\", Scope = \"notes:write\"";
    for challenge in [
        format!(
            "www-authenticate: Basic realm=\"x\"\r\nwww-authenticate: Bearer error=\"insufficient_scope\", {more}\r\n"
        ),
        format!("www-authenticate: Negotiate abc==, Bearer {more}\r\n"),
        "www-authenticate: Bearer scope=notes:write, error=insufficient_scope\r\n".to_owned(),
        "www-authenticate: Bearer error=\"insufficient_scope\";scope=\"notes:write\"\r\n".to_owned(),
        "www-authenticate: Bearer error_description=\"C:\\\\\", scope=\"notes:write\"\r\n".to_owned(),
    ] {
        let issuer = Issuer::start().await.with(|wants| {
            wants.call_scope = Some("notes:write");
            wants.refusal = Some(challenge.clone());
        });
        let folder = tempfile::tempdir().unwrap();
        let config = entry(&issuer, &json!({"grant": "client_credentials", "clientId": "us", "clientSecret": "s3"}));
        assert_eq!(called(&config, folder.path()).await, written(), "{challenge}");
        let asked = issuer.requests("POST /token").pop().unwrap();
        assert_eq!(asked.param("scope").as_deref(), Some("notes:read notes:write"), "{challenge}");
    }
}

#[tokio::test]
async fn a_client_with_a_key_signs_its_assertion() {
    let issuer = Issuer::start().await.with(|wants| wants.methods = vec!["private_key_jwt"]);
    let folder = tempfile::tempdir().unwrap();
    let random = ring::rand::SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der.as_ref()));
    let file = folder.path().join("key.pem");
    std::fs::write(&file, pem).unwrap();
    let oauth = json!({"grant": "client_credentials", "clientId": "us", "privateKeyFile": file});
    assert_eq!(called(&entry(&issuer, &oauth), folder.path()).await, written());

    let assertion = issuer.requests("POST /token")[0].param("client_assertion").unwrap();
    let (_, claims) = decoded(&assertion);
    assert_eq!((&claims["iss"], &claims["sub"], &claims["aud"]), (&json!("us"), &json!("us"), &json!(issuer.address)));
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key().as_ref());
    public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
}

#[tokio::test]
async fn a_workload_sends_its_files_current_assertion() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let config = entry(&issuer, &json!({"grant": "jwt_bearer", "clientId": "us", "assertionFile": file}));
    for text in ["first", "second"] {
        std::fs::write(&file, format!("{text}\n")).unwrap();
        assert_eq!(called(&config, folder.path()).await, written());
        let asked = issuer.requests("POST /token").pop().unwrap();
        assert_eq!(asked.param("assertion").as_deref(), Some(text));
        assert_eq!(asked.param("grant_type").unwrap(), "urn:ietf:params:oauth:grant-type:jwt-bearer");
        assert_eq!(asked.param("client_id").as_deref(), Some("us"));
    }
}

#[tokio::test]
async fn an_enterprise_identity_provider_exchanges_an_identity_for_a_grant() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let config = entry(
        &issuer,
        &json!({
            "grant": "enterprise_managed", "clientId": "us", "clientSecret": "s3", "assertion": "${ID_TOKEN}",
            "identityProvider": {"tokenEndpoint": format!("{}/exchange", issuer.address), "clientId": "us-there"},
        }),
    );
    assert!(!format!("{config:?}").contains("hush-hush"));
    assert_eq!(called(&config, folder.path()).await, written());
    let exchange = &issuer.requests("POST /exchange")[0];
    for (name, value) in [
        ("subject_token", "hush-hush"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("audience", &issuer.address),
        ("client_id", "us-there"),
    ] {
        assert_eq!(exchange.param(name).as_deref(), Some(value));
    }
    assert_eq!(issuer.requests("POST /token")[0].param("assertion").as_deref(), Some("grant-of-the-provider"));
}

#[tokio::test]
async fn an_unreadable_secret_is_named_and_no_token_is_requested() {
    let issuer = Issuer::start().await;
    let config = entry(&issuer, &json!({"grant": "jwt_bearer", "assertionFile": "/no/such/file"}));
    let servers = deepagents_mcp::McpServers::new([("alpha", config)], crate::script::options());
    servers.ready().await;
    let problem = servers.status()[0].problem().unwrap().to_owned();
    servers.close().await;
    assert!(problem.contains("/no/such/file"), "{problem}");
    assert!(issuer.requests("POST /token").is_empty());
}

#[test]
fn an_inconsistent_entry_is_an_error_that_says_what_is_missing() {
    let problem = |oauth: serde_json::Value| {
        let entry: Entry = serde_json::from_value(json!({"url": "https://example.com/mcp", "oauth": oauth})).unwrap();
        match entry.config(&|_| None).unwrap_err() {
            EntryError::OAuth(why) => why,
            other => panic!("{other:?}"),
        }
    };
    let problems = [
        json!({"grant": "client_credentials", "clientId": "us"}),
        json!({"clientSecret": "s"}),
        json!({"clientId": "us", "clientSecret": "s", "privateKey": "k"}),
        json!({"grant": "jwt_bearer"}),
        json!({"grant": "jwt_bearer", "assertion": "a", "assertionFile": "b"}),
        json!({"grant": "enterprise_managed", "assertion": "a"}),
        json!({"issuer": "http://issuer.example"}),
        json!({"issuer": "https://issuer.example/.well-known/openid-configuration"}),
    ];
    let issuer = "`issuer` must be the https address by which the token issuer names itself in its metadata";
    let expected = [
        "the grant `client_credentials` needs `clientId`, and `clientSecret` or `privateKey`",
        "a secret or a key needs the `clientId` that it belongs to",
        "a client may have either `clientSecret` or a private key, not both",
        "the grant `jwt_bearer` needs `assertion` or `assertionFile`",
        "`assertion` and `assertionFile` are both given; give only one of them",
        "the grant `enterprise_managed` needs `identityProvider`",
        issuer,
        issuer,
    ];
    assert_eq!(problems.map(problem), expected);
}
