//! Input from the terminal.

use std::collections::VecDeque;
use std::io;
use std::task::Poll;
use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::hangup::Hangup;

/// The maximum pause between two characters of a reply.
const MAX_REPLY_GAP: Duration = Duration::from_millis(30);
/// Maximum characters of a reply.
const MAX_REPLY_CHARS: usize = 4_096;

/// The stream of keys, pastes and sizes. While suspended, it reads nothing, so that another program can use the
/// terminal.
#[derive(Debug, Default)]
pub(crate) struct Input {
    stream: Option<EventStream>,
    hangup: Hangup,
    answers: Answers,
    /// When the held events count as typed.
    until: Option<Instant>,
}

impl Input {
    pub(crate) fn new() -> Self {
        Self { stream: Some(EventStream::new()), hangup: Hangup::new(), ..Self::default() }
    }

    pub(crate) fn suspend(&mut self) {
        (self.stream, self.answers, self.until) = Default::default();
    }

    pub(crate) fn resume(&mut self) {
        self.stream = Some(EventStream::new());
    }

    /// Returns the next event, or `None` once the terminal has gone. Pends forever while suspended.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Event>> {
        loop {
            if let Some(event) = self.answers.typed.pop_front() {
                return Some(Ok(event));
            }
            let Some(stream) = &mut self.stream else { return std::future::pending().await };
            let until = self.until;
            let next = tokio::select! {
                biased;
                () = self.hangup.wait() => return None,
                next = next_event(stream, &self.hangup) => next,
                () = async { if let Some(until) = until { tokio::time::sleep_until(until).await } }, if until.is_some() => {
                    self.answers.give_up();
                    self.until = None;
                    continue;
                }
            };
            match next {
                Some(Ok(event)) => self.answers.take(event),
                other => return other,
            }
            self.until = self.answers.is_open().then(|| Instant::now() + MAX_REPLY_GAP);
        }
    }
}

/// Returns the next event, or `None` once the terminal has gone: crossterm would read the end of its input forever.
async fn next_event(stream: &mut EventStream, hangup: &Hangup) -> Option<io::Result<Event>> {
    std::future::poll_fn(|cx| if hangup.has_happened() { Poll::Ready(None) } else { stream.poll_next_unpin(cx) }).await
}

/// Separates what the user types from late replies of the terminal to queries of another program. The sequences OSC,
/// DCS, PM and APC arrive as Alt with a character, followed by their contents as characters.
#[derive(Debug, Default)]
struct Answers {
    held: Vec<Event>,
    typed: VecDeque<Event>,
}

impl Answers {
    fn is_open(&self) -> bool {
        !self.held.is_empty()
    }

    /// Treats the held events as typed.
    fn give_up(&mut self) {
        self.typed.extend(self.held.drain(..));
    }

    fn take(&mut self, event: Event) {
        let Event::Key(KeyEvent { code: KeyCode::Char(c), modifiers, kind: KeyEventKind::Press, .. }) = event else {
            self.give_up();
            self.typed.push_back(event);
            return;
        };
        let (alt, control) = (modifiers.contains(KeyModifiers::ALT), modifiers.contains(KeyModifiers::CONTROL));
        if !self.is_open() {
            let begins = alt && !control && matches!(c, ']' | 'P' | '^' | '_');
            if begins {
                self.held.push(event)
            } else {
                self.typed.push_back(event)
            }
            return;
        }
        // The terminators: BEL, or ESC with a backslash.
        if (control && c == 'g') || (alt && c == '\\') {
            self.held.clear();
            return;
        }
        let belongs = !alt && !control && self.held.len() < MAX_REPLY_CHARS;
        self.held.push(event);
        if !belongs {
            self.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(c: char, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(KeyCode::Char(c), modifiers))
    }

    fn given(answers: &mut Answers, events: impl IntoIterator<Item = Event>) -> Vec<Event> {
        events.into_iter().for_each(|event| answers.take(event));
        answers.typed.drain(..).collect()
    }

    #[test]
    fn terminal_responses_are_swallowed_and_keys_are_not() {
        let mut answers = Answers::default();
        let plain = |text: &str| text.chars().map(|c| key(c, KeyModifiers::NONE)).collect::<Vec<_>>();
        for (begin, end) in [
            (']', key('g', KeyModifiers::CONTROL)),
            (']', key('\\', KeyModifiers::ALT)),
            ('P', key('\\', KeyModifiers::ALT)),
        ] {
            let all = [vec![key(begin, KeyModifiers::ALT)], plain("11;rgb:1e1e"), vec![end]].concat();
            assert_eq!(given(&mut answers, all), [], "{begin}");
        }
        assert_eq!(given(&mut answers, plain("hi")), plain("hi"));
        // Alt with a key, not followed by others in time.
        assert_eq!(given(&mut answers, [key(']', KeyModifiers::ALT)]), []);
        answers.give_up();
        assert_eq!(given(&mut answers, plain("x")), [vec![key(']', KeyModifiers::ALT)], plain("x")].concat());
        // A sequence that turns out not to be a reply.
        let all = [key('^', KeyModifiers::ALT), key('a', KeyModifiers::NONE), key('c', KeyModifiers::CONTROL)];
        assert_eq!(given(&mut answers, all.clone()), all);
    }
}
