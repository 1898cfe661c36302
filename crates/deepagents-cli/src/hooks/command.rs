//! `deepagents hooks`.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use deepagents::fs::LocalBackend;
use deepagents::middleware::hooks::{HookAnswer, HookEvent, HookPermission, HookRun, HookRunner};
use serde_json::{Value, json};

use super::find::{FoundHooks, brought as found, find_quietly, place};
use crate::args::{AgentArgs, HooksArgs, HooksCommand};
use crate::exit::{Exit, WrongUsage};
use crate::own_files::OwnFiles;
use crate::render::{escaped, json_text};
use crate::small_file::without_mark;
use crate::trust::{Brought, Undecided, is_users_own};
use crate::{agent, output, runtime};

/// Lists hooks, or runs those of an event.
pub(crate) fn hooks(args: &HooksArgs) -> Result<Exit> {
    let options = only_hooks(&args.root);
    let files = agent::open(&options, None)?;
    runtime::start()?.block_on(async {
        // Even a look does not run hooks that the user has not agreed to.
        let brought = Brought::find(&options, &files, Undecided::LeaveOut).await?;
        let FoundHooks { runner, problems } = usable(&options, &files, &brought).await?;
        output::remarks(problems);
        match &args.command {
            HooksCommand::List => {
                list(runner.as_ref(), args.json)?;
                if !args.json && !are_agreed_to(&files, &options, &brought).await? {
                    output::print("hooks in /.deepagents/hooks.json are not used: nobody has agreed to them")?;
                }
                Ok(Exit::Done)
            }
            HooksCommand::Test { event, input } => test(runner.as_ref(), event, input, args.json).await,
        }
    })
}

/// Returns the problems with the hooks of a directory that the user has agreed to, and with the user's own.
///
/// # Errors
/// Returns an error if runs cannot start because of them.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let options = only_hooks(root);
    let files = agent::open(&options, None)?;
    runtime::start()?.block_on(async {
        let (brought, mut problems) = Brought::find_quietly(&options, &files).await?;
        problems.extend(usable(&options, &files, &brought).await?.problems);
        Ok(problems)
    })
}

fn only_hooks(root: &Path) -> AgentArgs {
    AgentArgs { no_memory: true, no_skills: true, no_agents: true, ..AgentArgs::at(root) }
}

async fn usable(options: &AgentArgs, files: &LocalBackend, brought: &Brought) -> Result<FoundHooks> {
    let own = OwnFiles::inside(options.directory(), None, None)?;
    let confinement = agent::Shape::from_args(options)?.confinement(files, &own);
    find_quietly(options, brought, confinement).await
}

/// Whether the directory's hooks, if there are any, may be used.
async fn are_agreed_to(files: &LocalBackend, options: &AgentArgs, brought: &Brought) -> Result<bool> {
    let root = options.directory().to_owned();
    let Ok(Some(found)) = found(files, &root).await else { return Ok(true) };
    Ok(is_users_own(&root, &found) || brought.has(&place()?))
}

fn list(runner: Option<&HookRunner>, as_json: bool) -> Result<()> {
    let hooks: Vec<_> = runner.iter().flat_map(|runner| runner.hooks().iter()).collect();
    if as_json {
        let described = hooks.iter().map(|hook| {
            json!({
                "event": hook.event(),
                "matcher": hook.matcher(),
                "command": hook.command(),
                "timeout": hook.timeout().as_secs_f64(),
                "fail_closed": hook.fails_closed(),
                "source": hook.source(),
            })
        });
        output::print(&json_text(&described.collect::<Vec<_>>())?)?;
        return Ok(());
    }
    let lines = hooks.iter().map(|hook| {
        let closed = if hook.fails_closed() { "  fails closed" } else { "" };
        let (matcher, command) = (escaped(&hook.matcher()), escaped(hook.command()));
        format!("{:<18} {matcher:<16} {command}  ({}){closed}", hook.event().as_str(), escaped(hook.source()))
    });
    let lines: Vec<String> = lines.collect();
    output::print(&if lines.is_empty() { "there are no hooks here".to_owned() } else { lines.join("\n") })?;
    Ok(())
}

async fn test(runner: Option<&HookRunner>, event: &str, input: &str, as_json: bool) -> Result<Exit> {
    let Some(event) = HookEvent::from_name(event) else {
        let names: Vec<&str> = HookEvent::ALL.into_iter().map(HookEvent::as_str).collect();
        bail!(WrongUsage::new(format!("there is no event `{event}`; the events are {}", names.join(", "))));
    };
    let text = match input.strip_prefix('@') {
        Some(file) => {
            fs::read_to_string(file).map_err(|error| WrongUsage::new(format!("`{file}` cannot be read: {error}")))?
        }
        None => input.to_owned(),
    };
    let fields: Value = serde_json::from_str(without_mark(&text))
        .map_err(|error| WrongUsage::new(format!("the input is not valid JSON: {error}")))?;
    if !fields.is_object() {
        bail!(WrongUsage::new("the input is not a JSON object"));
    }
    let runs = match runner {
        Some(runner) => runner.run(event, fields, tokio_util::sync::CancellationToken::new()).await,
        None => Vec::new(),
    };
    let broken = runs.iter().any(|run| run.answer.is_err());
    if as_json {
        let described = runs.iter().map(|run| {
            json!({"command": run.command, "source": run.source, "answer": run.answer.as_ref().ok().map(describe_answer), "error": run.answer.as_ref().err()})
        });
        output::print(&json_text(&described.collect::<Vec<_>>())?)?;
    } else if runs.is_empty() {
        output::print(&format!("no {event} hook matches this input"))?;
    } else {
        output::print(&runs.iter().map(shown).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(if broken { Exit::Failed } else { Exit::Done })
}

fn shown(run: &HookRun) -> String {
    let said = match &run.answer {
        Ok(answer) => describe_answer(answer).iter().map(|line| format!("\n  {}", escaped(line))).collect(),
        Err(problem) => format!("\n  broken: {}", escaped(problem)),
    };
    format!("{}{said}", escaped(&run.command))
}

/// Describes the effect of an answer, in lines.
fn describe_answer(answer: &HookAnswer) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(answer.stop.iter().map(|why| format!("ends the run: {why}")));
    lines.extend(answer.block.iter().map(|why| format!("blocks: {why}")));
    if let Some((permission, why)) = &answer.permission {
        let what = match permission {
            HookPermission::Allow => "allows the call",
            HookPermission::Ask => "wants a person to be asked",
            HookPermission::Deny => "denies the call",
        };
        lines.push(if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") });
    }
    lines.extend(answer.updated_input.iter().map(|args| format!("changes the arguments: {args}")));
    lines.extend(answer.updated_output.iter().map(|output| format!("changes the result: {output}")));
    lines.extend(answer.context.iter().map(|context| format!("tells the model: {context}")));
    lines.extend(answer.messages.iter().map(|message| format!("tells the person: {message}")));
    if lines.is_empty() {
        lines.push("has nothing to say".to_owned());
    }
    lines
}
