//! `deepagents mcp list`, `get` and `test`.

use std::path::Path;

use anyhow::{Result, bail};
use deepagents::mcp::{McpServers, ServerConfig, ServerState, ServerStatus, TransportConfig, shown_address};
use serde::Serialize;
use serde_json::{Value, json};

use super::discover::{self, Described, Found, HERE, Source};
use crate::args::{AgentArgs, McpServerArgs, McpSources};
use crate::exit::{self, Exit};
use crate::trust::Undecided;
use crate::{output, runtime};

/// Lists all servers, and whether they answer.
pub(super) fn list(sources: &McpSources, as_json: bool) -> Result<Exit> {
    let found = discover::find_here(sources)?;
    if found.servers.is_empty() && found.untrusted.is_empty() {
        return exit::shown(if as_json {
            "[]"
        } else {
            "There are no MCP servers; add one with `deepagents mcp add`."
        });
    }
    let status = connect(super::usable(&found))?;
    let rows: Vec<Row> = rows(&found, &status);
    if as_json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        output::print(&serde_json::to_string_pretty(&rows)?)?;
    } else {
        rows.iter().try_for_each(|row| output::print(&row.line()))?;
    }
    Ok(Exit::Done)
}

/// Connects to servers, and ends them again.
fn connect(configs: Vec<(String, ServerConfig)>) -> Result<Vec<ServerStatus>> {
    let servers = McpServers::new(configs, super::options(Path::new(HERE)));
    Ok(runtime::start()?.block_on(async {
        servers.connect().await;
        let status = servers.status();
        servers.close().await;
        status
    }))
}

/// A server in a list.
struct Row<'a> {
    server: &'a Described,
    state: String,
    status: Option<&'a ServerStatus>,
}

fn rows<'a>(found: &'a Found, status: &'a [ServerStatus]) -> Vec<Row<'a>> {
    let one = |server: &'a Described| {
        let status = status.iter().find(|status| status.name == server.name);
        let state = match (&server.entry, status.map(|status| &status.state)) {
            _ if server.is_disabled() => "switched off".to_owned(),
            (_, Some(ServerState::Connected)) => "connected".to_owned(),
            (_, Some(ServerState::Failed { problem })) => problem.clone(),
            (_, Some(_)) => "has ended".to_owned(),
            (_, None) => server.config().err().map(|error| error.to_string()).unwrap_or_default(),
        };
        Row { server, state, status }
    };
    let untrusted = found.untrusted.iter().map(|server| Row {
        server,
        state: "not started: you have not agreed to it (--trust)".to_owned(),
        status: None,
    });
    found.servers.iter().map(one).chain(untrusted).collect()
}

impl Row<'_> {
    fn line(&self) -> String {
        let tools = self.status.filter(|status| status.problem().is_none());
        let tools = tools.map(|status| format!(", {}", cost(status)));
        let (name, source) = (&self.server.name, source(self.server.source));
        format!("{name:<20} {source:<8} {}{}", self.state, tools.unwrap_or_default())
    }

    fn json(&self) -> Value {
        json!({
            "name": self.server.name,
            "source": source(self.server.source),
            "file": self.server.file,
            "state": self.state,
            "tools": self.status.map(|status| status.tools.len()),
            "tokens": self.status.map(tokens),
        })
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::User => "user",
        Source::Project => "project",
        Source::Named => "named",
    }
}

/// Returns what an agent's MCP tools cost, as far as known from earlier runs.
pub(crate) fn known(args: &AgentArgs) -> Result<Vec<KnownServer>> {
    if args.no_mcp {
        return Ok(Vec::new());
    }
    let found = discover::find(&args.mcp, args.directory(), Undecided::for_inspection(args))?;
    let servers = McpServers::new(super::usable(&found), super::options(args.directory()));
    runtime::start()?.block_on(servers.load_cached());
    let known = servers.status().into_iter().filter(|status| !status.tools.is_empty());
    Ok(known
        .map(|status| KnownServer { tokens: tokens(&status), tools: status.tools.len(), name: status.name })
        .collect())
}

