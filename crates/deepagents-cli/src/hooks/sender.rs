//! Hooks that are HTTP services: sending and signing their requests.

use deepagents::core::env::Timestamp;
use deepagents::middleware::hooks::{HookRequest, HookResponse, HookSender};
use deepagents::models::ClientPool;
use futures_util::future::{BoxFuture, FutureExt};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::model_choice::env;
use crate::proxy;

/// The signature header: `t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of the seconds, a dot and the body.
const SIGNATURE: &str = "x-deepagents-signature";
/// Maximum size of an answer in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Sends requests with a client that all hooks share.
#[derive(Debug, Default)]
pub(super) struct Sender {
    clients: ClientPool,
}

impl HookSender for Sender {
    fn send(&self, request: HookRequest) -> BoxFuture<'_, Result<HookResponse, String>> {
        async move {
            let mut headers = request.headers;
            if let Some(name) = &request.secret_env {
                let secret =
                    env(name).ok_or_else(|| format!("the variable {name}, which holds its secret, is not set"))?;
                headers.push((SIGNATURE.to_owned(), signature(&secret, Timestamp::now().as_second(), &request.body)));
            }
            let proxy = proxy::for_address(&request.url, &env);
            let answer = self.clients.post(&request.url, &headers, request.body, proxy, MAX_RESPONSE_BYTES).await;
            let answer = answer.map_err(|error| error.to_string())?;
            Ok(HookResponse { status: answer.status, body: answer.body })
        }
        .boxed()
    }
}

/// Returns the header value for a body sent at the given time.
fn signature(secret: &str, seconds: i64, body: &str) -> String {
    // Cannot fail: HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{seconds}.{body}").as_bytes());
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_can_be_verified_with_the_secret() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret
        let expected = "49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686";
        assert_eq!(signature("secret", 1_700_000_000, r#"{"a":1}"#), format!("t=1700000000,v1={expected}"));
    }
}
