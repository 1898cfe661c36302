/** JSON whose numbers keep their exact digits, even if a JavaScript number cannot represent them. */

/** A number kept as its digits, and serialised as it was read. */
export class Exact {
  constructor(readonly digits: string) {}

  toString(): string {
    return this.digits;
  }

  toJSON(): unknown {
    const raw = (JSON as unknown as { rawJSON?: (text: string) => unknown }).rawJSON;
    return raw ? raw(this.digits) : Number(this.digits);
  }
}

/** Integers of this many digits may lose precision as JavaScript numbers. */
const LONG = /\d{16}/;

/** Returns a JavaScript number if it represents the text exactly. */
export function number(text: string): number | Exact {
  const value = Number(text);
  const isWhole = /^-?\d+$/.test(text);
  return isWhole && !Number.isSafeInteger(value) ? new Exact(text) : value;
}

/** Parses JSON. Only text with long numbers takes the slower path. */
export function parse(text: string): unknown {
  if (!LONG.test(text)) return JSON.parse(text);
  // The reviver's `context` argument is newer than the compiler's types.
  const keep = (_key: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" && context?.source ? number(context.source) : value;
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown);
}
