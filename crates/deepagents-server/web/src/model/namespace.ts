/**
 * The namespaces of sub-agents in streams.
 *
 * A sub-agent is located by steps such as `task:3.0`: the first call of its parent's fourth turn. Its namespace has one
 * segment per step, `tools:UUID`, where the UUID is the version 5 UUID of the thread and the steps so far.
 *
 * The page knows the call but not the turn, so it tries turns until one yields a namespace that was streamed. A
 * transcript is therefore never shown at the wrong call.
 */

const OID = "6ba7b812-9dad-11d1-80b4-00c04fd430c8";

/** Maximum number of a parent's turns to try. Turns discarded by a rewind count, too. */
const MOST_TURNS = 5000;

export interface Place {
  /** The steps from the outermost sub-agent down. */
  steps: string[];
  /** The namespace as it appears in events. */
  namespace: string;
}

export const ROOT: Place = { steps: [], namespace: "" };

function below(thread: string, parent: Place, step: string): Place {
  const steps = [...parent.steps, step];
  const segment = `tools:${uuid5([thread, ...steps].join("\u001f"))}`;
  return { steps, namespace: parent.namespace ? `${parent.namespace}|${segment}` : segment };
}

/**
 * Finds the sub-agent that a call started, among the streamed namespaces. `index` is the position of the call in its
 * turn, and `from` the earliest possible turn.
 */
export function locate(thread: string, parent: Place, index: number, from: number, streamed: ReadonlySet<string>): Place | undefined {
  for (let turn = from; turn < from + MOST_TURNS; turn++) {
    const place = below(thread, parent, `task:${turn}.${index}`);
    if (streamed.has(place.namespace)) return place;
  }
  return undefined;
}

function uuid5(name: string): string {
  const space = Uint8Array.from(OID.replaceAll("-", "").match(/../g) ?? [], (byte) => parseInt(byte, 16));
  const text = new TextEncoder().encode(name);
  const bytes = new Uint8Array(space.length + text.length);
  bytes.set(space);
  bytes.set(text, space.length);
  const hash = sha1(bytes).slice(0, 16);
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x50;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  const hex = [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** SHA-1. The browser's implementation is unavailable on pages without TLS. */
function sha1(input: Uint8Array): Uint8Array {
  const length = ((input.length + 8) >> 6) * 16 + 16;
  const words = new Uint32Array(length);
  input.forEach((byte, at) => (words[at >> 2]! |= byte << (24 - (at & 3) * 8)));
  words[input.length >> 2]! |= 0x80 << (24 - (input.length & 3) * 8);
  words[length - 1] = input.length * 8;
  const state = new Uint32Array([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0]);
  const rotate = (value: number, by: number) => (value << by) | (value >>> (32 - by));
  const round = new Uint32Array(80);
  for (let block = 0; block < length; block += 16) {
    let [a, b, c, d, e] = state as unknown as [number, number, number, number, number];
    for (let i = 0; i < 80; i++) {
      round[i] = i < 16 ? words[block + i]! : rotate(round[i - 3]! ^ round[i - 8]! ^ round[i - 14]! ^ round[i - 16]!, 1);
      const [f, k] =
        i < 20 ? [(b & c) | (~b & d), 0x5a827999]
        : i < 40 ? [b ^ c ^ d, 0x6ed9eba1]
        : i < 60 ? [(b & c) | (b & d) | (c & d), 0x8f1bbcdc]
        : [b ^ c ^ d, 0xca62c1d6];
      const next = (rotate(a, 5) + f + e + k + round[i]!) >>> 0;
      [e, d, c, b, a] = [d, c, rotate(b, 30) >>> 0, a, next];
    }
    [a, b, c, d, e].forEach((value, at) => (state[at]! += value));
  }
  return Uint8Array.from({ length: 20 }, (_, at) => state[at >> 2]! >>> (24 - (at & 3) * 8));
}
