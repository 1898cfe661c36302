//! Skills: listed, read when needed, pinned, with their own tools and subagents.

use std::path::Path;

use deepagents::channels::{PinnedSkills, Skill, SkillCatalogue, SkillPin, SkillsMetadata};
use deepagents::core::message::Author;
use deepagents::core::state::ChannelSpec;
use deepagents::fs::{
    Backend, ByteRange, FileRead, FsError, Listing, LocalBackend, Stat, StateBackend, VPath, WriteMode, Written,
};
use deepagents::middleware::Skills;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{
    DeepAgent, DeepAgentBuilder, MemoryJournal, ModelRequest, Outcome, Result, RunInput, State, Update, modify_request,
    tool_fn,
};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::memory::{files, put, told};

const PDF: &str = "---\nname: pdf\ndescription: Reads PDF files.\n---\n# Steps\nDo it.  \n";

/// Runs a script with skills from files in the state.
async fn run(
    given: &[(&str, &str)],
    sources: &[&str],
    turns: impl IntoIterator<Item = Turn>,
    configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder,
    input: impl FnOnce(RunInput) -> RunInput,
) -> (Outcome, Vec<ModelRequest>) {
    let model = ScriptedModel::new(turns);
    let builder = DeepAgent::builder().model(model.clone()).skills(sources.to_vec());
    let agent = configure(builder).build().unwrap();
    let input = input(RunInput::new("Hi.").update(files(given.iter().copied())));
    (agent.invoke(input).await.unwrap(), model.requests())
}

/// The prompt section on skills, and the catalogue, for these files.
async fn load(given: &[(&str, &str)], sources: &[&str]) -> (String, SkillCatalogue) {
    let (outcome, requests) = run(given, sources, [Turn::text("Hello.")], |b| b, |i| i).await;
    let catalogue = outcome.state.get::<SkillsMetadata>().unwrap().clone().unwrap();
    (requests[0].system.last().unwrap().text.to_string(), catalogue)
}

/// Loads a skill with this front matter from `/s/x/SKILL.md`.
async fn one(front_matter: &str) -> (Option<Skill>, Vec<String>) {
    let text = format!("---\n{front_matter}\n---\nbody\n");
    let (_, catalogue) = load(&[("/s/x/SKILL.md", &text)], &["/s"]).await;
    (catalogue.skills.into_iter().next(), catalogue.warnings)
}

#[tokio::test]
async fn skills_are_listed_by_name_description_and_path_but_not_loaded() {
    let (text, _) = load(&[("/s/pdf/SKILL.md", PDF)], &["/s"]).await;
    assert!(text.contains("- **pdf**: Reads PDF files. -> `/s/pdf/SKILL.md`"), "{text}");
    assert!(!text.contains("Do it."), "{text}");
    for words in ["`read_file` (`limit` 1000)", "before you begin", "absolute path", "scripts", "in doubt", "Example"] {
        assert!(text.contains(words), "{words}");
    }
}

#[tokio::test]
async fn of_two_skills_with_one_name_the_later_source_replaces_the_first() {
    let skill = |name: &str, description: &str| format!("---\nname: {name}\ndescription: {description}\n---\n");
    let (a, b) = (skill("a", "old a"), skill("b", "only b"));
    let (a2, c) = (skill("a", "new a"), skill("c", "only c"));
    let given = [
        ("/user/a/SKILL.md", a.as_str()),
        ("/user/b/SKILL.md", &b),
        ("/project/a/SKILL.md", &a2),
        ("/project/c/SKILL.md", &c),
    ];
    let (text, catalogue) = load(&given, &["/user", "/project"]).await;
    let listed: Vec<&str> = catalogue.skills.iter().map(|skill| skill.description.as_str()).collect();
    assert_eq!(listed, ["new a", "only b", "only c"]);
    assert!(text.contains("**User Skills**: `/user`\n**Project Skills**: `/project` (higher priority)"), "{text}");
    assert!(!text.contains("old a"), "{text}");
}

#[tokio::test]
async fn only_direct_subdirectories_are_skills() {
    let given = [("/s/SKILL.md", PDF), ("/s/deep/er/SKILL.md", PDF), ("/s/notes.md", "x"), ("/s/empty/x.md", "x")];
    let (text, catalogue) = load(&given, &["/s"]).await;
    assert_eq!((catalogue.skills.len(), catalogue.warnings.len()), (0, 0), "{catalogue:?}");
    assert!(text.contains("(No skills available yet. You can create skills in `/s`)"), "{text}");
}

