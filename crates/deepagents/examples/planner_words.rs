//! A planner that knows the words of its users: which lists are about what to do, and which sentences are steps.
//!
//! Words belong to an application rather than to the library: they are of its users' languages. Here they are English and
//! Chinese.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::channels::Todos;
use deepagents::middleware::todo::{ListPlanner, Planner, TodoPolicy};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{BoxError, Context, DeepAgent};

/// Words that make a list one of things to know, unless one of the others stands there too.
const FACTS: [&str; 10] =
    ["background", "constraints", "notes", "requirements", "rules", "are", "背景", "注意", "要求", "规则"];
const TASKS: [&str; 6] = ["do", "please", "steps", "tasks", "请", "任务"];

/// Lists that are about what to do, and sentences that begin with first, then, finally.
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

/// What the first sentence begins with, one of these between bars.
const FIRST: &str = "first of all|firstly|first|to begin with|首先|第一步";
/// What a later one begins with; longer ones before those that they begin with.
const LATER: &str = "secondly|second|thirdly|third|fourth|fifth|then|next|after that|afterwards|finally|lastly|其次|然后|接着\
                     |接下来|之后|随后|最后|第二步|第三步|第四步|第五步|第六步|第七步|第八步";
/// After these words, "next" tells a time.
const TIMES: [&str; 5] = ["day", "week", "month", "year", "time"];
/// Characters that are looked at to tell what a sentence begins with.
const AHEAD: usize = 24;

/// The sentences, without the words they begin with; none unless one begins and others follow.
fn sequence(task: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for text in task.lines() {
        for sentence in sentences(text) {
            if let Some(rest) = after(&sentence, FIRST) {
                // Two beginnings are not one sequence.
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

/// What follows one of the words at the beginning of a sentence.
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

/// Cuts a line after full stops and the like. A stop that another word follows, as in `a.txt` or "e.g. this", is none;
/// a comma is one in Chinese where the next words go on with the sequence.
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
