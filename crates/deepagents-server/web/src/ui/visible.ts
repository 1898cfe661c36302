/** Makes invisible characters visible: bidirectional controls, zero-width and control characters. */

const UNSEEN = new RegExp(
  [
    // Joiners are legitimate in joined emoji and in scripts that use them.
    "(?<=[\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\uFE0F])\\u200D(?=\\p{Extended_Pictographic})",
    "(?<=[\\p{Script=Arabic}\\p{M}])[\\u200C\\u200D](?=\\p{L})",
    "(?<=\\p{Emoji})\\uFE0F",
    "\\r(?=\\n)",
    "([\\p{Cf}\\p{Zl}\\p{Zp}\\u034F\\u115F\\u1160\\u17B4\\u17B5\\u180B-\\u180F\\u3164\\uFFA0\\uFE00-\\uFE0F\\u{E0100}-\\u{E01EF}]|(?![\\n\\t])\\p{Cc})",
  ].join("|"),
  "gu",
);

/** Replaces such characters by their code points, as in `\u{202E}`. */
export const visible = (text: string): string =>
  text.replace(UNSEEN, (found: string, unseen?: string) =>
    unseen === undefined ? found : `\\u{${unseen.codePointAt(0)!.toString(16).toUpperCase()}}`,
  );

/** Whether a text has no visible characters. */
export const isBlank = (text: string): boolean => !text.replace(UNSEEN, (found: string, unseen?: string) => (unseen ? "" : found)).trim();