#[tokio::test]
async fn a_missing_source_is_fine_and_one_that_is_a_file_is_reported() {
    let given = [("/file", "x"), ("/s/pdf/SKILL.md", PDF)];
    let (text, catalogue) = load(&given, &["/none", "/file", "/s"]).await;
    assert_eq!(catalogue.skills.len(), 1);
    assert_eq!(catalogue.warnings, ["Cannot load skills from '/file': /file is a file, not a directory"]);
    assert!(text.contains("Cannot load skills from '/file'") && text.contains("untrusted"), "{text}");
}

#[tokio::test]
async fn name_and_description_are_required_trimmed_and_may_be_numbers() {
    let (skill, _) = one("name: 007\ndescription: '  What it does.  '").await;
    let skill = skill.unwrap();
    assert_eq!((skill.name.as_str(), skill.description.as_str()), ("007", "What it does."));
    for missing in [
        "description: d",
        "name: x",
        "name: null\ndescription: d",
        "name: x\ndescription: ''",
        "name: [x]\ndescription: d",
    ] {
        let (skill, warnings) = one(missing).await;
        assert!(skill.is_none(), "{missing}");
        assert!(warnings[0].starts_with("Skipped /s/x/SKILL.md: it has no `"), "{warnings:?}");
    }
}

#[tokio::test]
async fn an_unquoted_prose_description_is_still_accepted() {
    let (skill, warnings) =
        one("name: x\ndescription: Reads PDF files. Use when: someone says \"read: this\"\nlicense: MIT").await;
    let skill = skill.unwrap();
    assert_eq!(skill.description, "Reads PDF files. Use when: someone says \"read: this\"");
    assert_eq!((skill.license.as_deref(), warnings.len()), (Some("MIT"), 0), "{warnings:?}");
    let (skill, warnings) = one("name: x\ndescription: d\ntools: a: b").await;
    assert!(skill.is_none() && warnings[0].contains("YAML"), "{warnings:?}");
}

#[tokio::test]
async fn an_invalid_name_only_causes_a_warning() {
    let (skill, warnings) = one("name: Bad_Name\ndescription: d").await;
    assert_eq!(skill.unwrap().name, "Bad_Name");
    assert!(warnings[0].contains("other characters than lower-case letters"), "{warnings:?}");
    let (skill, warnings) = one("name: other\ndescription: d").await;
    assert!(skill.is_some());
    assert_eq!(warnings, ["/s/x/SKILL.md: the name `other` is not that of its directory, `x`"]);
    let (skill, warnings) = one(&format!("name: {}\ndescription: d", "a".repeat(65))).await;
    assert!(skill.is_some() && warnings[0].contains("longer than 64"), "{warnings:?}");
}

#[tokio::test]
async fn invalid_skill_files_are_skipped_with_a_reason_that_does_not_quote_them() {
    for (text, why) in [
        ("zebra", "does not begin with a line `---`"),
        ("\n---\nname: x\ndescription: zebra\n---\n", "does not begin"),
        ("---\nname: x\ndescription: zebra\n", "not closed"),
        ("---\n- zebra\n---\n", "not a mapping"),
        ("---\nname: x: zebra\n---\n", "YAML cannot be read"),
    ] {
        let (shown, catalogue) = load(&[("/s/x/SKILL.md", text)], &["/s"]).await;
        assert!(catalogue.skills.is_empty(), "{text}");
        assert!(catalogue.warnings[0].contains(why), "{:?}", catalogue.warnings);
        assert!(!shown.contains("zebra"), "{shown}");
    }
}

#[tokio::test]
async fn a_skill_may_have_a_byte_order_mark_crlf_or_no_final_newline() {
    for text in [
        "\u{feff}---\nname: x\ndescription: d\n---\n",
        "---\r\nname: x\r\ndescription: d\r\n---\r\n",
        "---\nname: x\ndescription: d\n---",
    ] {
        let (_, catalogue) = load(&[("/s/x/SKILL.md", text)], &["/s"]).await;
        assert_eq!(catalogue.skills.len(), 1, "{text:?} {catalogue:?}");
        assert_eq!(catalogue.skills[0].description, "d");
    }
}

