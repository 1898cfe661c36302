//! `deepagents doctor`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use deepagents::fs::sandbox::{Sandbox, SandboxReport};
use serde_json::{Value, json};

use crate::args::{AgentArgs, DoctorArgs};
use crate::exit::Exit;
use crate::model_choice::{self, Choice, env, key_variable, ordered_providers};
use crate::render::json_text;
use crate::threads::database;
use crate::{auth, config, hooks, mcp, output, permissions, runtime};

/// Reports what this machine has, without changing anything. Ends with an error code if something would keep runs from
/// starting or from storing their threads.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Exit> {
    let report = Report::make(args)?;
    output::print(&if args.json { json_text(&report.json())? } else { report.text() })?;
    Ok(if report.has_faults() { Exit::Failed } else { Exit::Done })
}

/// What was found.
struct Report {
    sandbox: SandboxReport,
    model: Option<String>,
    address: Option<String>,
    /// What runs read from files, with problems that they only report, or the fault that ends them.
    parts: [(&'static str, Result<Vec<String>>); 4],
    threads: Result<Threads>,
}

/// The database, and the number of threads in it if it exists.
struct Threads {
    database: PathBuf,
    count: Option<Result<usize>>,
}

impl Report {
    fn make(args: &DoctorArgs) -> Result<Self> {
        let (model, address, settings) = match config::for_agent(&AgentArgs::default()) {
            Ok((options, problems)) => (options.model, options.base_url, Ok(problems)),
            Err(error) => (None, None, Err(error)),
        };
        let here = Path::new(".");
        let parts = [
            ("settings", settings),
            ("hooks", hooks::problems(here)),
            ("mcp", mcp::problems(here)),
            ("permissions", permissions::check().map(|()| Vec::new())),
        ];
        let place = database::place(&args.database).and_then(|path| {
            let is_there = database::is_there(&path)?;
            // If there is no database, check that one can be created.
            if !is_there {
                database::check_new(&args.database)?;
            }
            Ok((is_there, path))
        });
        let threads = match place {
            Ok((true, database)) => {
                let count = runtime::start()?.block_on(database::count(&database));
                Ok(Threads { database, count: Some(count) })
            }
            Ok((false, database)) => Ok(Threads { database, count: None }),
            Err(error) => Err(error),
        };
        Ok(Self { sandbox: Sandbox::new().probe(), model, address, parts, threads })
    }

    fn has_faults(&self) -> bool {
        let stored = matches!(&self.threads, Ok(Threads { count: None | Some(Ok(_)), .. }));
        !stored
            || self.model_problem().is_some()
            || auth::problem().is_some()
            || self.parts.iter().any(|(_, found)| found.is_err())
    }

    /// Returns why the chosen model cannot be used. Without a key there is none yet, which is no fault.
    fn model_problem(&self) -> Option<String> {
        let (model, address) = (self.model.as_deref(), self.address.as_deref());
        match model_choice::choose(model, address, &env) {
            Ok(choice) => usable(&choice, model, address).err().map(|error| format!("{error:#}")),
            Err(error) => {
                let is_chosen = model.is_some() || address.is_some() || env(model_choice::MODEL_VARIABLE).is_some();
                is_chosen.then(|| error.to_string())
            }
        }
    }

    fn json(&self) -> Value {
        let model = model_choice::choose(self.model.as_deref(), self.address.as_deref(), &env);
        let threads = match &self.threads {
            Ok(Threads { database, count }) => json!({
                "database": database,
                "count": count.as_ref().and_then(|count| count.as_ref().ok()),
                "error": count.as_ref().and_then(|count| Some(count.as_ref().err()?.to_string())),
            }),
            Err(error) => json!({"database": null, "count": null, "error": error.to_string()}),
        };
        let mut report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "system": std::env::consts::OS,
            "architecture": std::env::consts::ARCH,
            "kernel": kernel(),
            "sandbox": self.sandbox,
            "keys": keys(),
            "model": model.as_ref().ok().map(|choice| &choice.name),
            "model_error": self.model_problem(),
            "keys_error": auth::problem(),
            "threads": threads,
        });
        let parts = self.parts.iter().map(|(part, problems)| {
            let problems = match problems {
                Ok(problems) => json!({"problems": problems}),
                Err(error) => json!({"error": error.to_string()}),
            };
            ((*part).to_owned(), problems)
        });
        if let Value::Object(report) = &mut report {
            report.extend(parts);
        }
        report
    }

    fn text(&self) -> String {
        let threads = match &self.threads {
            Err(error) => format!("none: {error}"),
            Ok(Threads { database, count: None }) => format!("{}, not there yet", database.display()),
            Ok(Threads { database, count: Some(Ok(count)) }) => format!("{}, {count} stored", database.display()),
            Ok(Threads { count: Some(Err(error)), .. }) => format!("unusable: {error}"),
        };
        let parts = self.parts.iter().map(|(part, problems)| match problems {
            Ok(problems) => problems.iter().map(|problem| format!("{part}: {problem}\n")).collect(),
            Err(error) => format!("{part}: runs cannot start with them: {error}\n"),
        });
        let machine = machine(self.model.as_deref(), self.address.as_deref());
        format!("{machine}\n{}threads: {threads}\n{}", parts.collect::<String>(), self.sandbox)
    }
}

/// Describes the program, the system, the keys and the model, one per line.
pub(crate) fn machine(model: Option<&str>, base_url: Option<&str>) -> String {
    let chosen = model_choice::choose(model, base_url, &env);
    let keys = keys();
    let mut keys = if keys.is_empty() { "none are set".to_owned() } else { keys.join(", ") };
    keys.extend(auth::problem().map(|problem| format!("; stored keys: {problem}")));
    let chosen = match chosen {
        Ok(choice) => match usable(&choice, model, base_url) {
            Ok(()) => choice.to_string(),
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

/// Returns an error if the chosen model cannot be used.
fn usable(choice: &Choice, model: Option<&str>, base_url: Option<&str>) -> Result<()> {
    let args =
        AgentArgs { model: model.map(str::to_owned), base_url: base_url.map(str::to_owned), ..AgentArgs::default() };
    model_choice::make(choice, &args).map(drop)
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
