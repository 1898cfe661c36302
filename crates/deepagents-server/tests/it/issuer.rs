//! A token issuer: its documents over HTTP, and its signatures.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair, RsaPublicKeyComponents};
use serde_json::{Value, json};

const AUDIENCE: &str = "deepagents";

/// A signing key.
pub(crate) enum Key {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Key {
    pub(crate) fn ec() -> Self {
        let (kind, random) = (&signature::ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).unwrap())
    }

    pub(crate) fn ed() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    pub(crate) fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::from_der(include_bytes!("rsa.der")).unwrap())
    }

    /// The public key as a JWK.
    pub(crate) fn public(&self, id: &str) -> Value {
        match self {
            Self::Ec(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": x, "y": y})
            }
            Self::Ed(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "alg": "EdDSA", "x": encode(key.public_key())})
            }
            Self::Rsa(key) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "kid": id, "alg": "RS256", "n": encode(n), "e": encode(e)})
            }
        }
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Ec(_) => "ES256",
            Self::Ed(_) => "EdDSA",
            Self::Rsa(_) => "RS256",
        }
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ec(key) => key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key) => {
                let mut out = vec![0; key.public().modulus_len()];
                key.sign(&signature::RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut out).unwrap();
                out
            }
        }
    }

    /// Signs a token with these claims.
    pub(crate) fn token(&self, id: &str, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm(), "kid": id, "typ": "JWT"}), claims)
    }

    /// Signs a token with this header.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = encode(self.signature(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// An issuer on its own port.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) url: String,
    keys: Arc<Mutex<Vec<Value>>>,
    fetches: Arc<AtomicUsize>,
    away: Arc<AtomicBool>,
}

impl Issuer {
    pub(crate) async fn start(keys: Vec<Value>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Self { url, keys: Arc::new(Mutex::new(keys)), fetches: Arc::default(), away: Arc::default() };
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys_document))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        issuer
    }

    pub(crate) fn set_keys(&self, keys: Vec<Value>) {
        *self.keys.lock().unwrap() = keys;
    }

    /// Sets whether it responds with errors.
    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// How often its keys were fetched.
    pub(crate) fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    /// The claims of a valid token.
    pub(crate) fn claims(&self, who: &str) -> Value {
        json!({"iss": self.url, "aud": AUDIENCE, "sub": who, "exp": now() + 600})
    }
}

async fn discovery(State(issuer): State<Issuer>) -> Json<Value> {
    Json(json!({"issuer": issuer.url, "jwks_uri": format!("{}/keys", issuer.url)}))
}

async fn keys_document(State(issuer): State<Issuer>) -> Result<Json<Value>, StatusCode> {
    issuer.fetches.fetch_add(1, Ordering::SeqCst);
    if issuer.away.load(Ordering::SeqCst) {
        return Err(StatusCode::BAD_GATEWAY);
    }
    let keys = issuer.keys.lock().unwrap().clone();
    Ok(Json(json!({"keys": keys})))
}

/// Seconds since the Unix epoch.
pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
