//! A custom backend: files stored wherever you want.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use std::collections::BTreeMap;

use deepagents::DeepAgent;
use deepagents::bytes::Bytes;
use deepagents::core::state::{State, Update};
use deepagents::fs::{Backend, ByteRange, Entry, FileRead, FsError, Listing, Stat, VPath, Version, WriteMode, Written};
use deepagents::models::scripted::{ScriptedModel, Turn};
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::Mutex;

/// Notes in memory, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<BTreeMap<VPath, Bytes>>);

fn find(notes: &BTreeMap<VPath, Bytes>, path: &VPath) -> Result<(Bytes, Stat), FsError> {
    match notes.get(path) {
        Some(bytes) => Ok((bytes.clone(), Stat::file(bytes.len() as u64, Version::from_content(bytes)))),
        None => Ok((Bytes::new(), Stat::implied(path, notes.keys())?)),
    }
}

impl Backend for Notes {
    fn stat<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
        Box::pin(async move { Ok(find(&*self.0.lock().await, path)?.1) })
    }
    fn read<'a>(&'a self, _: &'a State, path: &'a VPath, range: ByteRange) -> BoxFuture<'a, Result<FileRead, FsError>> {
        Box::pin(async move {
            let (bytes, stat) = find(&*self.0.lock().await, path)?;
            FileRead::from_whole(path, &bytes, stat, range)
        })
    }
    fn list<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
        Box::pin(async move {
            let notes = self.0.lock().await;
            Listing::implied(path, notes.iter().map(|(path, bytes)| Entry::file(path.clone(), bytes.len() as u64)))
        })
    }
    fn write<'a>(
        &'a self,
        _: &'a State,
        path: &'a VPath,
        data: Bytes,
        mode: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FsError>> {
        Box::pin(async move {
            let mut notes = self.0.lock().await;
            mode.check_at(path, find(&notes, path).map(|(_, stat)| stat))?;
            let version = Version::from_content(&data);
            notes.insert(path.clone(), data);
            Ok(Written { update: Update::none(), version })
        })
    }
    fn delete<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
        Box::pin(async move {
            if path.is_root() {
                return Err(FsError::Fixed(path.clone()));
            }
            let mut notes = self.0.lock().await;
            find(&notes, path)?;
            notes.retain(|note, _| !note.starts_with(path));
            Ok(Update::none())
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::call("write_file", json!({"file_path": "/plan.md", "content": "1. Look\n2. Leap\n"})),
        Turn::text("Planned."),
        Turn::call("grep", json!({"pattern": "Leap", "output_mode": "content"})),
        Turn::call("read_file", json!({"file_path": "/plan.md"})),
        Turn::text("Leapt."),
    ]);
    let agent = DeepAgent::builder().model(model).backend(Notes::default()).build()?;
    agent.invoke("Plan.").await?;
    let outcome = agent.invoke("Go on.").await?;
    for result in outcome.messages().iter().filter(|m| m.as_tool().is_some()) {
        println!("{}", result.text());
    }
    Ok(())
}
// ANCHOR_END: example
