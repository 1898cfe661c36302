//! `deepagents mcp login` and `logout`.

use anyhow::{Result, anyhow, bail};
use deepagents::mcp::{HttpConfig, TransportConfig, auth};

use super::discover;
use crate::args::McpServerArgs;
use crate::exit::{self, Exit, WrongUsage};
use crate::{browser, output, runtime};

/// Logs in to a server in a browser.
pub(super) fn login(server: &McpServerArgs) -> Result<Exit> {
    let (name, config, folder) = (&server.name, address(server)?, folder()?);
    let show = |address: &str| {
        output::say(&format!("open this address in a browser to log in to {name}:\n{address}"));
        browser::open(address);
    };
    let logged_in = runtime::start()?.block_on(auth::login(name, &config, &folder, show));
    logged_in.map_err(|error| anyhow!("the login to {name} failed: {error}"))?;
    exit::shown(&format!("logged in to {name}"))
}

/// Removes the login to a server.
pub(super) fn logout(server: &McpServerArgs) -> Result<Exit> {
    let (name, config, folder) = (&server.name, address(server)?, folder()?);
    let known = runtime::start()?.block_on(auth::logout(name, &config, &folder))?;
    exit::shown(&if known { format!("logged out of {name}") } else { format!("you were not logged in to {name}") })
}

fn address(McpServerArgs { name, sources }: &McpServerArgs) -> Result<HttpConfig> {
    match discover::find_here(sources)?.usable(name)?.transport {
        TransportConfig::Http(http) => Ok(http),
        _ => {
            bail!(WrongUsage::new(format!("MCP server {name} is a program; only servers with an address have logins")))
        }
    }
}

fn folder() -> Result<std::path::PathBuf> {
    super::token_folder().ok_or_else(|| anyhow!("there is no home directory to store the login in; set HOME"))
}
