//! A long run of the program.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use tokio::process::Command;

use super::Answering;
use super::answers::Wire;
use crate::bars::Bars;
use crate::{Bench, timed, usage};

/// The file that is read repeatedly.
pub(super) const FILE: &str = "/lines.txt";

/// Maximum CPU time per turn in milliseconds, in a run of 200 turns and in one of 800.
const MAX_TURN_MILLIS: [(u64, f64); 2] = [(200, 1.5), (800, 2.0)];

impl Bench {
    /// `program PROGRAM TURNS CALLS`: `run` with the given number of `read_file` calls per turn, a thread in SQLite,
    /// and a Chat Completions model.
    pub(crate) async fn program(&self) -> Result<Map<String, Value>> {
        let (program, turns, calls): (String, u64, u64) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        ensure!(calls > 1, "a turn of one call has no file to read; make it two or more");
        let answering = Answering::start(Wire::Chat.name(), turns, calls).await?;
        let folder = tempfile::tempdir()?;
        let root = folder.path().join("root");
        std::fs::create_dir(&root)?;
        std::fs::write(root.join(FILE.trim_start_matches('/')), "One line.\nAnother line.\n")?;
        // The shell reports the CPU time of the program.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "\"$@\" >/dev/null 2>\"$HOME/log\" && times || { cat \"$HOME/log\" >&2; exit 1; }",
            "sh",
            &program,
        ]);
        command.args(["run", "--model", "m", "--context-window", "100000000", "--max-turns", "100000", "--base-url"]);
        command.arg(format!("{}/v1", answering.url)).arg("--root").arg(&root).arg("go");
        let started = Instant::now();
        let done = command.env("HOME", folder.path()).output().await?;
        let took = started.elapsed();
        ensure!(done.status.success(), "the program failed: {}", String::from_utf8_lossy(&done.stderr));
        let told = String::from_utf8_lossy(&done.stdout);
        let children = told.lines().nth(1).context("the times of a shell")?;
        let cpu: Duration = children.split_whitespace().filter_map(seconds).sum();
        let a_turn = cpu.as_secs_f64() * 1e3 / turns as f64;
        let mut out = timed(took, usage::cpu());
        out.insert("cpu".to_owned(), json!(cpu.as_secs_f64()));
        out.insert("ms_a_turn".to_owned(), json!(a_turn));
        let mut bars = Bars::default();
        for (_, limit) in MAX_TURN_MILLIS.iter().filter(|(of, _)| *of == turns) {
            bars.takes_at_most("ms of CPU a turn", Some(a_turn), *limit);
        }
        out.insert("bars".to_owned(), bars.into_value());
        Ok(out)
    }
}

/// Parses a time such as `1m2.5s`.
fn seconds(text: &str) -> Option<Duration> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    let seconds = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    Some(seconds + Duration::from_secs(60) * minutes.parse().ok()?)
}
