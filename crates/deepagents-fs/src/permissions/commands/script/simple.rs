//! Simple commands: their variables, words and opened files.

use rable::{Node, NodeKind};

use super::{Document, Doubt, Redirection, Script, Simple};
use crate::permissions::commands::pattern::is_private;
use crate::permissions::commands::word::{Word, is_name};
use crate::permissions::commands::{mentions, wrappers};

impl Script {
    /// Adds a command with everything it is written with. If there are several doubts, returns the last.
    pub(super) fn simple(
        &mut self,
        assignments: &[Node],
        words: &[Node],
        redirects: &[Node],
        depth: usize,
    ) -> Result<(), Doubt> {
        let mut simple = Simple::default();
        let mut doubt = None;
        let from = self.commands.len();
        self.variables(&mut simple, assignments, &mut doubt, depth);
        let computed = self.words(&mut simple, words, &mut doubt, depth);
        simple.tails = computed.iter().map(|word| plain_end(word)).filter(|end| !end.is_empty()).collect();
        self.values.take(&simple, self.is_straight(depth));
        let document = self.files(&mut simple, redirects, &mut doubt, depth);
        simple.kept = simple.writes_a_file() || redirects.iter().any(is_to_descriptor);
        let listed = self.commands.len();
        wrappers::list(self, simple, document, depth);
        if let Some(live) = self.commands.iter_mut().skip(listed).find(|simple| simple.is_live()) {
            let copies = live.words.first().and_then(Word::known).is_some_and(mentions::gives_names);
            let mut found: Vec<_> = computed.into_iter().flat_map(mentions::words).collect();
            // A copy may be called with any arguments.
            found.iter_mut().filter(|_| copies).for_each(|words| words.push(Word::Computed(None)));
            live.mentions.extend(found);
            self.mention_printed(from, listed);
        }
        self.joined(from);
        doubt.map_or(Ok(()), Err)
    }

    /// Reads the assignments in front of a command.
    fn variables(&mut self, simple: &mut Simple, assignments: &[Node], doubt: &mut Option<Doubt>, depth: usize) {
        for node in assignments {
            let text = if let NodeKind::Word { value, .. } = &node.kind { value.as_str() } else { "" };
            match (text.split_once('='), self.word(node, depth)) {
                (Some((name, _)), Ok(value)) if is_name(name) => {
                    simple.assignments.push((name.to_owned(), after_equals(name, value)));
                }
                // A subscript is evaluated, and some shells do not have `+=`.
                (_, Ok(_)) => *doubt = Some(Doubt::NotRead),
                (_, Err(other)) => *doubt = Some(other),
            }
        }
    }