/// A server known from an earlier run.
#[derive(Debug, Serialize)]
pub(crate) struct KnownServer {
    pub(crate) name: String,
    pub(crate) tools: usize,
    /// Tokens that its tools add to every request.
    pub(crate) tokens: usize,
}

/// Describes how many tools a server offers, and what they cost in every request.
pub(crate) fn cost(status: &ServerStatus) -> String {
    format!("{}, about {} tokens", number(status.tools.len()), tokens(status))
}

pub(crate) fn number(tools: usize) -> String {
    format!("{tools} tool{}", if tools == 1 { "" } else { "s" })
}

/// Returns the tokens that a server's tools add to every request, at four characters per token.
fn tokens(status: &ServerStatus) -> usize {
    let chars = |text: &str| text.chars().count();
    let tool = |tool: &deepagents::core::tool::ToolSpec| {
        chars(&tool.name) + chars(&tool.description) + chars(&tool.schema.to_string())
    };
    status.tools.iter().map(tool).sum::<usize>().div_ceil(4)
}

/// Shows a server's description.
pub(super) fn get(McpServerArgs { name, sources }: &McpServerArgs) -> Result<Exit> {
    let found = discover::find_here(sources)?;
    let mut all = found.servers.iter().chain(&found.untrusted);
    let Some(server) = all.find(|server| server.name == *name) else {
        return found.get(name).map(|_| Exit::Done);
    };
    let mut lines = vec![name.clone(), format!("  from     {} ({})", server.file.display(), source(server.source))];
    match &server.entry {
        Err(error) => lines.push(format!("  problem  {error}")),
        Ok(entry) => {
            // As in the file: variables are not substituted, and values of variables and headers are not shown.
            let named = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>().join(", ");
            lines.extend(entry.command.iter().map(|command| format!("  command  {command} {}", entry.args.join(" "))));
            lines.extend(entry.url.iter().map(|url| format!("  url      {}", shown_address(url))));
            if !entry.env.is_empty() {
                lines.push(format!("  env      {}", named(entry.env.keys().collect())));
            }
            if !entry.headers.is_empty() {
                lines.push(format!("  headers  {}", named(entry.headers.keys().collect())));
            }
            lines.extend(entry.sampling.map(|how| format!("  sampling {}", json!(how).as_str().unwrap_or_default())));
            lines.extend(entry.allowed_tools.iter().map(|globs| format!("  allowed  {}", globs.join(", "))));
            if !entry.disabled_tools.is_empty() {
                lines.push(format!("  disabled {}", entry.disabled_tools.join(", ")));
            }
        }
    }
    exit::shown(&lines.join("\n"))
}

/// Connects to a server and shows its tools.
pub(super) fn test(McpServerArgs { name, sources }: &McpServerArgs) -> Result<Exit> {
    let config = discover::find_here(sources)?.usable(name)?;
    let reached = match &config.transport {
        TransportConfig::Stdio(stdio) => stdio.command.clone(),
        TransportConfig::Http(http) => shown_address(&http.url),
        _ => String::new(),
    };
    let status = connect(vec![(name.clone(), config)])?;
    let Some(status) = status.first() else { return Ok(Exit::Failed) };
    if let Some(problem) = status.problem() {
        bail!("{problem}");
    }
    let hidden = if status.hidden > 0 { format!(", {} not offered", status.hidden) } else { String::new() };
    output::print(&format!(
        "{name} answers ({reached}): {}, about {} tokens{hidden}",
        number(status.tools.len()),
        tokens(status)
    ))?;
    for tool in &status.tools {
        let about = crate::render::style::first_line(&tool.description, 90);
        output::print(&crate::render::style::printable(&format!("  {:<40} {about}", tool.name)))?;
    }
    if status.resources {
        output::print("  it has resources too")?;
    }
    Ok(Exit::Done)
}
