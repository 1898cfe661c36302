//! Who may call the server, how, and what the audit log records.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use deepagents_server::{Identity, JwtTokens, Server, StaticTokens, WebhookPolicy};
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::project::{JwtSection, LimitsSection, ProjectFile};
use crate::args::ServeArgs;
use crate::exit::WrongUsage;
use crate::model_choice::env;
use crate::output;

/// Access settings of the command line and the file, read before anything starts.
pub(super) struct Access {
    tokens: Option<StaticTokens>,
    issuer: Option<JwtSection>,
    limits: LimitsSection,
    hosts: Vec<String>,
    origins: Vec<String>,
    audit: Option<File>,
    tls: Option<ServerConfig>,
    webhooks: WebhookPolicy,
}

impl Access {
    pub(super) fn read(args: &ServeArgs, settings: &ProjectFile) -> Result<Self> {
        let (server, auth) = (&settings.server, &settings.auth);
        let (certificates, key) = match &args.tls_cert {
            Some(_) => (&args.tls_cert, &args.tls_key),
            None => (&server.tls_cert, &server.tls_key),
        };
        let files = certificates.as_ref().zip(key.as_ref());
        let tls = files.map(|(certificates, key)| tls(certificates, key)).transpose()?;
        let secret =
            args.webhook_secret_env.as_ref().or(server.webhook_secret_env.as_ref()).map(|name| {
                env(name).ok_or_else(|| anyhow!("the variable {name}, which holds the secret, is not set"))
            });
        let webhooks = secret.transpose()?.into_iter().fold(WebhookPolicy::default(), WebhookPolicy::secret);
        let tokens = args.tokens.as_deref().or(auth.tokens.as_deref()).map(tokens).transpose()?;
        let audit = args.audit.as_deref().or(server.audit.as_deref()).map(append).transpose()?;
        let hosts = server.hosts.iter().chain(&args.hosts).cloned().collect();
        let (issuer, limits, origins) = (auth.jwt.clone(), settings.limits.clone(), server.origins.clone());
        let access = Self { tokens, issuer, limits, hosts, origins, audit, tls, webhooks };
        if access.origins.iter().any(|origin| origin == "*") && !access.asks() {
            bail!("any web page could do everything; say who may call in [auth], or list the origins");
        }
        // Report a bad configuration now.
        access.issuer.as_ref().map(issued).transpose()?;
        Ok(access)
    }

    /// Returns the files of the settings, which hold secrets or what callers did.
    pub(super) fn files(args: &ServeArgs, settings: &ProjectFile) -> Vec<PathBuf> {
        let (server, auth) = (&settings.server, &settings.auth);
        let given = [&args.tokens, &args.audit, &args.tls_cert, &args.tls_key];
        let described = [&auth.tokens, &server.audit, &server.tls_cert, &server.tls_key];
        given.into_iter().chain(described).flatten().cloned().collect()
    }

    /// Remarks on files with secrets that other users of this machine can read.
    pub(super) fn remark_readable(args: &ServeArgs, settings: &ProjectFile) {
        let tokens = args.tokens.as_ref().or(settings.auth.tokens.as_ref());
        let key = args.tls_key.as_ref().or(settings.server.tls_key.as_ref());
        for file in tokens.into_iter().chain(key).filter(|file| is_readable_by_others(file)) {
            output::remark(&format!(
                "{} holds secrets, and other users of this machine can read it; chmod 600 changes that",
                file.display()
            ));
        }
    }

    /// Whether callers must authenticate.
    pub(super) fn asks(&self) -> bool {
        self.tokens.is_some() || self.issuer.is_some()
    }

    pub(super) fn tls(&self) -> Option<&ServerConfig> {
        self.tls.as_ref()
    }

    pub(super) fn apply(&self, server: Server) -> Result<Server> {
        let mut server = server.webhooks(self.webhooks.clone()).limits(self.limits.default_limits());
        for (name, limits) in &self.limits.users {
            server = server.limits_of(name, limits.limits());
        }
        server = self.hosts.iter().fold(server, Server::host);
        server = self.origins.iter().fold(server, Server::origin);
        if let Some(tokens) = &self.tokens {
            server = server.authenticate(tokens.clone());
        }
        if let Some(issuer) = &self.issuer {
            server = server.authenticate(issued(issuer)?);
        }
        if let Some(file) = self.audit.as_ref().and_then(|file| file.try_clone().ok()) {
            let file = Mutex::new(file);
            server = server.audit(move |entry| {
                let Ok(mut line) = serde_json::to_vec(entry) else { return };
                line.push(b'\n');
                // A full disk stops the audit log, not the server.
                let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
            });
        }
        Ok(server)
    }
}

/// Returns the token validation for an issuer.
fn issued(section: &JwtSection) -> Result<JwtTokens> {
    let mut audiences = section.audience.iter();
    let first = audiences.next().map(String::as_str).unwrap_or_default();
    let mut tokens = match &section.keys {
        Some(keys) => JwtTokens::with_keys_at(keys, &section.issuer, first)?,
        None => JwtTokens::discover(&section.issuer, first)?,
    };
    tokens = audiences.fold(tokens, JwtTokens::audience);
    if let Some(algorithms) = &section.algorithms {
        tokens = tokens.algorithms(algorithms.iter().copied());
    }
    if let Some(seconds) = section.leeway_seconds {
        tokens = tokens.leeway(Duration::from_secs(seconds));
    }
    if let Some(claim) = &section.identity_claim {
        tokens = tokens.identity_claim(claim);
    }
    if let Some(admin) = &section.admin {
        tokens = tokens.admin(&admin.claim, &admin.value);
    }
    Ok(tokens)
}

/// Reads one `NAME TOKEN` per line; empty lines and lines that begin with `#` are skipped.
fn tokens(file: &Path) -> Result<StaticTokens> {
    let text = fs::read_to_string(file)
        .map_err(|error| WrongUsage::new(format!("the token file `{}` cannot be read: {error}", file.display())))?;
    let mut tokens = StaticTokens::new();
    let mut count = 0;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what| WrongUsage::new(format!("{}:{}: {what}", file.display(), at + 1));
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, token] = words.as_slice() else { bail!(wrong("each line must have a name and a token")) };
        if token.len() < 16 {
            bail!(wrong("a token must have at least 16 characters; `openssl rand -hex 32` makes one"));
        }
        tokens = tokens.token(token, Identity::new(*name));
        count += 1;
    }
    if count == 0 {
        bail!(WrongUsage::new(format!("{} lists no tokens", file.display())));
    }
    Ok(tokens)
}

fn is_readable_by_others(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(file).is_ok_and(|about| about.permissions().mode() & 0o004 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        false
    }
}

fn append(file: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    // It names callers and what they do.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).with_context(|| format!("opening {}", file.display()))
}

fn tls(certificates: &Path, key: &Path) -> Result<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificates).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| unreadable("certificates", certificates, &error))?;
    if chain.is_empty() {
        return Err(unreadable("certificates", certificates, &pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("key", key, &error))?;
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    config.map_err(|error| anyhow!("the TLS certificates and their key cannot be used: {error}"))
}

fn unreadable(what: &str, file: &Path, error: &pem::Error) -> anyhow::Error {
    let file = file.display();
    let words = match error {
        pem::Error::Io(error) => format!("the file with the TLS {what} `{file}` cannot be read: {error}"),
        pem::Error::NoItemsFound => format!("the file `{file}` contains no TLS {what}; it must be in PEM format"),
        other => format!("the file with the TLS {what} `{file}` is not valid PEM: {other}"),
    };
    WrongUsage::new(words).into()
}
