//! The program without a subcommand, at a terminal.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::program::{deepagents, finish, finish_with, run};
use crate::server::{Reply, Server};
use crate::terminal::Terminal;

/// Resets every terminal mode that the program may have set.
const RESTORED: &str = "\x1b[?2004l\x1b[0m\x1b[?25h";

/// The screens, with their own home directory.
fn screens(root: &Path, home: &Path, server: &Server) -> Command {
    let mut command = deepagents();
    command.env("HOME", home).env("TERM", "xterm-256color").env("NO_COLOR", "1");
    command.args(["--base-url", &server.address, "--model", "test-model", "--root"]).arg(root);
    command
}

struct Place {
    root: tempfile::TempDir,
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), home: tempfile::tempdir().unwrap() }
    }

    /// Starts the screens and waits for the prompt, so that keys are accepted.
    fn start(&self, server: &Server, args: &[&str]) -> Terminal {
        let mut command = screens(self.root.path(), self.home.path(), server);
        let mut terminal = Terminal::start(command.env("DEEPAGENTS_DEBUG", "1").args(args));
        terminal.wait_for("test-model");
        terminal
    }
}

#[test]
fn quitting_after_an_answer_restores_the_terminal_and_says_how_to_resume() {
    let server = Server::start([Reply::Text(vec!["Four", "."])]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("two and two\r");
    terminal.wait_for("Four.");
    terminal.type_in("/quit\r");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen:?}");
    assert!(seen.contains(RESTORED) && seen.contains("deepagents --resume "), "{seen:?}");
}

#[test]
fn the_models_of_the_server_at_the_given_address_can_be_chosen() {
    let models = json!({"data": [{"id": "test-model"}, {"id": "small-model", "context_length": 4096}]});
    let server = Server::with_models([Reply::Text(vec!["Small", "."])], Some(models));
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("/model\r");
    terminal.wait_for("custom:small-model");
    terminal.type_in("small\r");
    terminal.wait_for("model: custom:small-model");
    terminal.type_in("hello\r");
    terminal.wait_for("Small.");
    terminal.type_in("/quit\r");
    terminal.end();
    assert_eq!(server.requests()[0].body["model"], "small-model");
}

