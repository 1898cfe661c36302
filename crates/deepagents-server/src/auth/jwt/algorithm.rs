//! Signature algorithms and the public keys that verify signatures.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;

/// A signature algorithm for tokens. All are asymmetric: shared secrets and unsigned tokens are never accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum JwtAlgorithm {
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
    /// RSA PKCS#1 v1.5 with SHA-384.
    Rs384,
    /// RSA PKCS#1 v1.5 with SHA-512.
    Rs512,
    /// RSA PSS with SHA-256.
    Ps256,
    /// RSA PSS with SHA-384.
    Ps384,
    /// RSA PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// How a signature is verified.
enum Check {
    Rsa(&'static RsaParameters),
    /// By curve, as named in keys.
    Curve(&'static str, &'static dyn VerificationAlgorithm),
}

impl JwtAlgorithm {
    /// All supported algorithms.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    fn check(self) -> Check {
        match self {
            Self::Rs256 => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            Self::Es256 => Check::Curve("P-256", &signature::ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Check::Curve("P-384", &signature::ECDSA_P384_SHA384_FIXED),
            Self::EdDsa => Check::Curve("Ed25519", &signature::ED25519),
        }
    }
}

/// A public key in a JSON Web Key Set (RFC 7517).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// A key that verifies signatures.
#[derive(Clone, Debug)]
pub(super) struct VerifyingKey {
    pub(super) id: Option<String>,
    /// The only algorithm the key may be used with, if it names one.
    algorithm: Option<JwtAlgorithm>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Point { curve: String, bytes: Vec<u8> },
}

impl VerifyingKey {
    /// Converts a key. Returns `None` if it is not for signatures or its type is unknown.
    pub(super) fn read(key: Jwk) -> Option<Self> {
        if key.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let algorithm = match key.alg {
            // An unknown algorithm must not count as unspecified.
            Some(name) => Some(serde_json::from_value(name.into()).ok()?),
            None => None,
        };
        let bytes = |part: Option<&String>| part.and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let material = match key.kty.as_str() {
            "RSA" => Material::Rsa { n: bytes(key.n.as_ref())?, e: bytes(key.e.as_ref())? },
            "EC" => {
                // The uncompressed form of a point (SEC 1, 2.3.3).
                let point = [vec![4], bytes(key.x.as_ref())?, bytes(key.y.as_ref())?].concat();
                Material::Point { curve: key.crv?, bytes: point }
            }
            "OKP" => Material::Point { curve: key.crv?, bytes: bytes(key.x.as_ref())? },
            _ => return None,
        };
        Some(Self { id: key.kid, algorithm, material })
    }

    /// Verifies a signature with this key.
    pub(super) fn verifies(&self, algorithm: JwtAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.is_some_and(|own| own != algorithm) {
            return false;
        }
        match (algorithm.check(), &self.material) {
            (Check::Rsa(parameters), Material::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            (Check::Curve(wanted, check), Material::Point { curve, bytes }) => {
                wanted == curve && UnparsedPublicKey::new(check, bytes).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}
