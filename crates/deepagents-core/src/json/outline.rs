//! Scans messages that cannot be parsed as JSON, or are too long to be stored.

use serde_json::Value;

/// Maximum length in bytes of a key or an id; no relevant one is longer.
const MAX_WORD_BYTES: usize = 64;

/// Scans a JSON-RPC message for the keys of its outermost object and its id. It receives the text in pieces and stores
/// almost none of it. It makes no other assumptions: the text may not be JSON at all.
///
/// ```
/// let mut outline = deepagents_core::json::Outline::default();
/// outline.push(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"n":NaN}}"#);
/// assert_eq!(outline.asked(), Some(7.into()));
/// ```
#[derive(Debug, Default)]
pub struct Outline {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Whether the next bytes are the value of the key.
    in_value: bool,
    key: Vec<u8>,
    id: Vec<u8>,
    answers: bool,
    asks: bool,
    /// Whether the text is not an object, so that its contents are ignored.
    other: bool,
}

impl Outline {
    /// Processes the next piece of the text.
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.other {
                return;
            }
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return self.keep(byte);
        }
        match byte {
            b'{' | b'[' => {
                self.other = self.depth == 0 && byte == b'[';
                self.depth += 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 && !self.in_value => {
                self.in_value = true;
                match self.key.trim_ascii() {
                    b"\"id\"" => self.id.clear(),
                    b"\"result\"" | b"\"error\"" => self.answers = true,
                    b"\"method\"" => self.asks = true,
                    _ => {}
                }
            }
            b',' if self.depth == 1 => {
                self.in_value = false;
                self.key.clear();
            }
            _ if self.depth == 0 => self.other = !byte.is_ascii_whitespace(),
            _ => {
                self.in_text = byte == b'"';
                self.keep(byte);
            }
        }
    }

    /// Stores a byte of a key, or of the id.
    fn keep(&mut self, byte: u8) {
        let kept = match (self.depth, self.in_value) {
            (1, false) => &mut self.key,
            (1, true) if self.key.trim_ascii() == b"\"id\"" => &mut self.id,
            _ => return,
        };
        if kept.len() < MAX_WORD_BYTES {
            kept.push(byte);
        }
    }

    /// Does the same as [`answered`](Self::answered) before the text has ended, when the id may be incomplete.
    pub fn answered_so_far(&self) -> Option<Value> {
        let in_id = self.depth == 1 && self.in_value && self.key.trim_ascii() == b"\"id\"";
        if in_id { None } else { self.answered() }
    }

    /// Returns the id of the request that the text answers, if it looks like a response.
    pub fn answered(&self) -> Option<Value> {
        self.id().filter(|_| self.answers && !self.asks)
    }

    /// Returns the id of the text, if it looks like a request.
    pub fn asked(&self) -> Option<Value> {
        self.id().filter(|_| self.asks && !self.answers)
    }

    fn id(&self) -> Option<Value> {
        let id: Value = serde_json::from_slice(&self.id).ok()?;
        (id.is_string() || id.is_number()).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> Outline {
        let mut outline = Outline::default();
        for piece in line.as_bytes().chunks(3) {
            outline.push(piece);
        }
        outline
    }

    fn answered(line: &str) -> Option<Value> {
        told(line).answered()
    }

    #[test]
    fn the_id_of_an_unreadable_request_is_recovered() {
        assert_eq!(told(r#"{"id":"a","method":"x","params":{"n":NaN}}"#).asked(), Some("a".into()));
        assert_eq!(told(r#"{"id":7,"result":{"method":"x"}}"#).asked(), None);
        assert_eq!(told(r#"{"method":"x","params":{"id":7}}"#).asked(), None);
    }

    #[test]
    fn the_id_is_found_at_any_position() {
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"n":NaN}}"#,
            r#" { "result" : [[["id",{"id":9}]]] , "x" : "\"},{" , "id" : 7 } "#,
            r#"{"id":7,"error":{"message":"cut of"#,
            r#"{"id":1,"id":7,"result":}"#,
        ] {
            assert_eq!(answered(line), Some(7.into()), "{line}");
        }
    }

    #[test]
    fn only_responses_count_as_answers() {
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":1}"#,
            r#"{"level":"debug","id":7}"#,
            r#"[{"id":7,"result":{}}]"#,
            r#"received {"id":7,"result":{}}"#,
            r#"{"id":null,"result":{}}"#,
            r#"{"result":{"id":7}}"#,
            "{not json",
            "",
        ] {
            assert_eq!(answered(line), None, "{line}");
        }
    }
}