#[test]
fn model_output_never_reaches_the_terminal_as_an_escape_sequence() {
    let evil = "Be\u{1b}]0;OWNED\u{7}fore \u{1b}[2J\u{1b}]52;c;T1dORUQ=\u{7}\u{9b}31m after";
    let server = Server::start([Reply::Text(vec![evil])]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("be evil\r");
    terminal.wait_for("after");
    terminal.type_in("/quit\r");
    let (_, seen) = terminal.end();
    for sequence in ["\u{1b}]0;OWNED", "\u{1b}]52;", "\u{1b}[2J", "\u{9b}"] {
        assert!(!seen.contains(sequence), "{sequence:?} in {seen:?}");
    }
    assert!(seen.contains("OWNED"), "{seen:?}");
}

#[test]
fn a_panic_restores_the_terminal_and_says_how_to_resume() {
    let server = Server::start([Reply::Text(vec!["Before", "."])]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("hello\r");
    terminal.wait_for("Before.");
    terminal.type_in("/debug-panic\r");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(101), "{seen:?}");
    let (_, end) = seen.split_once(RESTORED).unwrap_or_else(|| panic!("{seen:?}"));
    assert!(end.contains("internal error") && end.contains("deepagents --resume "), "{end:?}");
}

#[test]
fn a_signal_ends_the_answer_and_restores_the_terminal() {
    for (signal, expected) in [("-TERM", 143), ("-INT", 130)] {
        let server = Server::start([Reply::Hang]);
        let place = Place::new();
        let mut terminal = place.start(&server, &[]);
        terminal.type_in("hello\r");
        server.wait();
        let sent = Command::new("kill").args([signal, &terminal.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(expected), "{seen:?}");
        assert!(seen.contains(RESTORED), "{seen:?}");
    }
}

#[test]
fn a_run_stopped_by_a_signal_can_be_resumed_even_a_detached_one() {
    let goes_on = |server: &Server, place: &Place| {
        let mut command = run(place.root.path(), &server.address);
        let rest = finish(command.env("HOME", place.home.path()).args(["-q", "--continue"]));
        assert_eq!((rest.code, rest.out.as_str()), (Some(0), "Done.\n"), "{rest:?}");
    };
    let (server, place) = (Server::start([Reply::Hang, Reply::Text(vec!["Done."])]), Place::new());
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("hello\r");
    server.wait();
    assert!(Command::new("kill").args(["-HUP", &terminal.child.id().to_string()]).status().unwrap().success());
    assert_eq!(terminal.end().0, Some(129));
    goes_on(&server, &place);
    let (server, place) = (Server::start([Reply::Hang, Reply::Text(vec!["Done."])]), Place::new());
    let begun = finish(screens(place.root.path(), place.home.path(), &server).args(["--detach", "hello"]));
    assert_eq!(begun.code, Some(0), "{begun:?}");
    server.wait();
    let thread = || {
        let listed = finish(deepagents().env("HOME", place.home.path()).args(["threads", "list", "--json"]));
        serde_json::from_str::<serde_json::Value>(&listed.out).unwrap()[0].clone()
    };
    let worker = thread()["metadata"]["process"]["id"].to_string();
    assert!(Command::new("kill").args(["-TERM", &worker]).status().unwrap().success());
    let began = std::time::Instant::now();
    while thread()["status"] == "running" {
        assert!(began.elapsed().as_secs() < 60, "{}", thread());
    }
    goes_on(&server, &place);
}

#[test]
fn a_conversation_survives_a_kill_and_continues() {
    let call = Reply::Call("execute", json!({"command": "touch asked.txt"}));
    let server = Server::start([Reply::Text(vec!["First", "."]), call, Reply::Text(vec!["Second", "."])]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("one\r");
    terminal.wait_for("First.");
    terminal.type_in("two\r");
    terminal.wait_for("touch asked.txt");
    terminal.child.kill().unwrap();
    terminal.end();
    let mut terminal = place.start(&server, &["--continue"]);
    terminal.wait_for("First.");
    terminal.wait_for("touch asked.txt");
    terminal.wait_for("yes");
    assert!(!place.root.path().join("asked.txt").exists());
    terminal.press_until("n", "Second.");
    terminal.type_in("\x04");
    assert_eq!(terminal.end().0, Some(0));
    assert!(!place.root.path().join("asked.txt").exists());
}

#[test]
fn a_dumb_terminal_is_pointed_to_run_without_escape_sequences() {
    let server = Server::start([]);
    let place = Place::new();
    let mut command = screens(place.root.path(), place.home.path(), &server);
    let (code, seen) = Terminal::start(command.env("TERM", "dumb")).end();
    assert!(code == Some(1) && seen.contains("deepagents run") && !seen.contains('\u{1b}'), "{seen:?}");
}

#[test]
fn unknown_threads_and_databases_are_reported_before_the_screens_start() {
    let server = Server::start([]);
    let place = Place::new();
    for (args, words) in [
        (["--resume", "nobody"], "there is no thread `nobody`"),
        (["--db", "/no/such/dir/x.db"], "the directory `/no/such/dir` of the database does not exist"),
    ] {
        let mut command = screens(place.root.path(), place.home.path(), &server);
        let (code, seen) = Terminal::start(command.args(args)).end();
        assert!(code == Some(2) && seen.contains(words) && !seen.contains('\u{1b}'), "{seen:?}");
    }
}

#[test]
fn piped_text_is_the_task() {
    let server = Server::start([Reply::Text(vec!["Piped", "."])]);
    let place = Place::new();
    let finished = finish_with(&mut screens(place.root.path(), place.home.path(), &server), "the task\n");
    assert!(finished.code == Some(0) && finished.out.contains("Piped."), "{finished:?}");
    assert!(!finished.out.contains('\u{1b}'), "{finished:?}");
    assert!(server.requests()[0].body.to_string().contains("the task"));
}

#[test]
fn a_terminal_that_nobody_reads_does_not_keep_the_program_running() {
    let long: &'static str = Box::leak("many words ".repeat(40_000).into_boxed_str());
    let server = Server::start([Reply::Text(vec![long])]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("hello\r");
    server.wait();
    let sent = Command::new("kill").args(["-TERM", &terminal.child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(terminal.child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_message_typed_right_behind_clear_is_the_first_of_the_new_thread_and_can_be_stopped() {
    let server = Server::start([Reply::Text(vec!["First", "."]), Reply::Hang]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("one\r");
    terminal.wait_for("First.");
    terminal.wait_until_idle();
    terminal.type_in("/clear\rtwo\r");
    while server.requests().len() < 2 {
        assert!(terminal.read(), "{:?}", terminal.seen);
    }
    assert!(!server.requests()[1].body.to_string().contains("First."), "{:?}", server.requests()[1].body);
    terminal.type_in("\x1b");
    terminal.wait_for("interrupted");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn attach_shows_a_detached_task_and_asks_its_pending_question() {
    let call = Reply::Call("execute", json!({"command": "touch asked.txt"}));
    let server = Server::start([call, Reply::Text(vec!["All ", "done."])]);
    let place = Place::new();
    let mut command = screens(place.root.path(), place.home.path(), &server);
    let begun = crate::program::finish(command.args(["--detach", "make asked.txt"]));
    assert!(begun.code == Some(0) && begun.err.contains("deepagents attach"), "{begun:?}");
    let thread = begun.out.trim().to_owned();
    server.wait();
    // The printed command works as it is: the thread stores its model, whatever keys are set.
    let mut terminal = Terminal::start(&mut without_model(&place, &["attach", &thread], Some("k")));
    terminal.wait_for("make asked.txt");
    terminal.wait_for("touch asked.txt");
    terminal.press_until("y", "All done.");
    terminal.type_in("/quit\r");
    let (code, seen) = terminal.end();
    assert!(code == Some(0) && place.root.path().join("asked.txt").exists(), "{seen:?}");
    let refused = crate::program::finish(screens(place.root.path(), place.home.path(), &server).arg("--detach"));
    assert!(refused.wrong_usage().contains("there is no task"), "{refused:?}");
    let mut nobody = screens(place.root.path(), place.home.path(), &server);
    let refused = crate::program::finish(nobody.args(["--detach", "x", "--resume", "nobody"]));
    assert!(refused.wrong_usage().contains("there is no thread `nobody`"), "{refused:?}");
}

#[test]
fn user_hooks_apply_in_the_screens_and_are_told_of_the_end() {
    let server = Server::start([
        Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "x"})),
        Reply::Text(vec!["Done", "."]),
    ]);
    let place = Place::new();
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let hooks = json!({"hooks": {"PreToolUse": hook("exit 2"), "SessionEnd": hook("cat > \"$HOME/end.json\"")}});
    std::fs::create_dir_all(place.home.path().join(".deepagents")).unwrap();
    std::fs::write(place.home.path().join(".deepagents/hooks.json"), hooks.to_string()).unwrap();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("write it\r");
    terminal.wait_for("Done.");
    terminal.type_in("/quit\r");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen:?}");
    assert!(!place.root.path().join("a.txt").exists());
    let told = std::fs::read_to_string(place.home.path().join("end.json")).unwrap();
    assert!(told.contains("prompt_input_exit"), "{told}");
}

/// A PNG of a single red pixel.
const RED_PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82";

#[test]
fn images_are_drawn_only_when_the_terminal_supports_them_and_never_from_text() {
    let (kitty, iterm, sixel) = ("\u{1b}_Ga=T,f=100,q=2", "\u{1b}]1337;File=inline=1;", "\u{1b}P0;1;0q\"1;1;1;1#0;");
    let evil = "\u{1b}_Ga=T,f=100;AAAA\u{1b}\\ \u{1b}]1337;File=inline=1:AAAA\u{7} seen";
    for (variables, drawn) in [
        ([("TERM", "xterm-kitty"), ("TERM_PROGRAM", "")], Some(kitty)),
        ([("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")], Some(iterm)),
        ([("TERM", "foot"), ("TERM_PROGRAM", "")], Some(sixel)),
        ([("TERM", "xterm-256color"), ("TERM_PROGRAM", "")], None),
        ([("TERM", "xterm-kitty"), ("TMUX", "/tmp/tmux,1,0")], None),
    ] {
        let server = Server::start([
            Reply::Call("read_file", json!({"file_path": "/dot.png"})),
            Reply::Text(vec![evil]),
            Reply::Text(vec!["And ", "another."]),
        ]);
        let place = Place::new();
        std::fs::write(place.root.path().join("dot.png"), RED_PIXEL).unwrap();
        let mut command = screens(place.root.path(), place.home.path(), &server);
        let mut terminal = Terminal::start(command.envs(variables));
        terminal.wait_for("test-model");
        terminal.type_in("look\r");
        terminal.wait_for("seen");
        terminal.wait_until_idle();
        let results = terminal.seen.matches(drawn.unwrap_or(kitty)).count();
        terminal.type_in("and at dot.png\r");
        terminal.wait_for("another.");
        // Ctrl-L removes pictures with the rest of the screen and redraws them.
        terminal.type_in("\u{c}");
        if let Some(sequence) = drawn {
            while terminal.seen.matches(sequence).count() < 4 {
                assert!(terminal.read(), "{:?}", terminal.seen);
            }
            assert_eq!(terminal.seen.contains("\u{1b}_Ga=d,d=a,q=2\u{1b}\\"), sequence == kitty);
        }
        terminal.type_in("/quit\r");
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(0), "{seen:?}");
        assert!(seen.contains("image dot.png (image/png"), "{seen:?}");
        for sequence in [kitty, iterm, sixel] {
            let (wanted, of_results) = if drawn == Some(sequence) { (4, 1) } else { (0, 0) };
            assert_eq!(seen.matches(sequence).count(), wanted, "{variables:?}: {seen:?}");
            assert!(drawn.is_none() || drawn != Some(sequence) || results == of_results, "{seen:?}");
        }
        assert!(!seen.contains("\u{1b}_Ga=T,f=100;") && !seen.contains("\u{1b}]1337;File=inline=1:AAAA"), "{seen:?}");
    }
}

#[test]
fn a_question_rings_the_bell_and_notifies_the_terminal() {
    let server = Server::start([Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"}))]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("write\r");
    terminal.wait_for("\u{7}\u{1b}]9;deepagents: write_file waits for your decision\u{7}");
    terminal.wait_for("\u{1b}]2;? deepagents: ");
    terminal.type_in("\u{3}");
    terminal.wait_until_idle();
    terminal.type_in("\u{3}\u{3}");
    let (code, _) = terminal.end();
    assert_eq!(code, Some(0));
}

#[test]
fn suspending_restores_the_terminal_and_resuming_redraws_it() {
    let server = Server::start([Reply::Text(vec!["Awake", "."])]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("/theme\r");
    terminal.wait_for("Colours");
    terminal.type_in("\u{1a}");
    terminal.wait_for(RESTORED);
    let stat = format!("/proc/{}/stat", terminal.child.id());
    let sleeps = || std::fs::read_to_string(&stat).unwrap().rsplit(") ").next().unwrap().starts_with('T');
    let begun = std::time::Instant::now();
    while !sleeps() {
        assert!(begun.elapsed().as_secs() < 60, "it does not sleep: {:?}", terminal.seen);
        std::thread::yield_now();
    }
    terminal.seen.clear();
    rustix::process::kill_process(rustix::process::Pid::from_child(&terminal.child), rustix::process::Signal::CONT)
        .unwrap();
    terminal.wait_for("test-model");
    // The list is still open.
    terminal.wait_for("Colours");
    terminal.type_in("\u{3}are you there?\r");
    terminal.wait_for("Awake.");
    terminal.type_in("/quit\r");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen:?}");
    assert!(seen.contains(RESTORED), "{seen:?}");
}

#[test]
fn piped_text_is_the_task_with_screen_options_too() {
    let write = |name: &str| Reply::Call("write_file", json!({"file_path": format!("/{name}.txt"), "content": "x\n"}));
    let text = |text| Reply::Text(vec![text]);
    let script = [
        text("First."),
        text("Second."),
        write("a"),
        text("Planned."),
        write("b"),
        text("Asked."),
        write("c"),
        text("Made."),
    ];
    let server = Server::start(script);
    let place = Place::new();
    let pipe = |args: &[&str], text: &str| {
        finish_with(screens(place.root.path(), place.home.path(), &server).args(args), text)
    };
    let first = pipe(&["--theme", "light", "--history", "h.jsonl"], "the first task\n");
    assert!(first.code == Some(0) && first.out.contains("First."), "{first:?}");
    let second = pipe(&["--continue"], "and another\n");
    assert!(second.code == Some(0) && second.out.contains("Second."), "{second:?}");
    let said = server.requests()[1].body.to_string();
    assert!(said.contains("the first task") && said.contains("and another"), "{said}");
    let planned = pipe(&["--approve", "plan"], "make a");
    assert!(planned.code == Some(0) && planned.out.contains("Planned."), "{planned:?}");
    let asked = pipe(&["--approve", "ask"], "make b");
    assert!(asked.code == Some(0) && asked.out.contains("Asked."), "{asked:?}");
    assert!(asked.err.contains("nobody can be asked here"), "{asked:?}");
    let made = pipe(&["--approve", "auto"], "make c");
    assert!(made.code == Some(0) && made.out.contains("Made."), "{made:?}");
    let is_there = |name: &str| place.root.path().join(name).exists();
    assert!(!is_there("a.txt") && !is_there("b.txt") && is_there("c.txt"));
    let empty = pipe(&["--continue"], "");
    assert!(empty.code == Some(0) && empty.err.contains("say what to do next"), "{empty:?}");
}

/// The program without a configured model, in the place's directory and with a provider's key.
fn without_model(place: &Place, args: &[&str], key: Option<&str>) -> Command {
    let mut command = deepagents();
    command.env("HOME", place.home.path()).env("TERM", "xterm-256color").env("NO_COLOR", "1");
    command.args(args).arg("--root").arg(place.root.path());
    key.into_iter().fold(&mut command, |command, key| command.env("OPENAI_API_KEY", key));
    command
}

#[test]
fn a_thread_resumes_with_its_own_model_at_its_own_address() {
    let server =
        Server::start([Reply::Text(vec!["First."]), Reply::Text(vec!["Second."]), Reply::Text(vec!["Third."])]);
    let place = Place::new();
    let first = finish_with(&mut screens(place.root.path(), place.home.path(), &server), "one");
    assert!(first.code == Some(0) && first.out.contains("First."), "{first:?}");
    let again = finish_with(&mut without_model(&place, &["run", "--continue"], Some("k")), "");
    assert!(again.code == Some(0) && again.out.contains("First."), "{again:?}");
    let second = finish_with(&mut without_model(&place, &["--continue"], Some("k")), "two");
    assert!(second.code == Some(0) && second.out.contains("Second."), "{second:?}");
    let mut terminal = Terminal::start(&mut without_model(&place, &["--continue"], Some("k")));
    terminal.wait_for("Second.");
    terminal.type_in("three\r");
    terminal.wait_for("Third.");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    let last = server.requests()[2].body.clone();
    assert_eq!(last["model"], "test-model");
    assert!(last.to_string().contains("First.") && last.to_string().contains("three"), "{last}");
}

#[test]
fn a_thread_is_shown_even_if_its_model_is_unusable() {
    let server = Server::start([Reply::Text(vec!["Answered before."])]);
    let place = Place::new();
    let known = ["--model", "openai-chat:test-model", "--base-url", &server.address];
    let first = finish_with(&mut without_model(&place, &known, Some("k")), "one");
    assert!(first.code == Some(0) && first.out.contains("Answered before."), "{first:?}");
    let another = ["--continue", "--model", "anthropic:claude-sonnet-4-5"];
    let mut terminal = Terminal::start(&mut without_model(&place, &another, None));
    terminal.wait_for("Answered before.");
    terminal.wait_for("ANTHROPIC_API_KEY");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn an_error_that_is_not_retried_is_shown_once_and_not_called_a_retry() {
    let server = Server::start([Reply::Status(401, json!({"error": {"message": "who-are-you"}}))]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("hello\r");
    terminal.wait_for("DEEPAGENTS_API_KEY");
    terminal.type_in("/quit\r");
    let (code, seen) = terminal.end();
    assert!(code == Some(0) && !seen.contains("trying again"), "{seen:?}");
    assert_eq!(seen.matches("who-are-you").count(), 1, "{seen:?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_terminal_gets_only_colours_it_supports() {
    let server = Server::start([]);
    for (term, colourterm, all) in
        [("xterm", "", false), ("xterm-256color", "", false), ("xterm-256color", "truecolor", true)]
    {
        let place = Place::new();
        let mut command = screens(place.root.path(), place.home.path(), &server);
        command.env_remove("NO_COLOR").env("TERM", term).env("COLORTERM", colourterm);
        let mut terminal = Terminal::start(&mut command);
        terminal.wait_for("test-model");
        terminal.type_in("/quit\r");
        let (_, seen) = terminal.end();
        assert_eq!(seen.contains("38;2;"), all, "{term} {colourterm}: {seen:?}");
        assert_eq!(seen.contains("38;5;"), term == "xterm-256color" && !all, "{term} {colourterm}: {seen:?}");
    }
}

#[test]
fn late_terminal_replies_are_not_typed_and_a_failed_editor_does_no_damage() {
    let server = Server::start([Reply::Text(vec!["Heard", " you."])]);
    let place = Place::new();
    let mut command = screens(place.root.path(), place.home.path(), &server);
    // An editor that leaves mouse reporting on and echo off.
    command.env("EDITOR", "sh -c 'stty raw -echo; printf \"\\033[?1000h\"; exit 3'").env_remove("VISUAL");
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for("test-model");
    terminal.type_in("\x1b]11;rgb:1e1e/1e1e/1e1e\x07\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\\x1bP>|kitty(0.3)\x1b\\");
    terminal.type_in("hello\r");
    terminal.wait_for("Heard you.");
    let told = server.requests().last().map(|request| request.body.to_string()).unwrap();
    assert!(told.contains("\"hello\"") && !told.contains("rgb:") && !told.contains("kitty"), "{told}");
    terminal.type_in("\x07");
    terminal.wait_for("\x1b[?1000l");
    terminal.type_in("/quit\r");
    terminal.wait_for_end();
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
    assert!(terminal.echoes(), "{:?}", terminal.seen);
}

#[test]
fn a_call_and_a_reason_can_be_edited_in_the_users_editor() {
    let write = Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "x"}));
    let server = Server::start([write, Reply::Text(vec!["Under", "stood."])]);
    let place = Place::new();
    let mut command = screens(place.root.path(), place.home.path(), &server);
    command.env("EDITOR", "sh -c 'sed -i s/a.txt/b.txt/ \"$1\"; echo \"#as-edited\" >> \"$1\"' sh");
    command.env_remove("VISUAL");
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for("test-model");
    terminal.type_in("write\r");
    terminal.wait_for("/a.txt?");
    terminal.press_until("f", "because:");
    terminal.type_in("not a.txt\x07");
    terminal.wait_for("#as-edited");
    terminal.type_in("\r");
    terminal.wait_for("Understood.");
    terminal.type_in("/quit\r");
    terminal.end();
    let told = server.requests()[1].body.to_string();
    assert!(told.contains("not b.txt#as-edited"), "{told}");
}

#[test]
fn a_providers_requested_wait_is_shown_and_esc_ends_it() {
    let limited = || {
        let delay = json!([{"retryDelay": "120s"}]);
        Reply::Status(429, json!({"error": {"message": "slow-down", "details": delay}}))
    };
    let server = Server::start([limited()]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("hello\r");
    terminal.wait_for("slow-down");
    terminal.wait_for("asks to wait");
    terminal.type_in("\x1b");
    terminal.wait_for("interrupted");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(server.requests().len(), 1);
    // The retry of a subagent is shown next to it.
    let task = json!({"subagent_type": "general-purpose", "description": "count"});
    let server = Server::start([Reply::Call("task", task), limited()]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("delegate\r");
    terminal.wait_for("provider");
    terminal.type_in("\x1b");
    terminal.wait_for("interrupted");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_thread_continues_in_the_mode_chosen_in_the_screens() {
    let write = || Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "x"}));
    let server = Server::start([
        Reply::Text(vec!["Planned."]),
        write(),
        Reply::Text(vec!["Then not."]),
        write(),
        Reply::Text(vec!["Written."]),
    ]);
    let place = Place::new();
    let mut terminal = place.start(&server, &["--approve", "plan"]);
    terminal.type_in("hi\r");
    terminal.wait_for("Planned.");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    let go_on =
        |args: &[&str]| finish(run(place.root.path(), &server.address).env("HOME", place.home.path()).args(args));
    let denied = go_on(&["--continue", "write it"]);
    assert!(denied.code == Some(0) && denied.out.contains("Then not."), "{denied:?}");
    assert!(!place.root.path().join("a.txt").exists(), "{denied:?}");
    // The screens continue in that mode, too.
    let mut terminal = place.start(&server, &["--continue"]);
    terminal.wait_for("Then not.");
    terminal.wait_for("plan");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    let named = go_on(&["--continue", "--approve", "auto", "write it"]);
    assert!(named.code == Some(0) && place.root.path().join("a.txt").exists(), "{named:?}");
}

#[test]
fn calls_for_piped_text_are_refused_in_terms_of_the_chosen_mode() {
    for (mode, words) in [("plan", "(--approve plan)"), ("ask", "(--approve ask, and nobody can be asked)")] {
        let write = Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "x"}));
        let server = Server::start([write, Reply::Text(vec!["Then not."])]);
        let place = Place::new();
        let mut command = screens(place.root.path(), place.home.path(), &server);
        let refused = finish_with(command.args(["--approve", mode]), "write it");
        assert_eq!(refused.code, Some(0), "{refused:?}");
        let told = server.requests()[1].body.to_string();
        assert!(told.contains(words) && !told.contains("allow-list") && !told.contains("deny"), "{told}");
    }
}

fn send(signal: &str, terminal: &Terminal) {
    let sent = Command::new("kill").args([signal, &terminal.child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_signal_ends_the_program_even_while_its_editor_is_open() {
    let server = Server::start([]);
    let place = Place::new();
    let mut command = screens(place.root.path(), place.home.path(), &server);
    let editor = place.home.path().join("editor.sh");
    std::fs::write(&editor, "echo AT-EDITOR\nexec sleep 600\n").unwrap();
    command.env("EDITOR", format!("sh {}", editor.display())).env_remove("VISUAL");
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for("test-model");
    terminal.type_in("\x07");
    terminal.wait_for("AT-EDITOR");
    send("-TERM", &terminal);
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(143), "{seen:?}");
    assert!(seen.contains(RESTORED), "{seen:?}");
}

#[test]
fn an_editor_that_is_suspended_suspends_the_program_once() {
    let server = Server::start([Reply::Text(vec!["Heard."])]);
    let place = Place::new();
    let mut command = screens(place.root.path(), place.home.path(), &server);
    let editor = place.home.path().join("editor.sh");
    std::fs::write(&editor, "kill -TSTP $PPID\nkill -STOP $$\necho from the editor > $1\n").unwrap();
    command.env("EDITOR", format!("sh {}", editor.display())).env_remove("VISUAL");
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for("test-model");
    terminal.type_in("\x07");
    let program = terminal.child.id();
    let children = || std::fs::read_to_string(format!("/proc/{program}/task/{program}/children")).unwrap_or_default();
    let sleeps = |process: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
    };
    let began = std::time::Instant::now();
    let editor = loop {
        let editor = children().split_whitespace().find(|child| sleeps(child)).map(str::to_owned);
        match editor.filter(|_| sleeps(&program.to_string())) {
            Some(editor) => break editor,
            None => assert!(began.elapsed().as_secs() < 60, "the program goes on: {:?}", terminal.seen),
        }
        std::thread::yield_now();
    };
    send("-CONT", &terminal);
    assert!(Command::new("kill").args(["-CONT", &editor]).status().unwrap().success());
    // The words are drawn one by one.
    terminal.wait_for("from");
    terminal.type_in("\r");
    terminal.wait_for("Heard.");
    assert!(server.requests()[0].body.to_string().contains("from the editor"));
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_terminal_that_goes_away_ends_the_program_like_a_hangup() {
    let server = Server::start([Reply::Hang]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("hello\r");
    server.wait();
    assert_eq!(terminal.close().wait().unwrap().code(), Some(129));
}

#[test]
fn idle_screens_whose_terminal_goes_away_end_without_a_signal() {
    let server = Server::start([]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.wait_until_idle();
    // The terminal does not control their session, and nothing is drawn whose failure they would notice.
    assert_eq!(terminal.close().wait().unwrap().code(), Some(129));
}

#[test]
fn a_hangup_in_the_full_screen_reader_leaves_nothing_behind() {
    let server = Server::start([Reply::Text(vec!["Counted."])]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("count\r");
    terminal.wait_for("Counted.");
    terminal.type_in("\x0f");
    terminal.wait_for("\x1b[?1049h");
    send("-HUP", &terminal);
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(129), "{seen:?}");
    let left = seen.rsplit("\x1b[?1049l").next().unwrap();
    assert!(left.starts_with("\x1b[J") && left.contains(RESTORED), "{left:?}");
}

#[test]
fn text_after_a_multi_codepoint_character_is_repositioned_when_printed() {
    let server = Server::start([Reply::Text(vec!["Up \u{1f469}\u{200d}\u{1f680} and away."])]);
    let place = Place::new();
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("fly\r");
    terminal.wait_for("away.");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    // The earlier conversation is printed immediately.
    let mut terminal = place.start(&server, &["--continue"]);
    terminal.wait_for("and away.");
    terminal.type_in("/quit\r");
    let (_, seen) = terminal.end();
    assert!(seen.contains("Up \u{1f469}\u{200d}\u{1f680}\x1b[6G and away."), "{seen:?}");
}

#[test]
fn a_reload_reads_the_settings_and_changed_definitions_of_servers_again() {
    let server = Server::start([]);
    let place = Place::new();
    let own = place.home.path().join(".deepagents");
    std::fs::create_dir_all(&own).unwrap();
    let serve = |command: &str| {
        let servers = json!({"mcpServers": {"harbour": {"command": command}}});
        std::fs::write(own.join(".mcp.json"), servers.to_string()).unwrap();
    };
    serve("/no/such/first-command");
    let mut terminal = place.start(&server, &[]);
    terminal.type_in("/mcp\r");
    terminal.wait_for("first-command");
    serve("/no/such/second-command");
    std::fs::write(own.join("config.toml"), "editor = \"an-editor-of-ones-own\"\n").unwrap();
    terminal.type_in("/reload\r");
    terminal.wait_for("the agent is built again");
    terminal.type_in("/mcp\r");
    terminal.wait_for("second-command");
    terminal.press_until("/config\r", "an-editor-of-ones-own");
    std::fs::write(own.join("config.toml"), "editor = [broken").unwrap();
    terminal.type_in("/reload\r");
    terminal.wait_for("unclosed");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_mistyped_model_leaves_the_one_in_use() {
    let server = Server::start([Reply::Text(vec!["One", "."])]);
    let place = Place::new();
    let mut command = without_model(&place, &["--model", "openai-chat:test-model"], Some("k"));
    let mut terminal = Terminal::start(command.env("OPENAI_BASE_URL", &server.address));
    terminal.wait_for("test-model");
    terminal.type_in("/model claude\r");
    terminal.wait_for("still using openai-chat:test-model");
    terminal.type_in("hello\r");
    terminal.wait_for("One.");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
}
