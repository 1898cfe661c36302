//! Recognises `sed` and `awk` scripts that run nothing and write no files.

use super::word::Word;

/// Returns whether `sed` is only told to print, delete, replace and the like.
pub(super) fn is_plain_sed(args: &[Word]) -> bool {
    let Some(args) = args.iter().map(Word::known).collect::<Option<Vec<_>>>() else { return false };
    let (mut scripts, mut operands) = (Vec::new(), Vec::new());
    let mut rest = args.into_iter();
    while let Some(arg) = rest.next() {
        match arg {
            "-e" | "--expression" | "-ne" | "-Ee" | "-re" | "-nEe" | "-nre" => scripts.extend(rest.next()),
            "--quiet" | "--silent" | "--regexp-extended" | "--in-place" | "--null-data" | "--separate" => {}
            arg if arg.starts_with("--expression=") => scripts.extend(arg.split_once('=').map(|(_, script)| script)),
            arg if arg.starts_with("-i") => {}
            arg if arg.len() > 1 && arg.starts_with('-') => {
                if !arg.bytes().skip(1).all(|letter| b"nErsuz".contains(&letter)) {
                    return false;
                }
            }
            arg => operands.push(arg),
        }
    }
    if scripts.is_empty() {
        scripts.extend(operands.first());
    }
    scripts.into_iter().all(|script| Sed(script).reads_plain())
}

/// Remaining text of a `sed` script.
struct Sed<'a>(&'a str);

impl Sed<'_> {
    fn reads_plain(mut self) -> bool {
        loop {
            self.skip(|c| c.is_whitespace() || c == ';' || c == '{' || c == '}');
            if self.0.is_empty() {
                return true;
            }
            if !self.command() {
                return false;
            }
        }
    }

    /// Reads a command with its addresses. Returns `false` if it may run something or is not understood.
    fn command(&mut self) -> bool {
        loop {
            match self.next() {
                Some('/') => {
                    if !self.text('/') {
                        return false;
                    }
                    self.skip(|c| c == 'I' || c == 'M');
                }
                Some('0'..='9' | '$' | ',' | '!' | ' ' | '~' | '+') => {}
                Some('p' | 'P' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'x' | 'n' | 'N' | '=' | 'q' | 'Q') => {
                    self.skip(|c| c.is_ascii_digit() || c == ' ');
                    return self.is_at_end();
                }
                Some(command @ ('s' | 'y')) => {
                    let Some(mark) = self.next().filter(|mark| mark.is_ascii_punctuation() && *mark != '\\') else {
                        return false;
                    };
                    if !self.text(mark) || !self.text(mark) {
                        return false;
                    }
                    // Other flags are not accepted: `e` runs a command and `w` writes a file.
                    self.skip(|c| command == 's' && (c.is_ascii_digit() || "gpiIm".contains(c)));
                    self.skip(|c| c == ' ');
                    return self.is_at_end();
                }
                Some('{') => return true,
                _ => return false,
            }
        }
    }

    /// Reads up to the delimiter. Implementations differ on whether it ends the text inside brackets.
    fn text(&mut self, mark: char) -> bool {
        let mut brackets = false;
        while let Some(c) = self.next() {
            match c {
                '\\' => drop(self.next()),
                c if c == mark => return !brackets,
                '[' => brackets = true,
                ']' => brackets = false,
                _ => {}
            }
        }
        false
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.0.chars();
        let next = chars.next();
        self.0 = chars.as_str();
        next
    }

    fn skip(&mut self, skips: impl Fn(char) -> bool) {
        self.0 = self.0.trim_start_matches(skips);
    }

    fn is_at_end(&self) -> bool {
        self.0.is_empty() || self.0.starts_with([';', '\n', '}'])
    }
}

/// Returns whether an `awk` script contains nothing that could run commands or write files.
pub(super) fn is_plain_awk(args: &[Word]) -> bool {
    args.iter().all(|arg| {
        arg.known().is_some_and(|arg| {
            let option = arg.len() > 1 && arg.starts_with('-');
            !arg.contains(['|', '>', '@', '\\']) && !arg.contains("system") && (!option || arg.starts_with("-F"))
        })
    })
}
