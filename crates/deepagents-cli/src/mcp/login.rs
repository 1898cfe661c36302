//! `deepagents mcp login` and `logout`.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use deepagents::mcp::{HttpConfig, TransportConfig, auth};

use super::discover;
use crate::args::McpSources;
use crate::exit::{Exit, WrongUsage};
use crate::trust::Undecided;
use crate::{browser, output, runtime};

/// Logs in to a server in a browser.
pub(super) fn login(sources: &McpSources, root: &Path, name: &str) -> Result<Exit> {
    let (config, folder) = (address(sources, root, name)?, folder()?);
    let show = |address: &str| {
        output::say(&format!("open this address in a browser to log in to {name}:\n{address}"));
        browser::open(address);
    };
    let logged_in = runtime::start()?.block_on(auth::login(name, &config, &folder, show));
    logged_in.map_err(|error| anyhow!("the login to {name} failed: {error}"))?;
    output::print(&format!("logged in to {name}"))?;
    Ok(Exit::Done)
}

/// Removes the login to a server.
pub(super) fn logout(sources: &McpSources, root: &Path, name: &str) -> Result<Exit> {
    let (config, folder) = (address(sources, root, name)?, folder()?);
    let known = runtime::start()?.block_on(auth::logout(name, &config, &folder))?;
    output::print(&if known { format!("logged out of {name}") } else { format!("you were not logged in to {name}") })?;
    Ok(Exit::Done)
}

fn address(sources: &McpSources, root: &Path, name: &str) -> Result<HttpConfig> {
    let found = discover::find(sources, root, Undecided::LeaveOut)?;
    match found.get(name)?.config() {
        Ok(config) => match config.transport {
            TransportConfig::Http(http) => Ok(http),
            _ => {
                let words = format!("MCP server {name} is a program; only servers with an address have logins");
                bail!(WrongUsage(words))
            }
        },
        Err(error) => bail!("MCP server {name} cannot be used: {error}"),
    }
}

fn folder() -> Result<std::path::PathBuf> {
    super::token_folder().ok_or_else(|| anyhow!("there is no home directory to store the login in; set HOME"))
}
