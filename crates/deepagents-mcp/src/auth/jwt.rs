//! Signs tokens (JWS, RFC 7515) with our keys.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use serde_json::{Value, json};

use crate::cache;

/// Validity of an assertion, in seconds.
const VALIDITY_SECONDS: u64 = 300;

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    /// The key has an unknown format.
    #[error("the private key is not a P-256, P-384 or RSA key in PEM; `openssl pkcs8 -topk8 -nocrypt` makes one")]
    Format,
    /// The system has no random numbers, or signing failed.
    #[error("the private key cannot sign")]
    Sign,
}

/// A private key.
pub(super) enum SigningKey {
    Es256(EcdsaKeyPair),
    Es384(EcdsaKeyPair),
    Rs256(Box<RsaKeyPair>),
}

impl SigningKey {
    /// Reads a PEM key.
    pub(super) fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let body: String =
            pem.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("-----")).collect();
        Self::from_pkcs8(&STANDARD.decode(body).map_err(|_| KeyError::Format)?)
    }

    /// Reads a PKCS #8 key.
    pub(super) fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random) {
            return Ok(Self::Es256(key));
        }
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, der, &random) {
            return Ok(Self::Es384(key));
        }
        let rsa = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
        rsa.map(|key| Self::Rs256(Box::new(key))).map_err(|_| KeyError::Format)
    }

    /// Generates a P-256 key as PKCS #8.
    pub(super) fn generate() -> Result<Vec<u8>, KeyError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        made.map(|der| der.as_ref().to_vec()).map_err(|_| KeyError::Sign)
    }

    /// Returns the public key of a P-256 key as a JWK.
    pub(super) fn public_jwk(&self) -> Option<Value> {
        let Self::Es256(key) = self else { return None };
        // Uncompressed point: 4, x, y.
        let point = key.public_key().as_ref();
        let (x, y) = (point.get(1..33)?, point.get(33..65)?);
        Some(json!({"kty": "EC", "crv": "P-256", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)}))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::Es384(_) => "ES384",
            Self::Rs256(_) => "RS256",
        }
    }

    /// Signs claims. Adds the algorithm to the header.
    pub(super) fn sign(&self, mut header: Value, claims: &Value) -> Result<String, KeyError> {
        if let Some(header) = header.as_object_mut() {
            header.insert("alg".to_owned(), self.algorithm().into());
        }
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(claims));
        let random = SystemRandom::new();
        let signature = match self {
            Self::Es256(key) | Self::Es384(key) => {
                key.sign(&random, signed.as_bytes()).map_err(|_| KeyError::Sign)?.as_ref().to_vec()
            }
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).map_err(|_| KeyError::Sign)?;
                signature
            }
        };
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Creates an assertion that authenticates a client (`private_key_jwt`, RFC 7523).
    pub(super) fn client_assertion(&self, client_id: &str, audience: &str) -> Result<String, KeyError> {
        let now = cache::now();
        let claims = json!({
            "iss": client_id, "sub": client_id, "aud": audience, "iat": now, "exp": now + VALIDITY_SECONDS, "jti": unique()?,
        });
        self.sign(json!({"typ": "JWT"}), &claims)
    }
}

/// Returns a random ID.
pub(super) fn unique() -> Result<String, KeyError> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Sign)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