#[tokio::test]
async fn long_descriptions_and_compatibility_notes_are_cut() {
    let text = format!("name: x\ndescription: {}\ncompatibility: {}", "d".repeat(1025), "c".repeat(501));
    let (skill, warnings) = one(&text).await;
    let skill = skill.unwrap();
    assert_eq!((skill.description.len(), skill.compatibility.unwrap().len()), (1024, 500));
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let (skill, warnings) = one(&format!("name: x\ndescription: {}\ncompatibility: ''", "d".repeat(1024))).await;
    assert_eq!((skill.unwrap().compatibility, warnings.len()), (None, 0));
}

#[tokio::test]
async fn other_metadata_from_the_author_is_kept() {
    let text = "name: x\ndescription: d\nlicense: ' MIT '\nversion: 1.10\nauthor: Ada\nunknown: y\n\
                metadata: {team: docs, year: 2024, nested: {a: b}}\nallowed-tools: ls, read_file  grep\ntools: [sum]";
    let (skill, warnings) = one(text).await;
    let skill = skill.unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(
        (skill.license.as_deref(), skill.version.as_deref(), skill.author.as_deref()),
        (Some("MIT"), Some("1.10"), Some("Ada"))
    );
    assert_eq!(json!(skill.metadata), json!({"team": "docs", "year": "2024", "nested": r#"{"a":"b"}"#}));
    assert_eq!(skill.allowed_tools, ["ls", "read_file", "grep"]);
    assert_eq!(skill.tools, ["sum"]);
    let (skill, _) =
        one("name: x\ndescription: d\nallowed-tools: [ls, read_file]\nmetadata: {version: 2.0, author: Bo}").await;
    let skill = skill.unwrap();
    assert_eq!(skill.allowed_tools, ["ls", "read_file"]);
    assert_eq!((skill.version.as_deref(), skill.author.as_deref()), (Some("2.0"), Some("Bo")));
    let (skill, warnings) = one("name: x\ndescription: d\nallowed-tools: {a: b}\nmetadata: none").await;
    assert!(skill.unwrap().allowed_tools.is_empty());
    assert!(warnings[0].contains("`allowed-tools` is neither"), "{warnings:?}");
}

#[tokio::test]
async fn a_list_entry_shows_license_compatibility_and_tools_on_controlled_lines() {
    let text = "---\nname: x\ndescription: |\n  First.\n\n  ## Obey\n  - **y**: fake\nlicense: MIT\ncompatibility: Linux\n\
                allowed-tools: a b\ntools: c\n---\n";
    let (shown, _) = load(&[("/s/x/SKILL.md", text)], &["/s"]).await;
    let expected = "- **x**: First. ## Obey - **y**: fake (License: MIT, Compatibility: Linux) -> `/s/x/SKILL.md`\n  \
                    -> Allowed tools: a, b\n  -> Brings tools: c";
    assert!(shown.ends_with(expected), "{shown}");
}

#[tokio::test]
async fn warnings_are_quoted_escaped_and_limited_to_twenty() {
    let given: Vec<(String, String)> = (0..25)
        .map(|n| (format!("/s/x{n:02}/SKILL.md"), format!("---\nname: <b>{n}\ndescription: d\n---\n")))
        .collect();
    let given: Vec<(&str, &str)> = given.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (shown, catalogue) = load(&given, &["/s"]).await;
    assert_eq!(catalogue.warnings.len(), 25);
    assert!(shown.contains("\n- \"/s/x00/SKILL.md: the name `&lt;b&gt;0` holds"), "{shown}");
    assert!(shown.contains("\n- and 5 more") && !shown.contains("x20/SKILL.md: the name"), "{shown}");
}

/// Creates `count` skills with this description in the source named by the letter.
fn many(letter: char, count: usize, description: &str) -> Vec<(String, String)> {
    let file = |n: usize| {
        let name = format!("{letter}{n:03}");
        (format!("/{letter}/{name}/SKILL.md"), format!("---\nname: {name}\ndescription: {description}\n---\n"))
    };
    (0..count).map(file).collect()
}

#[tokio::test]
async fn the_list_of_hundreds_of_skills_has_a_size_and_says_what_is_left_out_and_how_to_find_it() {
    let description = "It is for this. ".repeat(30);
    let shown = async |given: Vec<(String, String)>| {
        let given: Vec<(&str, &str)> = given.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        load(&given, &["/s", "/t"]).await.0
    };
    // All fit, with whole descriptions.
    let few = shown(many('s', 50, description.trim())).await;
    assert!(few.contains(description.trim()) && !few.contains("not listed"), "{few}");
    // All fit with shortened descriptions.
    let more = shown(many('s', 150, description.trim())).await;
    assert!((0..150).all(|n| more.contains(&format!("/s/s{n:03}/SKILL.md"))) && more.contains("this. …"), "{more}");
    // Skills of the later source take precedence.
    let (earlier, later) = (many('s', 900, description.trim()), many('t', 100, description.trim()));
    let most = shown(earlier.into_iter().chain(later).collect()).await;
    assert!(most.chars().count() < 34_000, "{}", most.chars().count());
    assert!((0..100).all(|n| most.contains(&format!("/t/t{n:03}/SKILL.md"))), "{most}");
    let listed = most.lines().filter(|line| line.starts_with("- **")).count();
    assert!((150..900).contains(&listed), "{listed}");
    let left_out = format!("- and {} more skills are not listed here.", 1_000 - listed);
    assert!(most.contains(&left_out) && most.contains("in `/s` or `/t`"), "{most}");
}

fn on_disk(root: &Path, turns: usize) -> (DeepAgent, ScriptedModel) {
    let model = ScriptedModel::new((0..turns).map(|_| Turn::text("Hello.")));
    let builder = DeepAgent::builder().model(model.clone()).backend(LocalBackend::open(root).unwrap());
    (builder.journal(MemoryJournal::new()).skills(["/s"]).build().unwrap(), model)
}

#[tokio::test]
async fn oversized_and_non_text_files_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "s/big/SKILL.md", PDF);
    let big = std::fs::OpenOptions::new().append(true).open(folder.path().join("s/big/SKILL.md")).unwrap();
    big.set_len(10 * 1024 * 1024 + 1).unwrap();
    put(folder.path(), "s/latin/SKILL.md", b"---\nname: latin\ndescription: caf\xe9\n---\n");
    put(folder.path(), "s/pdf/SKILL.md", PDF);
    let (agent, _) = on_disk(folder.path(), 1);
    let told = told(&agent, "Hi.".into(), "skills_loaded").await;
    let expected = json!([{"skills": ["pdf"], "warnings": [
        "Skipped /s/big/SKILL.md: it has more than 10485760 bytes",
        "Skipped /s/latin/SKILL.md: it is not UTF-8 text",
    ]}]);
    assert_eq!(json!(told), expected);
}

#[tokio::test]
async fn skills_are_reread_only_after_changes_or_on_request() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "s/pdf/SKILL.md", PDF);
    let (agent, model) = on_disk(folder.path(), 6);
    let run = |input: RunInput| told(&agent, input.thread("t"), "skills_loaded");
    assert_eq!(run("Hi.".into()).await.len(), 1);
    assert_eq!(run("Hi.".into()).await.len(), 0, "nothing changed");
    put(folder.path(), "s/pdf/SKILL.md", PDF.replace("Reads", "Now writes"));
    assert_eq!(run("Hi.".into()).await.len(), 1);
    put(folder.path(), "s/web/SKILL.md", "---\nname: web\ndescription: Searches.\n---\n");
    assert_eq!(json!(run("Hi.".into()).await), json!([{"skills": ["pdf", "web"], "warnings": []}]));
    std::fs::remove_dir_all(folder.path().join("s/pdf")).unwrap();
    assert_eq!(json!(run("Hi.".into()).await), json!([{"skills": ["web"], "warnings": []}]));
    let again = RunInput::new("Hi.").update(Update::new::<SkillsMetadata>(None));
    assert_eq!(run(again).await.len(), 1);
    assert!(model.requests()[2].system_text().contains("Now writes PDF files."));
}