    /// Reads the program and its arguments. Returns the source text of computed words, of which otherwise only the
    /// prefix is known.
    fn words<'a>(
        &mut self,
        simple: &mut Simple,
        words: &'a [Node],
        doubt: &mut Option<Doubt>,
        depth: usize,
    ) -> Vec<&'a str> {
        let mut computed = Vec::new();
        for node in words {
            match self.word(node, depth) {
                Ok(word) => {
                    if let (Word::Computed(_), NodeKind::Word { value, .. }) = (&word, &node.kind) {
                        computed.push(value.as_str());
                    }
                    simple.words.push(word);
                }
                Err(other) => {
                    *doubt = Some(other);
                    simple.words.push(Word::Computed(None));
                }
            }
        }
        computed
    }

    /// Reads the redirections and here-documents of a command. Returns its input.
    fn files(&mut self, simple: &mut Simple, redirects: &[Node], doubt: &mut Option<Doubt>, depth: usize) -> Document {
        let mut document = Document::None;
        for node in redirects {
            simple.reads_text |= match &node.kind {
                NodeKind::HereDoc { .. } => true,
                NodeKind::Redirect { op, .. } => op == "<<<",
                _ => false,
            };
            let text = match &node.kind {
                NodeKind::HereDoc { fd: -1 | 0, content, quoted, .. } => Some((content, *quoted)),
                _ => None,
            };
            // With several inputs, or a numbered descriptor, it is not determined which one is read.
            document = match (document, text) {
                (Document::None, Some((content, quoted))) if quoted || !content.contains(['$', '`', '\\']) => {
                    Document::Known(content.clone())
                }
                (document, None) if writes(node) => document,
                _ => Document::Unknown,
            };
            if let NodeKind::HereDoc { content, quoted, complete, delimiter, .. } = &node.kind {
                simple.texts.push(content.clone());
                self.ends.insert(delimiter.clone());
                // Shells process only quotes in a delimiter, and read it within one line.
                if delimiter.contains(['\n', '$', '`']) {
                    *doubt = Some(Doubt::NotRead);
                }
                // An unquoted here-document is expanded like text in double quotes.
                if !complete || (!quoted && may_run(content)) {
                    *doubt = Some(Doubt::Expansion);
                }
            } else {
                if let NodeKind::Redirect { op, target, .. } = &node.kind
                    && let (true, NodeKind::Word { value, .. }) = (op == "<<<", &target.kind)
                {
                    simple.texts.push(value.clone());
                }
                match self.redirect(node, depth) {
                    Ok(redirection) => simple.redirections.extend(redirection),
                    Err(other) => *doubt = Some(other),
                }
            }
        }
        document
    }

    /// Adds variables that are set other than in front of a command.
    pub(in crate::permissions::commands) fn assigned(
        &mut self,
        set: impl IntoIterator<Item = (String, Word)>,
        depth: usize,
    ) {
        let set = set.into_iter().inspect(|(name, _)| self.values.forget(name)).collect::<Vec<_>>();
        let assignments: Vec<_> = set.into_iter().filter(|(name, _)| !is_private(name)).collect();
        if !assignments.is_empty() {
            wrappers::list(self, Simple { assignments, ..Simple::default() }, Document::None, depth);
        }
    }

    /// Adds the redirections of a compound command, whose commands start at index `from`, as a command that only opens
    /// files.
    pub(super) fn redirects(&mut self, redirects: &[Node], from: usize, depth: usize) -> Result<(), Doubt> {
        if redirects.is_empty() {
            return Ok(());
        }
        let to = self.commands.len();
        let live = self.has_live(from);
        let read = self.simple(&[], &[], redirects, depth);
        if live {
            self.mention_printed(to, self.commands.len());
        }
        if self.commands.iter().skip(to).any(Simple::writes_a_file) {
            self.commands.get_mut(from..to).unwrap_or_default().iter_mut().for_each(|simple| simple.kept = true);
            self.joined(from);
        }
        read
    }

    /// Reads a redirection; `None` if it refers to an open stream.
    fn redirect(&mut self, node: &Node, depth: usize) -> Result<Option<Redirection>, Doubt> {
        let NodeKind::Redirect { op, target, varfd: None, .. } = &node.kind else { return Err(Doubt::NotRead) };
        let to = match &target.kind {
            NodeKind::Word { .. } => {
                let values = self.values.clone();
                self.word_with(target, depth, &|name| values.get(name))?
            }
            _ => return Err(Doubt::NotRead),
        };
        let from = self.place.clone();
        let tail = if let NodeKind::Word { value, .. } = &target.kind { plain_end(value) } else { String::new() };
        match op.as_str() {
            ">" | ">>" | ">|" | "<>" => Ok(Some(Redirection { writes: true, to, from, tail })),
            "<" => Ok(Some(Redirection { writes: false, to, from, tail })),
            "<<<" | ">&-" | "<&-" => Ok(None),
            // After `>&`, bash takes a name for a file.
            ">&" | "<&" => match to.known() {
                Some(stream) if stream == "-" || stream.bytes().all(|byte| byte.is_ascii_digit()) => Ok(None),
                _ => Err(Doubt::NotRead),
            },
            _ => Err(Doubt::NotRead),
        }
    }
}

/// Returns whether a redirection is to a descriptor that a file may be open at.
fn is_to_descriptor(redirect: &Node) -> bool {
    match &redirect.kind {
        NodeKind::Redirect { op, target, .. } if op == ">&" => {
            !matches!(&target.kind, NodeKind::Word { value, .. } if matches!(value.as_str(), "0" | "1" | "2" | "-"))
        }
        _ => false,
    }
}

/// Returns the end of a word's source text that has no special characters.
fn plain_end(word: &str) -> String {
    let word = word.trim_end_matches(['"', '\'']);
    let is_plain = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    let end = word.rsplit(|c| !is_plain(c)).next().unwrap_or_default();
    let is_variable = word.strip_suffix(end).is_some_and(|before| before.ends_with('$'));
    // The name of a variable is not part of the path.
    if is_variable { end.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_') } else { end }.to_owned()
}

/// Returns whether a redirection affects only output, so that the input is unchanged.
fn writes(redirect: &Node) -> bool {
    match &redirect.kind {
        NodeKind::Redirect { op, fd, .. } => matches!(op.as_str(), ">" | ">>" | ">|" | ">&" | ">&-") && *fd != 0,
        _ => false,
    }
}

/// Returns the value of an assignment from its whole word.
fn after_equals(name: &str, word: Word) -> Word {
    let value = |text: String| text.get(name.len() + 1..).map(str::to_owned);
    match word {
        Word::Known(text) => value(text).map_or(Word::Computed(None), Word::Known),
        Word::Computed(begins) => Word::Computed(begins.and_then(value)),
    }
}

/// Returns whether expanding variables in a text may run something.
fn may_run(text: &str) -> bool {
    text.contains(['`']) || text.contains("$(") || text.contains("${") || text.contains("$[") || text.contains("\\\n")
}
