//! Finds the position at which to cut a conversation.

use deepagents_core::message::{Message, Messages};

use super::threshold::Size;

/// Number of messages kept where a fraction of the window is to be kept and the window is not known.
const KEPT_MESSAGES: usize = 20;

/// Returns the start of the part to keep, at or after `from`, without separating results from their calls. Returns
/// `None` if everything is kept.
pub(super) fn cut(
    messages: &Messages,
    from: usize,
    keep: Size,
    window: Option<u64>,
    tokens: impl Fn(usize) -> u64,
) -> Option<usize> {
    let at = match (keep.tokens(window), keep) {
        (Some(budget), _) => suffix(messages, from, budget, tokens)?,
        (None, Size::Messages(kept)) => messages.len().checked_sub(kept.max(1))?,
        (None, _) => messages.len().checked_sub(KEPT_MESSAGES)?,
    };
    if at <= from {
        return None;
    }
    let at = aligned(messages, from, at);
    (at > from && at < messages.len()).then_some(at)
}

/// Returns the start of the longest suffix that fits. The last message is always kept.
pub(super) fn suffix(messages: &Messages, from: usize, budget: u64, tokens: impl Fn(usize) -> u64) -> Option<usize> {
    let mut left = budget;
    for index in (from..messages.len()).rev() {
        match left.checked_sub(tokens(index)) {
            Some(rest) => left = rest,
            None => return Some((index + 1).min(messages.len() - 1)),
        }
    }
    None
}

/// Moves a cut out of the middle of a turn: before the answer whose results it would split, or after the results if
/// there is no such answer.
fn aligned(messages: &Messages, from: usize, at: usize) -> usize {
    let result = |index: usize| messages.get(index).and_then(|m| m.as_tool());
    let Some(first) = result(at) else { return at };
    let mut ids: Vec<&str> = vec![&first.call_id];
    ids.extend((at + 1..messages.len()).map_while(result).map(|r| r.call_id.as_str()));
    for index in (from..at).rev() {
        match messages.get(index).map(|m| &**m) {
            Some(Message::Tool(_)) => {}
            Some(Message::Assistant(answer)) if answer.call_ids().any(|id| ids.contains(&id)) => return index,
            _ => break,
        }
    }
    at + ids.len()
}

#[cfg(test)]
mod tests {
    use deepagents_core::message::{AssistantMessage, Block, ToolMessage};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Builds a conversation from a short notation: `H`, `A`, `T` for an orphaned result, and `A2` for an answer with
    /// two calls and results.
    fn conversation(words: &str) -> Messages {
        let mut out: Vec<Message> = Vec::new();
        for (at, word) in words.split(' ').enumerate() {
            let id = |n: usize| format!("c{at}_{n}");
            let result = |id: String| Message::Tool(ToolMessage { call_id: id, ..ToolMessage::default() });
            match word {
                "H" => out.push(Message::user("x")),
                "A" => out.push(Message::assistant("x")),
                "T" => out.push(result("orphan".into())),
                calls => {
                    let count: usize = calls.trim_start_matches('A').parse().unwrap();
                    let calls = (0..count).map(|n| Block::call(id(n), "ls", json!({}))).collect();
                    out.push(Message::Assistant(AssistantMessage::new(calls)));
                    out.extend((0..count).map(|n| result(id(n))));
                }
            }
        }
        out.into()
    }

    fn cut_to(words: &str, keep: usize) -> Option<usize> {
        cut(&conversation(words), 0, Size::Messages(keep), None, |_| 1)
    }

    #[test]
    fn a_cut_between_results_moves_before_their_call() {
        let cuts: Vec<_> = (1..=6).map(|keep| cut_to("H A2 H A", keep)).collect();
        assert_eq!(cuts, [Some(5), Some(4), Some(1), Some(1), Some(1), None]);
    }

    #[test]
    fn a_single_turn_with_results_is_not_cut() {
        assert_eq!(cut_to("A2", 1), None);
    }

    #[test]
    fn orphaned_results_stay_with_the_messages_before_them() {
        assert_eq!(cut_to("H T T H", 2), Some(3));
        assert_eq!(cut_to("H T T H", 3), Some(3));
    }

    #[test]
    fn a_token_limit_keeps_the_longest_fitting_tail_and_always_the_last_message() {
        let messages = conversation("H A H A H");
        let by = |budget| cut(&messages, 0, Size::Tokens(budget), None, |_| 10);
        assert_eq!(by(50), None);
        assert_eq!(by(49), Some(1));
        assert_eq!(by(20), Some(3));
        assert_eq!(by(1), Some(4));
        assert_eq!(cut(&messages, 0, Size::Fraction(0.5), Some(40), |_| 10), Some(3));
    }

    #[test]
    fn already_evicted_messages_are_not_cut_again() {
        assert_eq!(cut(&conversation("H A H A H"), 3, Size::Messages(2), None, |_| 1), None);
    }

    proptest! {
        #[test]
        fn no_cut_separates_a_call_from_its_result(
            words in proptest::collection::vec(prop_oneof![Just("H"), Just("A"), Just("A1"), Just("A3")], 1..40),
            keep in 1usize..40,
            by_tokens: bool,
        ) {
            let messages = conversation(&words.join(" "));
            let size = if by_tokens { Size::Tokens(keep as u64) } else { Size::Messages(keep) };
            if let Some(at) = cut(&messages, 0, size, None, |_| 1) {
                prop_assert!(at > 0 && at < messages.len());
                prop_assert!(messages.get(at).unwrap().as_tool().is_none());
            }
        }
    }
}
