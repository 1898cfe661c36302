//! The demo in a browser: the same story with the web page, an approval and a sub-agent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use deepagents::core::journal::Journal;
use deepagents::core::message::Author;
use deepagents::core::state::Update;
use deepagents::core::store::MemoryStore;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, InterruptPolicy, MemoryJournal, ModelRequest};
use deepagents_server::Server;
use serde_json::json;
use tokio::net::TcpListener;

use super::files::{EXPENSES, NOTES, RECEIPT};
use super::{pace, script};
use crate::exit::{Exit, WrongUsage};
use crate::{browser, output, runtime};

const THREAD: &str = "00000000-0000-7000-8000-000000000001";
const AGENT: &str = "demo";
/// The task of the sub-agent.
const CHECK: &str = "Check that the balances in the report add up to zero.";

const GUIDE: &str = "\
This is a **demo without a key**: the answers are a fixed script, everything else is real.

In the thread *March expenses* there are files. Say there

> Settle our expenses for March.

and the agent makes a todo list, reads, writes a report, asks before it changes `/notes.md`, and has a sub-agent check its
sums. Then look at the files and what changed in them, the timeline, and what it took.
";

/// Serves the demo until a signal ends it.
pub(super) fn serve(listen: SocketAddr, thinking: Duration, typing: Duration) -> Result<Exit> {
    if !listen.ip().is_loopback() {
        let words = format!("the demo only listens on local addresses, such as 127.0.0.1:{}", listen.port());
        bail!(WrongUsage::new(words));
    }
    runtime::start()?.block_on(async {
        let running = server(thinking, typing).await?.start().await?;
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}; --listen chooses another address"))?;
        let address = format!("http://{}/?thread={THREAD}", listener.local_addr()?);
        output::print(&format!(
            "A demo without a key: the model's answers are a fixed script, kept in memory.\n\n{address}\n\nSay: {}\nCtrl-C ends it.",
            script::TASK
        ))?;
        browser::open(&address);
        // If the signal handler cannot be installed, this ends the server at once: nothing else could.
        let end = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
        running.serve(listener, end).await?;
        Ok(Exit::Done)
    })
}

/// Returns a server with the agent, and a thread that contains the files.
async fn server(thinking: Duration, typing: Duration) -> Result<Server> {
    let model = ScriptedModel::rules().always(Turn::with(move |request| answer(request, thinking))).build();
    let model = pace::Paced { model: model.with_name("scripted:demo"), pause: typing };
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let asks: InterruptPolicy = serde_json::from_value(json!({"edit_file": true}))?;
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).interrupt_on(asks).build()?;
    let threads = agent.threads()?;
    let mut files = Update::none();
    files.push_json(
        threads.schema(),
        "files",
        json!({
            "/expenses.csv": {"content": EXPENSES, "encoding": "utf-8"},
            "/notes.md": {"content": NOTES, "encoding": "utf-8"},
            "/receipts/electricity.txt": {"content": RECEIPT, "encoding": "utf-8"},
        }),
    )?;
    threads.update_state(THREAD, files).await?;
    let metadata = json!({"title": "March expenses", "graph_id": AGENT});
    journal.threads().set_metadata(THREAD, metadata.as_object().cloned().unwrap_or_default()).await?;
    Ok(Server::new(journal, Arc::new(MemoryStore::default()))
        .agent(AGENT, agent)?
        .description("Settles the expenses of a flat, without a key."))
}

/// Returns the next answer of the story, derived from the conversation alone, so that it starts anew in every thread.
fn answer(request: &ModelRequest, pause: Duration) -> Turn {
    let (mut said, mut answers) = (String::new(), 0);
    for message in request.messages.iter() {
        if message.as_user().is_some_and(|user| user.author != Author::Harness) {
            (said, answers) = (message.text(), 0);
        } else if message.as_assistant().is_some() {
            answers += 1;
        }
    }
    let turn = if said.contains(CHECK) {
        Turn::text("The balances are +4.95, +57.46 and -62.41: they add up to zero.")
    } else if said.to_lowercase().contains("expenses") {
        let mut story = script::turns(Duration::ZERO);
        let end = story.len().saturating_sub(1);
        let task = json!({"description": CHECK, "subagent_type": "general-purpose"});
        story.insert(end, Turn::calls([("task", task)]).and_text("A second pair of eyes for the sums."));
        story.into_iter().nth(answers).unwrap_or_else(|| Turn::text(GUIDE))
    } else {
        Turn::text(GUIDE)
    };
    turn.delay(pause)
}
