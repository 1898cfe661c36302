//! The initial state and session of the interface.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::app::event::Event;
use crate::app::{App, SessionInfo, Work};
use crate::host::{Begin, Host, Options};
use crate::input::{History, Vi};
use crate::key_map::KeyMap;
use crate::policy::Policy;
use crate::session::Session;
use crate::theme::Themes;

/// Creates the initial state and session. The agent is built in the background.
pub(crate) fn begin(
    host: &Arc<dyn Host>,
    policy: Policy,
    options: Options,
    size: (u16, u16),
) -> (App, Session, mpsc::UnboundedReceiver<Event>) {
    let (to, events) = mpsc::unbounded_channel();
    let preferences = &options.preferences;
    let (themes, theme, mut problems) = Themes::new(preferences, options.colour);
    let (keys, wrong) = KeyMap::new(&preferences.keys);
    problems.extend(wrong);
    let facts = SessionInfo {
        version: options.version,
        model: options.model,
        directory: short_path(&options.root, options.home.as_deref()),
        ..SessionInfo::default()
    };
    let history = History::open(options.history);
    let mut app = App::new(size, (themes, theme), options.mode, facts, history);
    app.debug = options.debug;
    app.keys = keys;
    app.vi = preferences.vi.then(Vi::default);
    app.providers = host.providers();
    app.has_status_command = preferences.status_line.is_some();
    for problem in problems {
        app.note(problem, true);
    }
    let session = Session::new(host.clone(), policy, to, (options.root, options.home), options.shell, preferences);
    if options.onboarding {
        app.without_model = true;
        // A user who resumes a thread sees the thread first and is asked for a provider when sending a message.
        if options.begin == Begin::New {
            app.choose_provider();
        }
    }
    if !options.onboarding || options.begin != Begin::New {
        session.connect(None);
    }
    if options.begin != Begin::New {
        // Messages typed before the thread is open wait for it.
        app.begin(Work::Other("opening"));
        session.begin(options.begin);
    }
    (app, session, events)
}

/// Returns a path for display, with the home directory shortened to a tilde.
fn short_path(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
