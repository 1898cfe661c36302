/** JSON whose numbers stay what they are, also where a number of JavaScript could not hold them. */

/** A number by its digits. It is written as it was read. */
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

/** Whole numbers from here on may be others as numbers of JavaScript. */
const LONG = /\d{16}/;

/** A number of JavaScript where it says all that was written. */
export function number(text: string): number | Exact {
  const value = Number(text);
  const isWhole = /^-?\d+$/.test(text);
  return isWhole && !Number.isSafeInteger(value) ? new Exact(text) : value;
}

/** Reads JSON. Only what has long numbers is looked at twice, as that takes its time. */
export function parse(text: string): unknown {
  if (!LONG.test(text)) return JSON.parse(text);
  // What the browser says of the place is newer than what the compiler knows of.
  const keep = (_key: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" && context?.source ? number(context.source) : value;
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown);
}
