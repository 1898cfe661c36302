/** Parsing of Markdown in a time that does not grow with the square of the text. */

import { Lexer, type Token } from "marked";

/** Characters of a mail address before its `@`. */
const OF_ADDRESS = /[\w.!#$%&'*+/=?^`{|}~-]/;
/** Maximum length of what stands before the `@` of a mail address, and of a web address, that become links. */
const LONGEST_MAIL = 64;
const LONGEST_LINK = 2000;

/** Whether looking for addresses in a text would take long: it goes back over what may belong to one at each character. */
export function isHard(text: string): boolean {
  for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", at + 1)) {
    let start = at;
    while (start > 0 && at - start <= LONGEST_MAIL && OF_ADDRESS.test(text[start - 1]!)) start -= 1;
    if (at - start > LONGEST_MAIL) return true;
  }
  for (const [word] of text.matchAll(/\S+/g)) {
    if (word.length > LONGEST_LINK && /:\/\/|www\./.test(word)) return true;
  }
  return false;
}

/** Leaves a paragraph, or another piece of text, as it is written if it is hard to read. */
class PatientLexer extends Lexer {
  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    if (!isHard(text)) return super.inlineTokens(text, tokens);
    tokens.push({ type: "text", raw: text, text, escaped: false });
    return tokens;
  }
}

export const lex = (text: string): Token[] => new PatientLexer({ gfm: true, breaks: false }).lex(text);
