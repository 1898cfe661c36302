//! Runs hooks: the input goes to stdin and the answer comes from stdout, or for services in the request and response
//! bodies.

use deepagents_fs::shell::{Command, CommandOutput, Exit, Shell, ShellError};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::hook::Action;
use super::http::{self, HookRequest};
use super::{Hook, HookAnswer, HookEvent, HookPermission};

/// Runs the hook with its input on stdin. A shell merges both output streams, so stderr is held back and printed after
/// a mark, followed by another mark and the exit code of the hook. Processes that the hook leaves running may keep
/// stderr open, so stderr is read up to a mark rather than to its end, and no further than the output limit.
const WRAPPER: &str = r#"exec 3>&1
errors=$({
    printf %s "$HOOK_INPUT_0$HOOK_INPUT_1$HOOK_INPUT_2$HOOK_INPUT_3$HOOK_INPUT_4$HOOK_INPUT_5$HOOK_INPUT_6$HOOK_INPUT_7" |
    { command=$HOOK_COMMAND
      unset HOOK_COMMAND HOOK_MARK HOOK_INPUT_0 HOOK_INPUT_1 HOOK_INPUT_2 HOOK_INPUT_3 HOOK_INPUT_4 HOOK_INPUT_5 HOOK_INPUT_6 HOOK_INPUT_7
      exec sh -c "$command"; } 2>&1 1>&3 3>&-
    printf '\n%s%s\n' "$HOOK_MARK" $?; } | LC_ALL=C sed "/^$HOOK_MARK/q" 3>&- | head -c 1048577 3>&-)
exec 3>&-
printf '%s%s' "$HOOK_MARK" "$errors""#;

/// Number of variables that hold the input, because the system limits the length of each.
const INPUT_PARTS: usize = 8;
/// Maximum number of bytes per variable.
const MAX_PART_BYTES: usize = 100 << 10;
/// Maximum number of bytes of the input. Each part may lack the bytes of a character that would not fit.
const MAX_INPUT_BYTES: usize = INPUT_PARTS * (MAX_PART_BYTES - 4);
/// Maximum number of bytes that a hook may print.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Capacity of the channel for output that is yet to be counted.
const CHANNEL_CAPACITY: usize = 64;
/// Maximum number of bytes of a string in the input of a hook that decides nothing; longer ones are truncated.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// The outcome of a hook.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HookRun {
    /// The command.
    pub command: String,
    /// The file that it is from.
    pub source: String,
    /// Its answer, or what is wrong with it.
    pub answer: Result<HookAnswer, String>,
}

impl HookRun {
    /// The outcome of a hook that could not be run.
    pub(super) fn broken(hook: &Hook, problem: String) -> Self {
        Self { command: hook.command().to_owned(), source: hook.source.to_string(), answer: Err(problem) }
    }
}

/// Runs a hook to completion. An error of the hook blocks whatever it could have blocked, if its file says so.
pub(super) async fn run(hook: &Hook, input: &Value, mark: &str, cancel: CancellationToken) -> HookRun {
    let mut answer = answer(hook, input, mark, cancel).await;
    if let Ok(answer) = &mut answer {
        answer.permission.take_if(|(permission, _)| hook.only_restricts && *permission == HookPermission::Allow);
    }
    HookRun { command: hook.command().to_owned(), source: hook.source.to_string(), answer }
}

async fn answer(hook: &Hook, input: &Value, mark: &str, cancel: CancellationToken) -> Result<HookAnswer, String> {
    let (text, shell) = match &hook.action {
        Action::Command(text, shell) => (text, shell),
        Action::Http { url, headers, secret_env, sender } => {
            let (url, headers, secret_env) = (url.clone(), headers.clone(), secret_env.clone());
            let request = HookRequest { url, headers, secret_env, body: text_for(hook.event, input)? };
            return http::ask(hook, request, &***sender, cancel).await;
        }
    };
    let mut command = Command::new(WRAPPER).timeout(hook.timeout).env("HOOK_COMMAND", text).env("HOOK_MARK", mark);
    for (at, part) in parts(&text_for(hook.event, input)?).into_iter().enumerate() {
        command = command.env(format!("HOOK_INPUT_{at}"), part);
    }
    let done = bounded(&***shell, command, &cancel).await.map_err(|error| error.to_string())?;
    let Some(done) = done.filter(|done| !done.truncated()) else {
        return Err("it printed more than a hook is allowed to".to_owned());
    };
    let exit = match done.exit {
        Exit::Code(code) => code,
        exit => return Err(format!("it was ended: {exit}")),
    };
    let (stdout, rest) = done.output.split_once(mark).unwrap_or((&done.output, ""));
    match rest.rsplit_once(mark).and_then(|(stderr, code)| Some((stderr, code.trim().parse().ok()?))) {
        Some((stderr, code)) => HookAnswer::read(hook, code, stdout, stderr),
        None => Err(format!("it could not be run; the shell ended with exit code {exit}")),
    }
}

/// Runs a command to completion, or until it exceeds the output limit: otherwise it would print until its time is up.
async fn bounded(
    shell: &dyn Shell,
    command: Command,
    cancel: &CancellationToken,
) -> Result<Option<CommandOutput>, ShellError> {
    let (to, mut pieces) = mpsc::channel::<String>(CHANNEL_CAPACITY);
    let too_much = async {
        let mut printed = 0usize;
        while let Some(piece) = pieces.recv().await {
            printed = printed.saturating_add(piece.len());
            if printed > MAX_OUTPUT_BYTES {
                return;
            }
        }
        // The command has ended: let `done` complete.
        std::future::pending().await
    };
    let stop = cancel.child_token();
    let mut done = shell.run(command, stop.clone(), Some(to));
    tokio::select! {
        biased;
        done = &mut done => return done.map(Some),
        () = too_much => stop.cancel(),
    }
    // Also stops everything that it has started.
    done.await.map(|_| None)
}

/// Returns the input as JSON. Long strings are truncated, but not for a hook that decides whether something may happen:
/// what it does not see could be what it is there to stop.
fn text_for(event: HookEvent, input: &Value) -> Result<String, String> {
    let text = if event.decides() { input.to_string() } else { shortened(input.clone()) };
    if text.len() <= MAX_INPUT_BYTES {
        return Ok(text);
    }
    Err(format!("its input has {} bytes; hooks take {MAX_INPUT_BYTES} at most", text.len()))
}

/// Splits a text of at most [`MAX_INPUT_BYTES`] into parts.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new(); INPUT_PARTS];
    let mut rest = text;
    for part in &mut parts {
        let at = rest.floor_char_boundary(MAX_PART_BYTES);
        let (head, tail) = rest.split_at(at);
        part.push_str(head);
        rest = tail;
    }
    parts
}

/// Truncates long strings, further if that is not enough.
fn shortened(mut input: Value) -> String {
    shorten(&mut input, MAX_TEXT_BYTES);
    let text = input.to_string();
    if text.len() <= MAX_INPUT_BYTES {
        return text;
    }
    shorten(&mut input, MAX_TEXT_BYTES / 16);
    input.to_string()
}

fn shorten(value: &mut Value, most: usize) {
    match value {
        Value::String(text) if text.len() > most => {
            text.truncate(text.floor_char_boundary(most));
            text.push_str("… [cut off]");
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, most)),
        Value::Object(fields) => fields.values_mut().for_each(|field| shorten(field, most)),
        _ => {}
    }
}
