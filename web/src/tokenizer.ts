// Text to ids and back, as octavo/tokenizers/ does.
import type { TokenizerFacts } from "./facts";

export interface Encoded {
  ids: number[];
  unknown: string[]; // what the vocabulary lacks, and has no token for
}

// Unicode's white space, which is not quite JavaScript's \s.
const SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const PIECES = `'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^${SPACE}\\p{L}\\p{N}]+|[${SPACE}]+(?![^${SPACE}])|[${SPACE}]+`;

// See octavo/corpus/words.py.
const MARKS =
  "!-\\/:-@\\[-`{-~\\u00a1-\\u00a9\\u00ab-\\u00b1\\u00b4\\u00b6-\\u00b8\\u00bb\\u00bf\\u00d7\\u00f7" +
  "\\u2010-\\u2027\\u2030-\\u205e\\u20a0-\\u20cf" +
  "\\u3001-\\u3003\\u3008-\\u301f\\uff01-\\uff0f\\uff1a-\\uff20\\uff3b-\\uff40\\uff5b-\\uff65";
const BLANK = `${SPACE}\\x1c-\\x1f`; // Python's white space
const LETTERS = `[^${BLANK}${MARKS}]+`;
const WORD = `${LETTERS}(?:(?:['’‐‑-]|(?<=[0-9])[.,:](?=[0-9]))${LETTERS})*`;
const CLOSING = new Set(".,?!;:)]}”’»…%°、。〉》」』】！），．：；？");
const OPENING = new Set("([{“‘«„‚¿¡$£€#@`〈《「『【（");
const PAIRED = new Set("\"'_");


export class Tokenizer {
  private ids = new Map<string, number>();
  private pairs = new Map<string, [number, number]>(); // "left right" → rank, id

  constructor(readonly facts: TokenizerFacts) {
    const { kind } = facts;
    if (kind === "char" || kind === "byte") [...(facts.characters ?? "")].forEach((c, i) => this.ids.set(c, kind === "byte" ? 256 + i : i));
    if (kind === "bpe" || kind === "gpt2") facts.bytes!.forEach((bytes, id) => bytes && this.ids.set(bytes, id));
    facts.merges?.forEach(([left, right, id], rank) => this.pairs.set(`${left} ${right}`, [rank, id]));
    if (kind === "word") facts.words!.forEach((word, i) => this.ids.set(word, i + 2 + (facts.unknown === null ? 0 : 1)));
    facts.symbols?.forEach((name, id) => this.ids.set(name, id));
  }

  /** A token for the eye, its spaces too. */
  name(id: number): string {
    return (this.facts.names[id] ?? `#${id}`).replace(/ /g, "␣");
  }

  encode(text: string): Encoded {
    const found: Encoded = { ids: [], unknown: [] };
    const put = (piece: string, id: number | undefined) => {
      if (id !== undefined) found.ids.push(id);
      else if (this.facts.unknown !== null) found.ids.push(this.facts.unknown);
      else found.unknown.push(piece);
    };
    switch (this.facts.kind) {
      case "char":
        for (const c of text) put(c, this.ids.get(c));
        break;
      case "byte":
        for (const c of text) {
          const own = this.ids.get(c);
          if (own !== undefined) found.ids.push(own);
          else found.ids.push(...new TextEncoder().encode(c));
        }
        break;
      case "bpe":
      case "gpt2":
        for (const [piece] of text.matchAll(new RegExp(PIECES, "gu"))) found.ids.push(...this.merged(piece));
        break;
      case "word": {
        const pattern = `${WORD}|<unk>|${this.facts.lines === "keep" ? "\\n|" : ""}[${MARKS}]`;
        for (const [word] of text.matchAll(new RegExp(pattern, "gu"))) {
          const own = this.ids.get(word);
          put(word, own === undefined && this.facts.lowercase ? this.ids.get(word.toLowerCase()) : own);
        }
        break;
      }
      case "symbols": {
        const words = this.facts.spaced ? text.split(/\s+/u).filter(Boolean) : [...text];
        for (const word of words) put(word, this.facts.symbols ? this.ids.get(word) : this.numbered(word));
      }
    }
    return found;
  }

  private numbered(word: string): number | undefined {
    return /^[0-9]{1,10}$/.test(word) && Number(word) < this.facts.size! ? Number(word) : undefined;
  }

  /** A word's bytes, whose neighbours are merged, the first merge that was learned first. */
  private merged(piece: string): number[] {
    const ids = Array.from(new TextEncoder().encode(piece), (byte) => this.ids.get(String.fromCharCode(byte))!);
    for (;;) {
      let best: [number, number] | null = null, at = -1;
      for (let i = 0; i + 1 < ids.length; i++) {
        const pair = this.pair(ids[i], ids[i + 1]);
        if (pair && (!best || pair[0] < best[0])) [best, at] = [pair, i];
      }
      if (!best) return ids;
      ids.splice(at, 2, best[1]);
    }
  }

  private pair(left: number, right: number): [number, number] | undefined {
    if (this.facts.merges) return this.pairs.get(`${left} ${right}`);
    const id = this.ids.get(this.facts.bytes![left] + this.facts.bytes![right]);
    return id === undefined ? undefined : [id, id];
  }

  decode(ids: number[]): string {
    const { kind } = this.facts, special = new Set(this.facts.special), plain = ids.filter((id) => !special.has(id));
    if (kind === "char") return plain.map((id) => (id === this.facts.unknown ? "<unk>" : [...this.facts.characters!][id])).join("");
    if (kind === "word") return this.spaced(ids);
    if (kind === "symbols") return plain.map((id) => this.facts.symbols?.[id] ?? String(id)).join(this.facts.spaced ? " " : "");
    const characters = [...(this.facts.characters ?? "")];
    const bytes = plain.flatMap((id) => {
      if (kind !== "byte") return Array.from(this.facts.bytes![id], (c) => c.charCodeAt(0));
      return id < 256 ? [id] : Array.from(new TextEncoder().encode(characters[id - 256]));
    });
    return new TextDecoder().decode(Uint8Array.from(bytes));
  }

  /** Words with the spaces that the tokenizer would set. */
  private spaced(ids: number[]): string {
    let text = "", glued = true, last = "";
    const open = new Set<string>();
    for (const id of ids) {
      if (this.facts.special.includes(id)) {
        open.clear();
        continue;
      }
      const token = id === this.facts.unknown ? "<unk>" : this.facts.words![id - 2 - (this.facts.unknown === null ? 0 : 1)];
      let before = CLOSING.has(token) || (token === "-" && last === "-"), after = OPENING.has(token);
      if (PAIRED.has(token)) {
        before = open.has(token);
        after = !before;
        if (before) open.delete(token);
        else open.add(token);
      } else if (token === "\n") {
        open.clear();
        before = after = true;
      }
      text += (glued || before ? "" : " ") + token;
      [glued, last] = [after, token];
    }
    return text;
  }
}

/** A character for the eye: control characters and what turns the direction of a line by their numbers. */
export function visible(text: string): string {
  return [...text].map((c) => (/[\p{C}\p{Zl}\p{Zp}]/u.test(c) ? `U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}` : c)).join("");
}