#[tokio::test]
async fn a_catalogue_given_by_the_caller_is_used_unchanged() {
    let skill = Skill::new("given", "From the caller.", "/elsewhere/SKILL.md".parse().unwrap());
    let given = SkillCatalogue { skills: vec![skill], ..SkillCatalogue::default() };
    let update = Update::new::<SkillsMetadata>(Some(given));
    let (outcome, requests) =
        run(&[("/s/pdf/SKILL.md", PDF)], &["/s"], [Turn::text("Hello.")], |b| b, |i| i.update(update)).await;
    let text = requests[0].system_text();
    assert!(text.contains("From the caller.") && !text.contains("Reads PDF files."), "{text}");
    assert!(!outcome.state.to_json(false).unwrap().contains_key("skills_metadata"));
}

#[tokio::test]
async fn a_custom_skills_template_missing_a_part_is_rejected() {
    let skills = || Skills::new(StateBackend::new(), [("/s", "House")]).unwrap();
    let error = skills().template("{skills_list}").unwrap_err().to_string();
    assert!(error.contains("{skills_locations}, {skills_load_warnings}"), "{error}");
    let own = skills().template("[{skills_locations}|{skills_load_warnings}|{skills_list}]").unwrap();
    let given = [("/s/pdf/SKILL.md", PDF)];
    let (_, requests) = run(&given, &["/s"], [Turn::text("Hello.")], |b| b.middleware(own), |i| i).await;
    let text = requests[0].system.last().unwrap().text.to_string();
    assert_eq!(text, "[**House Skills**: `/s`||- **pdf**: Reads PDF files. -> `/s/pdf/SKILL.md`]");
    let silent = skills().template("").unwrap();
    let (_, requests) = run(&given, &["/s"], [Turn::text("Hello.")], |b| b.middleware(silent), |i| i).await;
    assert!(!requests[0].system_text().contains("pdf"));
}

