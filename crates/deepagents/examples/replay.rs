//! A conversation with a model, recorded once and replayed without it.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use std::sync::Arc;

use deepagents::DeepAgent;
use deepagents::models::recording::{RecordingModel, ReplayModel};
use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("greeting.jsonl");
    // Stands for a real model, such as one from a `Registry`.
    let real = Arc::new(ScriptedModel::new([
        Turn::call("write_file", json!({"file_path": "/hello.txt", "content": "Hello\n"})),
        Turn::text("Written."),
    ]));

    let recording = RecordingModel::create(real, &path).await?;
    DeepAgent::builder().model(recording).build()?.invoke("Write a greeting.").await?;

    let replay = ReplayModel::open(&path).await?;
    let outcome = DeepAgent::builder().model(replay.clone()).build()?.invoke("Write a greeting.").await?;
    println!("{} ({} exchanges left)", outcome.text(), replay.remaining());

    let replay = ReplayModel::open(&path).await?;
    match DeepAgent::builder().model(replay).build()?.invoke("Write a farewell.").await {
        Ok(_) => println!("It should not have known."),
        Err(failed) => println!("Another task: {}", failed.error),
    }
    Ok(())
}
// ANCHOR_END: example
