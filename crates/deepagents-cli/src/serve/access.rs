//! Who may call, how, and what is noted of it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use deepagents_server::{Identity, Server, StaticTokens, WebhookPolicy};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::args::ServeArgs;
use crate::model_choice::env;

/// What the command line says of it, read before anything begins.
pub(super) struct Access {
    tokens: Option<StaticTokens>,
    audit: Option<File>,
    tls: Option<ServerConfig>,
    webhooks: WebhookPolicy,
}

impl Access {
    pub(super) fn read(args: &ServeArgs) -> Result<Self> {
        let tls = match (&args.tls_cert, &args.tls_key) {
            (Some(certificates), Some(key)) => Some(tls(certificates, key)?),
            _ => None,
        };
        let webhooks = match &args.webhook_secret_env {
            Some(name) => {
                let secret = env(name).ok_or_else(|| anyhow!("the variable {name} with the secret is not set"))?;
                WebhookPolicy::default().secret(secret)
            }
            None => WebhookPolicy::default(),
        };
        let tokens = args.tokens.as_deref().map(tokens).transpose()?;
        let audit = args.audit.as_deref().map(append).transpose()?;
        Ok(Self { tokens, audit, tls, webhooks })
    }

    pub(super) fn tls(&self) -> Option<&ServerConfig> {
        self.tls.as_ref()
    }

    pub(super) fn apply(&self, server: Server) -> Server {
        let mut server = server.webhooks(self.webhooks.clone());
        if let Some(tokens) = &self.tokens {
            server = server.authenticate(tokens.clone());
        }
        if let Some(file) = self.audit.as_ref().and_then(|file| file.try_clone().ok()) {
            let file = Mutex::new(file);
            server = server.audit(move |entry| {
                let Ok(mut line) = serde_json::to_vec(entry) else { return };
                line.push(b'\n');
                // A full disk ends the notes and not the server.
                let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
            });
        }
        server
    }
}

/// One `NAME TOKEN` a line; empty lines and those that begin with `#` say nothing.
fn tokens(file: &Path) -> Result<StaticTokens> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let mut tokens = StaticTokens::new();
    let mut count = 0;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, token] = words.as_slice() else {
            bail!("{}:{}: a line is a name and a token", file.display(), at + 1);
        };
        if token.len() < 16 {
            bail!(
                "{}:{}: a token has at least 16 characters; `openssl rand -hex 32` makes one",
                file.display(),
                at + 1
            );
        }
        tokens = tokens.token(token, Identity::new(*name));
        count += 1;
    }
    if count == 0 {
        bail!("{} names nobody", file.display());
    }
    Ok(tokens)
}

fn append(file: &Path) -> Result<File> {
    OpenOptions::new().append(true).create(true).open(file).with_context(|| format!("opening {}", file.display()))
}

fn tls(certificates: &Path, key: &Path) -> Result<ServerConfig> {
    let read = || -> Result<_, rustls::pki_types::pem::Error> {
        let chain = CertificateDer::pem_file_iter(certificates)?.collect::<Result<Vec<_>, _>>()?;
        Ok((chain, PrivateKeyDer::from_pem_file(key)?))
    };
    let (chain, key) = read().with_context(|| format!("reading {} and {}", certificates.display(), key.display()))?;
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    config.with_no_client_auth().with_single_cert(chain, key).context("the certificate and the key")
}