#[test]
fn a_source_outside_the_workspace_is_rejected_at_build_time() {
    let error = DeepAgent::builder().model(ScriptedModel::new([])).skills(["~/skills"]).build().unwrap_err();
    assert!(error.to_string().starts_with("skills cannot have this path: home directories"), "{error}");
}

fn pin(names: &[&str]) -> Update {
    Update::new::<PinnedSkills>(SkillPin::Pin(names.iter().map(|name| (*name).to_owned()).collect()))
}

#[tokio::test]
async fn pinned_skills_are_shown_once_in_full_and_in_order_before_the_next_call() {
    let odd = "---\nname: a\"b\ndescription: d\n---\nOdd.\n";
    let given = [("/s/pdf/SKILL.md", PDF), ("/s/odd/SKILL.md", odd)];
    let update = pin(&["a\"b", "nobody", "pdf", "pdf"]);
    let turns = [Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")];
    let (outcome, requests) = run(&given, &["/s"], turns, |b| b, |i| i.update(update)).await;
    let texts = |request: &ModelRequest| request.messages.iter().map(|m| m.text()).collect::<Vec<_>>();
    let expected = [
        "Hi.",
        "<skill name=\"a&quot;b\" path=\"/s/odd/SKILL.md\">\nOdd.\n</skill>",
        "<skill name=\"pdf\" path=\"/s/pdf/SKILL.md\">\n# Steps\nDo it.\n</skill>",
    ];
    assert_eq!(texts(&requests[0]), expected);
    assert_eq!(requests[1].messages.len(), 5, "shown once: {:?}", texts(&requests[1]));
    assert!(outcome.state.get::<PinnedSkills>().unwrap().is_empty());
    let author = outcome.messages().get(1).unwrap().as_user().unwrap().author;
    assert_eq!(author, Author::Harness, "a skill is not an instruction of a person");
}

#[tokio::test]
async fn a_missing_pinned_skill_is_reported_and_skipped() {
    let model = ScriptedModel::new([Turn::text("Hello.")]);
    let agent = DeepAgent::builder().model(model.clone()).skills(["/s"]).build().unwrap();
    let told = told(&agent, RunInput::new("Hi.").update(pin(&["nobody"])), "pinned_skills_skipped").await;
    assert_eq!(json!(told), json!([{"warnings": ["no skill is named `nobody`"]}]));
    assert_eq!(model.requests()[0].messages.len(), 1);
}

#[tokio::test]
async fn a_pin_given_as_json_is_a_list_of_names() {
    let agent = DeepAgent::builder().model(ScriptedModel::new([])).skills(["/s"]).build().unwrap();
    let json = json!({"pinned_skills": ["pdf"]}).as_object().unwrap().clone();
    let update = Update::from_json(agent.schema(), json).unwrap();
    assert_eq!(update.get::<PinnedSkills>().next(), Some(&SkillPin::Pin(vec!["pdf".to_owned()])));
}

const SUMS: &str = "---\nname: sums\ndescription: Adds up.\nmetadata: {include_tools: sum nothing}\n---\nUse sum.\n";

fn with_sum(builder: DeepAgentBuilder) -> DeepAgentBuilder {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Args {
        a: i64,
        b: i64,
    }
    builder.skill_tool(tool_fn("sum", "Adds.", |args: Args, _cx| async move { Ok((args.a + args.b).to_string()) }))
}

fn offered(requests: &[ModelRequest]) -> Vec<bool> {
    requests.iter().map(|request| request.tools.iter().any(|tool| tool.name == "sum")).collect()
}

fn read(path: &str) -> Turn {
    Turn::call("read_file", json!({"file_path": path}))
}

fn sum() -> Turn {
    Turn::call("sum", json!({"a": 1, "b": 2}))
}

#[tokio::test]
async fn a_skill_tool_is_offered_and_runs_once_its_skill_was_read() {
    let given = [("/s/sums/SKILL.md", SUMS)];
    let turns = [sum(), read("/s/none/SKILL.md"), read("s//sums/SKILL.md"), sum(), Turn::text("Done.")];
    let (outcome, requests) = run(&given, &["/s"], turns, with_sum, |i| i).await;
    assert_eq!(offered(&requests), [false, false, false, true, true], "a failed read discloses nothing");
    let results = crate::results(&outcome);
    let error = "Error: sum comes with the skill sums; read /s/sums/SKILL.md first.";
    assert_eq!(results[0], (error.to_owned(), true));
    assert_eq!(results[3], ("3".to_owned(), false));
    let names: Vec<String> = requests[3].tools.iter().map(|tool| tool.name.clone()).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[tokio::test]
async fn a_pinned_skill_offers_its_tools_at_once() {
    let given = [("/s/sums/SKILL.md", SUMS)];
    let turns = [sum(), Turn::text("Done.")];
    let (outcome, requests) = run(&given, &["/s"], turns, with_sum, |i| i.update(pin(&["sums"]))).await;
    assert_eq!(offered(&requests), [true, true]);
    assert_eq!(crate::results(&outcome), [("3".to_owned(), false)]);
}

#[tokio::test]
async fn a_skill_tool_disappears_when_its_skill_is_no_longer_in_the_context() {
    let given = [("/s/sums/SKILL.md", SUMS)];
    let forget = modify_request(|mut request: ModelRequest, _cx| async move {
        if request.messages.len() > 4 {
            request.messages = request.messages.iter().take(1).cloned().collect();
        }
        Result::Ok(request)
    });
    let turns = [read("/s/sums/SKILL.md"), Turn::call("ls", json!({"path": "/"})), sum(), Turn::text("Done.")];
    let (outcome, requests) = run(&given, &["/s"], turns, |b| with_sum(b).middleware(forget), |i| i).await;
    assert_eq!(offered(&requests), [false, true, false, false]);
    assert!(crate::results(&outcome)[2].1, "what is not offered is not run");
}

#[tokio::test]
async fn a_skill_tool_named_by_no_skill_is_never_offered() {
    let given = [("/s/pdf/SKILL.md", PDF)];
    let turns = [read("/s/pdf/SKILL.md"), sum(), Turn::text("Done.")];
    let (outcome, requests) = run(&given, &["/s"], turns, with_sum, |i| i).await;
    assert_eq!(offered(&requests), [false; 3]);
    assert_eq!(crate::results(&outcome)[1], ("Error: sum is not a tool you have.".to_owned(), true));
}

#[tokio::test]
async fn a_skill_read_in_an_earlier_run_of_the_thread_still_counts() {
    let model = ScriptedModel::new([read("/s/sums/SKILL.md"), Turn::text("Read."), sum(), Turn::text("Done.")]);
    let builder = DeepAgent::builder().model(model.clone()).skills(["/s"]).journal(MemoryJournal::new());
    let agent = with_sum(builder).build().unwrap();
    let first = RunInput::new("Read it.").update(files([("/s/sums/SKILL.md", SUMS)]));
    agent.invoke(first.thread("t")).await.unwrap();
    let outcome = agent.invoke(RunInput::new("Sum up.").thread("t")).await.unwrap();
    assert_eq!(offered(&model.requests()), [false, true, true, true]);
    assert_eq!(crate::results(&outcome)[1], ("3".to_owned(), false));
}

#[test]
fn skill_tools_without_skills_are_rejected() {
    let error = with_sum(DeepAgent::builder().model(ScriptedModel::new([]))).build().unwrap_err();
    assert!(error.to_string().contains("name sources with `.skills(...)`"), "{error}");
}

#[tokio::test]
async fn a_skills_sub_agents_come_from_its_front_matter_and_agents_yaml() {
    let front = "---\nname: x\ndescription: d\nagents:\n- name: first\n  description: From the front matter.\n---\n";
    let list = "- name: second\n  description: Listed.\n  prompt: Be quick.\n  tools: [ls, grep]\n  model: house:small\n  \
                skills: [/more]\n- name: first\n  description: Again.\n- description: nameless\n- just text\n";
    let map = "third:\n  description: By name.\n  system_prompt: Be slow.\nsecond:\n  description: Taken.\n";
    let other = "---\nname: y\ndescription: d\n---\n";
    let given = [
        ("/s/x/SKILL.md", front),
        ("/s/x/agents.yaml", list),
        ("/s/y/SKILL.md", other),
        ("/s/y/agents.yaml", map),
        ("/s/z/agents.yaml", "- no skill"),
    ];
    let (_, catalogue) = load(&given, &["/s"]).await;
    let agents: Vec<_> = catalogue.skills.iter().flat_map(|skill| &skill.agents).collect();
    let expected = json!([
        {"name": "first", "description": "From the front matter."},
        {"name": "second", "description": "Listed.", "system_prompt": "Be quick.", "tools": ["ls", "grep"],
         "model": "house:small", "skills": ["/more"]},
        {"name": "third", "description": "By name.", "system_prompt": "Be slow."},
    ]);
    assert_eq!(json!(agents), expected);
    let expected = [
        "/s/x/agents.yaml: the sub-agent number 3 was left out: it has no `name`",
        "/s/x/agents.yaml: the sub-agent number 4 was left out: it is not a mapping",
        "/s/x/agents.yaml: the skill already defines a sub-agent `first`",
        "/s/y/SKILL.md: another skill already defines a sub-agent `second`",
    ];
    assert_eq!(catalogue.warnings, expected);
}

#[tokio::test]
async fn an_unreadable_agents_file_does_not_affect_its_skill() {
    let given = [("/s/pdf/SKILL.md", PDF), ("/s/pdf/agents.yaml", "a: b: c")];
    let (_, catalogue) = load(&given, &["/s"]).await;
    assert_eq!(catalogue.skills.len(), 1);
    assert!(catalogue.warnings[0].starts_with("Skipped /s/pdf/agents.yaml: its YAML cannot be read"), "{catalogue:?}");
}

#[tokio::test]
async fn a_skill_linked_within_the_workspace_is_loaded_and_one_outside_is_not() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(folder.path(), "real/pdf/SKILL.md", PDF);
    put(outside.path(), "pdf/SKILL.md", PDF);
    std::fs::create_dir_all(folder.path().join("s")).unwrap();
    std::os::unix::fs::symlink("../real/pdf", folder.path().join("s/pdf")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("pdf"), folder.path().join("s/out")).unwrap();
    let (agent, _) = on_disk(folder.path(), 1);
    let told = told(&agent, "Hi.".into(), "skills_loaded").await;
    assert_eq!(json!(told), json!([{"skills": ["pdf"], "warnings": []}]));
}

#[tokio::test]
async fn memory_and_skill_state_survives_as_json_and_keeps_the_prompt_unchanged() {
    let given = [("/s/sums/SKILL.md", SUMS), ("/s/bad/SKILL.md", "bad"), ("/AGENTS.md", "Be kind.")];
    let turns = [read("/s/sums/SKILL.md"), sum(), Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")];
    let (outcome, requests) =
        run(&given, &["/s"], turns, |b| with_sum(b).memory(["/AGENTS.md"]), |i| i.update(pin(&["sums"]))).await;
    let json = outcome.state.to_json(true).unwrap();
    for channel in ["memory_contents", "skills_metadata", "pinned_skills", "skill_reads"] {
        assert!(json.contains_key(channel), "{channel}");
    }
    let back = State::from_json(outcome.state.schema().clone(), json.clone()).unwrap();
    assert_eq!(back.to_json(true).unwrap(), json);
    assert!(requests.windows(2).all(|pair| pair[0].system == pair[1].system));
}

#[tokio::test]
async fn an_event_reports_changes_in_the_offered_skill_tools() {
    let model = ScriptedModel::new([read("/s/sums/SKILL.md"), sum(), Turn::text("Done.")]);
    let agent = with_sum(DeepAgent::builder().model(model).skills(["/s"])).build().unwrap();
    let input = RunInput::new("Sum up.").update(files([("/s/sums/SKILL.md", SUMS)]));
    assert_eq!(json!(told(&agent, input, "skill_tools_offered").await), json!([{"tools": ["sum"]}]));
}

/// A backend whose listings of sources must run concurrently, or never end.
struct Together(StateBackend, tokio::sync::Barrier);

impl Backend for Together {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
        self.0.stat(state, path)
    }
    fn read<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<FileRead, FsError>> {
        self.0.read(state, path, range)
    }
    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
        Box::pin(async move {
            self.1.wait().await;
            self.0.list(state, path).await
        })
    }
    fn write<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        data: bytes::Bytes,
        mode: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FsError>> {
        self.0.write(state, path, data, mode)
    }
    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
        self.0.delete(state, path)
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        self.0.channels()
    }
}

