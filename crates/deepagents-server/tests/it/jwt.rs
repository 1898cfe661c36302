//! Tokens signed by an issuer.

use std::time::Duration;

use deepagents::models::scripted::Turn;
use deepagents_server::{Identity, JwtAlgorithm, JwtTokens, StaticTokens};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::access::nothing_answers;
use crate::issuer::{Issuer, Key, encode, now};
use crate::support::{Client, run, say, server};

async fn issuer(keys: &[(&str, &Key)]) -> (Issuer, JwtTokens) {
    let issuer = Issuer::start(keys.iter().map(|(id, key)| key.public(id)).collect()).await;
    let tokens = JwtTokens::discover(&issuer.url, "deepagents").unwrap();
    (issuer, tokens)
}

async fn serve(tokens: JwtTokens) -> Client {
    run(server(vec![Turn::text("Hello.")]).authenticate(tokens)).await.0
}

async fn status(client: &Client, token: &str) -> (StatusCode, String) {
    let (status, body) = client.with_token(token).send(Method::GET, "/info", &json!({})).await;
    (status, body["detail"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn an_issuers_token_identifies_its_user_and_keeps_their_data_private() {
    let (ec, ed, rsa) = (Key::ec(), Key::ed(), Key::rsa());
    let (issuer, tokens) = issuer(&[("1", &ec), ("2", &ed), ("3", &rsa)]).await;
    let client = serve(tokens.admin("realm_access.roles", "operator")).await;
    let ada = client.with_token(&ec.token("1", &issuer.claims("ada")));
    let bob = client.with_token(&ed.token("2", &issuer.claims("bob")));
    let again = client.with_token(&rsa.token("3", &issuer.claims("ada")));
    let mut operator = issuer.claims("root");
    operator["realm_access"] = json!({"roles": ["reader", "operator"]});
    let operator = client.with_token(&ec.token("1", &operator));
    let id = ada.thread().await;
    let path = format!("/threads/{id}");
    ada.post(&format!("{path}/runs/wait"), say("hi")).await;
    assert_eq!(again.get(&path).await["thread_id"], json!(id));
    assert_eq!(operator.get(&path).await["thread_id"], json!(id));
    assert_eq!(bob.send(Method::GET, &path, &json!({})).await.0, StatusCode::NOT_FOUND);
    assert_eq!(issuer.fetches(), 1);
    nothing_answers(&client, &ada).await;
    let forged = client.with_token(&Key::ec().token("1", &issuer.claims("ada")));
    nothing_answers(&forged, &ada).await;
}

#[tokio::test]
async fn an_invalid_token_is_rejected_with_the_reason() {
    let (key, rsa) = (Key::ec(), Key::rsa());
    let (issuer, tokens) = issuer(&[("1", &key), ("rsa", &rsa)]).await;
    let client = serve(tokens.algorithms([JwtAlgorithm::Es256])).await;
    let good = issuer.claims("ada");
    assert_eq!(status(&client, &key.token("1", &good)).await.0, StatusCode::OK);
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        key.token("1", &claims)
    };
    let head = |head: Value| key.token_with(&head, &good);
    let good_token = key.token("1", &good);
    let (signed, signature) = good_token.rsplit_once('.').unwrap();
    let header = signed.split('.').next().unwrap();
    let mut other = good.clone();
    other["sub"] = json!("root");
    let changed = format!("{header}.{}.{signature}", encode(other.to_string()));
    let unsigned = format!("{}.{}.", encode(json!({"alg": "none"}).to_string()), encode(good.to_string()));
    for (token, why) in [
        (with("exp", json!(now() - 61)), "expired"),
        (with("exp", Value::Null), "`exp`"),
        (with("exp", json!("9999999999")), "`exp`"),
        (with("nbf", json!(now() + 3600)), "not valid yet"),
        (with("nbf", json!("soon")), "`nbf`"),
        (with("iss", json!("https://other.example")), "another issuer"),
        (with("aud", json!("others")), "another audience"),
        (with("aud", json!(["others", 7])), "another audience"),
        (with("aud", Value::Null), "another audience"),
        (with("sub", Value::Null), "`sub`"),
        (with("sub", json!("")), "`sub`"),
        (head(json!({"alg": "HS256", "kid": "1"})), "HS256"),
        (head(json!({"alg": "es256", "kid": "1"})), "es256"),
        (head(json!({"alg": "ES384", "kid": "1"})), "ES384"),
        (head(json!({"alg": "ES256", "kid": "2"})), "not signed with a key"),
        (head(json!({"alg": "ES256", "kid": "1", "crit": ["b64"], "b64": false})), "critical"),
        (head(json!(["ES256", "1", null])), "is not a JWT"),
        (rsa.token("rsa", &good), "RS256"),
        (changed, "not signed with a key"),
        (unsigned, "none"),
        (Key::ec().token("1", &good), "not signed with a key"),
        ("a.b.c".to_owned(), "is not a JWT"),
        ("nonsense".to_owned(), "is not a JWT"),
        ("..".to_owned(), "is not a JWT"),
        (format!("{good_token}x"), "no"),
        ("x".repeat(20_000), "too long"),
    ] {
        let (status, detail) = status(&client, &token).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{why}");
        assert!(detail.contains(why), "{why}: {detail}");
    }
    let several = with("aud", json!(["others", "deepagents"]));
    assert_eq!(status(&client, &several).await.0, StatusCode::OK);
}

#[tokio::test]
async fn token_times_may_differ_within_the_allowed_clock_skew() {
    let key = Key::ec();
    let (issuer, tokens) = issuer(&[("1", &key)]).await;
    let (lenient, strict) = (serve(tokens).await, JwtTokens::discover(&issuer.url, "deepagents").unwrap());
    let strict = serve(strict.leeway(Duration::ZERO)).await;
    let mut claims = issuer.claims("ada");
    claims["exp"] = json!(now() - 20);
    let late = key.token("1", &claims);
    assert_eq!(status(&lenient, &late).await.0, StatusCode::OK);
    assert_eq!(status(&strict, &late).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn rotated_keys_are_fetched_but_unknown_key_ids_are_not() {
    let (old, new) = (Key::ec(), Key::ec());
    let (issuer, tokens) = issuer(&[("old", &old)]).await;
    let client = serve(tokens.refresh_pause(Duration::ZERO)).await;
    let claims = issuer.claims("ada");
    let (old_token, new_token) = (old.token("old", &claims), new.token("new", &claims));
    assert_eq!(status(&client, &old_token).await.0, StatusCode::OK);
    assert_eq!(status(&client, &new_token).await.0, StatusCode::UNAUTHORIZED);
    issuer.set_keys(vec![new.public("new")]);
    assert_eq!(status(&client, &new_token).await.0, StatusCode::OK);
    assert_eq!(status(&client, &old_token).await.0, StatusCode::UNAUTHORIZED, "a key that was withdrawn");
    let patient = JwtTokens::discover(&issuer.url, "deepagents").unwrap().refresh_pause(Duration::from_secs(3600));
    let client = serve(patient).await;
    let before = issuer.fetches();
    for number in 0..20 {
        let made_up = Key::ec().token(&format!("made up {number}"), &claims);
        assert_eq!(status(&client, &made_up).await.0, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(issuer.fetches(), before + 1);
}

#[tokio::test]
async fn concurrent_requests_fetch_the_keys_once() {
    let key = Key::ec();
    let (issuer, tokens) = issuer(&[("1", &key)]).await;
    let client = serve(tokens).await;
    let token = key.token("1", &issuer.claims("ada"));
    let requests = (0..30).map(|_| status(&client, &token));
    for (status, detail) in futures_util::future::join_all(requests).await {
        assert_eq!(status, StatusCode::OK, "{detail}");
    }
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn known_keys_work_while_the_issuer_is_down_and_missing_ones_are_reported() {
    let key = Key::ec();
    let (issuer, tokens) = issuer(&[("1", &key)]).await;
    issuer.set_away(true);
    let client = serve(tokens.refresh_pause(Duration::ZERO)).await;
    let token = key.token("1", &issuer.claims("ada"));
    let (unavailable, detail) = status(&client, &token).await;
    assert_eq!(unavailable, StatusCode::SERVICE_UNAVAILABLE);
    assert!(detail.contains("502"), "{detail}");
    issuer.set_away(false);
    assert_eq!(status(&client, &token).await.0, StatusCode::OK);
    issuer.set_away(true);
    let unknown = Key::ec().token("2", &issuer.claims("ada"));
    assert_eq!(status(&client, &unknown).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&client, &token).await.0, StatusCode::OK);
}

#[tokio::test]
async fn static_tokens_and_jwts_work_side_by_side() {
    let key = Key::ec();
    let (issuer, tokens) = issuer(&[("1", &key)]).await;
    let written = StaticTokens::new().token("a long token of a robot", Identity::new("robot"));
    let client = run(server(vec![]).authenticate(written).authenticate(tokens)).await.0;
    assert_eq!(status(&client, "a long token of a robot").await.0, StatusCode::OK);
    assert_eq!(issuer.fetches(), 0);
    assert_eq!(status(&client, &key.token("1", &issuer.claims("ada"))).await.0, StatusCode::OK);
    assert_eq!(status(&client, "a long token of nobody").await.0, StatusCode::UNAUTHORIZED);
}

#[test]
fn keys_are_fetched_only_over_https_or_from_localhost() {
    for good in ["https://login.example.com/realms/a", "http://127.0.0.1:8080", "http://localhost/x"] {
        assert!(JwtTokens::discover(good, "a").is_ok(), "{good}");
    }
    for bad in ["http://login.example.com", "login.example.com", "ftp://localhost", "http://localhost.example.com", ""]
    {
        assert!(JwtTokens::discover(bad, "a").is_err(), "{bad}");
        assert!(JwtTokens::with_keys_at(bad, "issuer", "a").is_err(), "{bad}");
    }
}

#[tokio::test]
async fn an_unverified_email_address_identifies_nobody() {
    let key = Key::ec();
    let (issuer, tokens) = issuer(&[("1", &key)]).await;
    let client = serve(tokens.identity_claim("email")).await;
    let with = |verified: Option<Value>| {
        let mut claims = issuer.claims("eve-2");
        claims["email"] = json!("ada@example.com");
        if let Some(verified) = verified {
            claims["email_verified"] = verified;
        }
        key.token("1", &claims)
    };
    for verified in [None, Some(json!(true)), Some(json!("true"))] {
        assert_eq!(status(&client, &with(verified)).await.0, StatusCode::OK);
    }
    for unverified in [json!(false), json!("false"), json!(1), Value::Null] {
        let (status, why) = status(&client, &with(Some(unverified))).await;
        assert!(status == StatusCode::FORBIDDEN && why.contains("not verified"), "{status} {why}");
    }
}
