//! `deepagents doctor`.

use std::path::Path;

use anyhow::Result;
use deepagents::fs::sandbox::Sandbox;
use serde_json::{Value, json};

use crate::args::{AgentArgs, DoctorArgs};
use crate::exit::{self, Exit};
use crate::model_choice::{self, env, key_variable, ordered_providers};
use crate::render::json_text;
use crate::threads::database;
use crate::{auth, config, hooks, mcp, runtime};

/// Reports what this machine has, without changing anything.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Exit> {
    let sandbox = Sandbox::new().probe();
    let keys = keys();
    let (named, address, settings) = match config::for_agent(&AgentArgs::default()) {
        Ok((options, problems)) => (options.model, options.base_url, Ok(problems)),
        Err(error) => (None, None, Err(error)),
    };
    let (named, address) = (named.as_deref(), address.as_deref());
    let model = model_choice::choose(named, address, &env);
    let here = Path::new(".");
    let parts = [("settings", settings), ("hooks", hooks::problems(here)), ("mcp", mcp::problems(here))];
    let place = database::place(&args.database).and_then(|path| {
        let is_there = database::is_there(&path)?;
        // If there is no database, check that one can be created.
        if !is_there {
            database::check_new(&args.database)?;
        }
        Ok((is_there, path))
    });
    let threads = match &place {
        Ok((true, path)) => Some(runtime::start()?.block_on(database::count(path))),
        _ => None,
    };
    if args.json {
        let threads = json!({
            "database": place.as_ref().ok().map(|(_, path)| path),
            "count": threads.as_ref().and_then(|threads| threads.as_ref().ok()),
            "error": match (&place, &threads) {
                (Err(error), _) | (_, Some(Err(error))) => Some(error.to_string()),
                _ => None,
            },
        });
        let mut report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "system": std::env::consts::OS,
            "architecture": std::env::consts::ARCH,
            "kernel": kernel(),
            "sandbox": sandbox,
            "keys": keys,
            "model": model.as_ref().ok().map(|choice| &choice.name),
            "threads": threads,
        });
        let parts = parts.into_iter().map(|(part, problems)| {
            let problems = match problems {
                Ok(problems) => json!({"problems": problems}),
                Err(error) => json!({"error": error.to_string()}),
            };
            (part.to_owned(), problems)
        });
        if let Value::Object(report) = &mut report {
            report.extend(parts);
        }
        return exit::shown(&json_text(&report)?);
    }
    let threads = match (place, threads) {
        (Err(error), _) => format!("none: {error}"),
        (Ok((_, path)), None) => format!("{}, not there yet", path.display()),
        (Ok((_, path)), Some(Ok(count))) => format!("{}, {count} stored", path.display()),
        (Ok(_), Some(Err(error))) => format!("unusable: {error}"),
    };
    let parts = parts.map(|(part, problems)| match problems {
        Ok(problems) => problems.iter().map(|problem| format!("{part}: {problem}\n")).collect(),
        Err(error) => format!("{part}: runs cannot start with them: {error}\n"),
    });
    exit::shown(&format!("{}\n{}threads: {threads}\n{sandbox}", machine(named, address), parts.concat()))
}

/// Describes the program, the system, the keys and the model, one per line.
pub(crate) fn machine(model: Option<&str>, base_url: Option<&str>) -> String {
    let chosen = model_choice::choose(model, base_url, &env);
    let keys = keys();
    let mut keys = if keys.is_empty() { "none are set".to_owned() } else { keys.join(", ") };
    keys.extend(auth::problem().map(|problem| format!("; stored keys: {problem}")));
    let args =
        AgentArgs { model: model.map(str::to_owned), base_url: base_url.map(str::to_owned), ..AgentArgs::default() };
    let chosen = match chosen {
        Ok(choice) => match model_choice::make(&choice, &args) {
            Ok(_) => choice.to_string(),
            Err(error) => format!("{choice}; runs cannot start with it: {error}"),
        },
        Err(error) => format!("none: {error}"),
    };
    format!(
        "deepagents {} on {} {}, kernel {}\nkeys: {keys}\nmodel: {chosen}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        kernel(),
    )
}

/// Returns the providers' key variables that are set.
fn keys() -> Vec<&'static str> {
    let variables = ordered_providers();
    let variables = variables.iter().filter_map(|provider| key_variable(provider.name));
    // Several providers may share one.
    variables.filter(|variable| env(variable).is_some()).fold(Vec::new(), |mut set, variable| {
        if !set.contains(&variable) {
            set.push(variable);
        }
        set
    })
}

fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}