#[tokio::test]
async fn skill_sources_are_read_concurrently() {
    let backend = Together(StateBackend::new(), tokio::sync::Barrier::new(3));
    let (sources, given) = (["/a", "/b", "/c"], [("/b/pdf/SKILL.md", PDF)]);
    let (_, requests) = run(&given, &sources, [Turn::text("Hello.")], |b| b.backend(backend), |i| i).await;
    assert!(requests[0].system_text().contains("Reads PDF files."));
}

#[tokio::test]
async fn skills_made_by_hand_are_shared_with_general_purpose_and_replace_no_others() {
    let task = |name: &str| ("task", json!({"description": "Look.", "subagent_type": name}));
    let model = ScriptedModel::rules()
        .when(|r| r.messages.get(0).is_some_and(|m| m.text() == "Look."), ["a", "b", "c"].map(Turn::text))
        .otherwise([Turn::calls([task("with"), task("without"), task("general-purpose")]), Turn::text("Done.")])
        .build();
    let builder = DeepAgent::builder()
        .model(model.clone())
        .middleware(Skills::new(StateBackend::default(), ["/main"]).unwrap())
        .sub_agent(SubAgentSpec::new("with", "Looks.").system_prompt("Own.").skills(["/own"]))
        .sub_agent(SubAgentSpec::new("without", "Looks.").system_prompt("None."));
    let given = files([("/main/pdf/SKILL.md", PDF), ("/own/sums/SKILL.md", SUMS)]);
    builder.build().unwrap().invoke(RunInput::new("Hi.").update(given)).await.unwrap();
    let listed = |start: &str| {
        let requests = model.requests();
        let text = requests.iter().map(ModelRequest::system_text).find(|text| text.starts_with(start)).unwrap();
        (text.contains("/main/pdf/SKILL.md"), text.contains("/own/sums/SKILL.md"))
    };
    assert_eq!((listed("Own."), listed("None.")), ((false, true), (false, false)));
    let all = model.requests();
    let main = all.iter().filter(|request| request.system_text().contains("/main/pdf/SKILL.md")).count();
    assert_eq!(main, 3, "two requests of the main agent and one of general-purpose");
}

#[tokio::test]
async fn lists_and_mappings_in_metadata_are_kept_as_json_and_skill_tools_may_be_a_list() {
    let (skill, warnings) =
        one("name: x\ndescription: d\nmetadata:\n  tags: [a, b]\n  by: {team: docs}\n  include_tools: [sum, mean]")
            .await;
    let skill = skill.unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(skill.tools, ["sum", "mean"]);
    let expected = json!({"tags": r#"["a","b"]"#, "by": r#"{"team":"docs"}"#, "include_tools": r#"["sum","mean"]"#});
    assert_eq!(json!(skill.metadata), expected);
    let (skill, warnings) = one("name: x\ndescription: d\nmetadata: {include_tools: {a: b}}").await;
    assert!(skill.unwrap().tools.is_empty());
    assert!(warnings[0].contains("`metadata.include_tools` is neither"), "{warnings:?}");
}
