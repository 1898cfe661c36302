//! A planner that knows its users' words: which lists contain actions, and which sentences are steps.
//!
//! Words depend on the users' language, so they belong in the application rather than the library. Here they are
//! English and Chinese.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::channels::Todos;
use deepagents::middleware::todo::{ListPlanner, Planner, TodoPolicy};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{BoxError, Context, DeepAgent};

/// Words that mark a list of facts, unless one of `TASKS` occurs too.
const FACTS: [&str; 10] =
    ["background", "constraints", "notes", "requirements", "rules", "are", "背景", "注意", "要求", "规则"];
const TASKS: [&str; 6] = ["do", "please", "steps", "tasks", "请", "任务"];

/// Plans from lists of actions, and from sentences that begin with first, then, finally.
struct WordPlanner;

impl Planner for WordPlanner {
    async fn plan(&self, task: &str, _cx: &Context) -> Result<Vec<String>, BoxError> {
        let steps = sequence(task);
        if steps.len() > 1 {
            return Ok(steps);
        }
        Ok(if is_about_facts(task) { Vec::new() } else { ListPlanner::items(task) })
    }
}

fn is_about_facts(task: &str) -> bool {
    let introduction = task.lines().find(|line| line.ends_with([':', '：'])).unwrap_or_default().to_lowercase();
    let says = |words: &[&str]| {
        words.iter().any(|word| match word.is_ascii() {
            true => introduction.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == *word),
            false => introduction.contains(word),
        })
    };
    says(&FACTS) && !says(&TASKS)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for task in [
        "First read the log. Then find the error. Finally mend it.",
        "首先读取文件，然后写一份总结，最后提交。",
        "Please do this:\n- Read the log\n- Mend the error",
        "The services are:\n- api\n- web",
    ] {
        let model = ScriptedModel::new([Turn::text("I will.")]);
        let builder = DeepAgent::builder().model(model).todos(TodoPolicy::off());
        let outcome = builder.planner(WordPlanner).build()?.invoke(task).await?;
        let steps = outcome.state.get::<Todos>().into_iter().flatten().map(|todo| todo.content.as_str());
        println!("{task}\n  {:?}", steps.collect::<Vec<_>>());
    }
    Ok(())
}
// ANCHOR_END: example

/// Words that begin the first sentence, separated by bars.
const FIRST: &str = "first of all|firstly|first|to begin with|首先|第一步";
/// Words that begin a later sentence; longer ones come before their prefixes.
const LATER: &str = "secondly|second|thirdly|third|fourth|fifth|then|next|after that|afterwards|finally|lastly|其次|然后|接着\
                     |接下来|之后|随后|最后|第二步|第三步|第四步|第五步|第六步|第七步|第八步";
/// After "next", these words make it a time.
const TIMES: [&str; 5] = ["day", "week", "month", "year", "time"];
/// Number of characters to examine at the start of a sentence.
const AHEAD: usize = 24;

/// Returns the sentences without the words that begin them; none unless one begins the sequence and others follow.
fn sequence(task: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for text in task.lines() {
        for sentence in sentences(text) {
            if let Some(rest) = after(&sentence, FIRST) {
                // Two beginnings do not form one sequence.
                if !items.is_empty() {
                    return Vec::new();
                }
                items.push(capital(rest));
            } else if let (false, Some(rest)) = (items.is_empty(), after(&sentence, LATER)) {
                items.push(capital(rest));
            }
        }
    }
    items
}

/// Returns the text after one of the words at the beginning of a sentence.
fn after<'a>(sentence: &'a str, words: &str) -> Option<&'a str> {
    let sentence = sentence.trim_start();
    words.split('|').find_map(|word| {
        let rest = match word.is_ascii() {
            true => {
                let (head, rest) = sentence.split_at_checked(word.len())?;
                let whole = rest.starts_with([',', ':']) || rest.starts_with(char::is_whitespace);
                let next = rest.split_whitespace().next().unwrap_or_default();
                (head.eq_ignore_ascii_case(word) && whole && !TIMES.contains(&next)).then_some(rest)?
            }
            false => sentence.strip_prefix(word)?,
        };
        Some(rest.trim_start_matches([',', ':', '，', '：', '、', ' ', '\t']))
    })
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Splits a line after full stops and the like. A full stop directly followed by a word, as in `a.txt` or "e.g. this",
/// does not end a sentence. A Chinese comma does if the next words continue the sequence.
fn sentences(line: &str) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    let mut out = vec![String::new()];
    for (at, c) in chars.iter().enumerate() {
        let ahead: String = chars.iter().skip(at + 1).take(AHEAD).collect();
        let next = ahead.trim_start();
        let goes_on = || after(next, FIRST).is_some() || after(next, LATER).is_some();
        let ends = match c {
            '。' | '！' | '？' | '；' => true,
            '.' | '!' | '?' | ';' => {
                let apart = next.is_empty() || ahead.starts_with(char::is_whitespace);
                apart && (!next.starts_with(char::is_lowercase) || goes_on())
            }
            '，' => goes_on(),
            _ => false,
        };
        match (ends, out.last_mut()) {
            (true, _) => out.push(String::new()),
            (false, Some(sentence)) => sentence.push(*c),
            (false, None) => {}
        }
    }
    out
}
