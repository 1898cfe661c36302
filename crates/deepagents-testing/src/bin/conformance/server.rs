//! The scripted model server, a child process.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(crate) struct Server {
    url: String,
    http: reqwest::Client,
    /// Killed on drop.
    _child: Child,
}

impl Server {
    pub(crate) async fn start(script: &Path) -> Result<Self> {
        if !script.exists() {
            bail!("there is no model server at {}; name it with --mockllm", script.display());
        }
        let mut child = Command::new("python3")
            .arg(script)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start python3 for the model server")?;
        let out = child.stdout.take().context("no output of the model server")?;
        let line = BufReader::new(out).lines().next_line().await?.context("the model server said nothing")?;
        let url = line.strip_prefix("listening ").context("the model server did not say where it listens")?;
        // The HTTP client requires a TLS provider even if it never uses TLS. One may be installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { url: url.to_owned(), http, _child: child })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Loads a scenario's script and clears the request log.
    pub(crate) async fn load(&self, scenario: &[u8]) -> Result<()> {
        let request = self.http.post(format!("{}/__script", self.url)).body(scenario.to_vec());
        request.send().await?.error_for_status()?;
        Ok(())
    }

    /// Returns the requests since the script was loaded.
    pub(crate) async fn log(&self) -> Result<Value> {
        let answer = self.http.get(format!("{}/__log", self.url)).send().await?.error_for_status()?;
        Ok(serde_json::from_slice(&answer.bytes().await?)?)
    }
}
