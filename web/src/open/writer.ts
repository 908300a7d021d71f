// Texts as a tree: each branch goes on from a place in another one, or from a beginning. A branch is what it was written
// with (where it leaves, what it takes there, a seed, how it chose), and the same of these writes the same text again, so
// the address of the page holds the whole tree.
import { ask, events } from "./api";
import type { Sampling } from "../sampling";

export type Best = [id: number, text: string, log: number];

export interface Token {
  id: number;
  text: string;
  log: number | null;
  best: Best[];
  /** The network's weight, and log-probabilities of the network and of counting alone. */
  share: [number, number, number] | null;
}

export interface Branch {
  key: number;
  parent: Branch | null;
  /** Where it leaves its parent: a place in the parent's whole text; of a beginning 0. */
  at: number;
  /** The token that it takes there; null: it only goes on. */
  take: number | null;
  prompt: string; // of a beginning
  seed: number;
  length: number;
  sampling: Sampling;
  model: string;
  own: Token[];
  /** Of a beginning: so many of its tokens are the prompt's, and so many of these stand for no text. */
  given: number;
  implicit: number;
  cut: number;
  state: "waiting" | "writing" | "done" | "failed";
  end: string;
  notice: string | null;
  trouble: unknown;
}

type Row = [number, string, number | null, Best[]];
interface Told { prompt?: Row[]; implicit?: number; cut?: number; tokens?: Row[]; end?: string; notice?: string | null; shares?: [number, number, number][]; first?: number; error?: { message: string } }

const token = ([id, text, log, best]: Row): Token => ({ id, text, log, best, share: null });

/** All tokens of a branch, its parents' first. */
export function whole(branch: Branch): Token[] {
  return branch.parent ? [...whole(branch.parent).slice(0, branch.at), ...branch.own] : branch.own;
}

export const textOf = (tokens: Token[]): string => tokens.map(({ text }) => text).join("");

/** The beginning that a branch goes back to. */
export const rootOf = (branch: Branch): Branch => (branch.parent ? rootOf(branch.parent) : branch);

/** The text that was written, without the beginning that was given. */
export const answerOf = (branch: Branch): string => textOf(whole(branch).slice(rootOf(branch).given));

export const newSeed = (): number => Math.floor(Math.random() * 2 ** 32);

/** What a request says of how tokens are chosen. Off is said, too: else the run's recipe would decide. */
export const asSampling = (chosen: Sampling): Record<string, number> => ({
  temperature: chosen.temperature, top_k: chosen.top_k ?? 2 ** 31 - 1, top_p: chosen.top_p ?? 1, ...(chosen.min_p ? { min_p: chosen.min_p } : {}),
});

export class Writer {
  branches: Branch[] = [];
  private keys = 0;
  private readonly stops = new Map<number, AbortController>();

  constructor(private readonly changed: () => void) {}

  find(key: number): Branch | undefined {
    return this.branches.find((each) => each.key === key);
  }

  add(made: Pick<Branch, "parent" | "at" | "take" | "prompt" | "seed" | "length" | "sampling" | "model">): Branch {
    const branch: Branch = { ...made, key: this.keys++, own: [], given: 0, implicit: 0, cut: 0, state: "waiting", end: "", notice: null, trouble: null };
    this.branches = [...this.branches, branch];
    return branch;
  }

  clear(): void {
    this.stops.forEach((each) => each.abort());
    this.branches = [];
    this.keys = 0;
    this.changed();
  }

  stop(branch: Branch): void {
    this.stops.get(branch.key)?.abort();
  }

  /** Let a branch be written. What it goes on from must be there. */
  async write(branch: Branch): Promise<void> {
    const stop = new AbortController();
    this.stops.set(branch.key, stop);
    branch.state = "writing";
    branch.own = [];
    this.changed();
    const before = branch.parent ? whole(branch.parent).slice(0, branch.at).map(({ id }) => id) : null;
    const ids = before && branch.take !== null ? [...before, branch.take] : before;
    try {
      const response = await ask("/api/write", {
        body: { model: branch.model, prompt: ids ?? branch.prompt, tokens: branch.length, seed: branch.seed, best: 12, ...asSampling(branch.sampling) }, signal: stop.signal,
      });
      let frame = 0;
      const soon = () => (frame ||= requestAnimationFrame(() => {
        frame = 0;
        this.changed();
      }));
      for await (const told of events<Told>(response)) {
        if (told.error) throw new Error(told.error.message);
        if (told.prompt) {
          const rows = told.prompt.map(token);
          branch.cut = told.cut ?? 0;
          if (!branch.parent) {
            branch.own = rows;
            branch.given = rows.length;
            branch.implicit = told.implicit ?? 0;
          } else if (branch.take !== null) branch.own = [rows[rows.length - 1]];
        }
        if (told.tokens) branch.own = [...branch.own, ...told.tokens.map(token)];
        if (told.end !== undefined) {
          branch.end = told.end;
          branch.notice = told.notice ?? null;
          if (told.shares && told.first !== undefined) {
            // Of all tokens that the model saw, from one on; those of this branch are the last ones.
            const shares = told.shares, own = branch.own, skip = shares.length - own.length;
            branch.own = own.map((each, n) => ({ ...each, share: shares[skip + n] ?? null }));
          }
        }
        soon();
      }
      branch.state = "done";
    } catch (error) {
      if (stop.signal.aborted) {
        branch.state = "done";
        branch.end ||= "length";
      } else {
        branch.state = "failed";
        branch.trouble = error;
      }
    }
    this.stops.delete(branch.key);
    this.changed();
  }
}

const number = (text: string): number | null => (text === "" ? null : Number(text));

/** A branch for the address: parent (or none), place, token, seed, length, temperature, top-k, top-p, min-p. */
export function spelled(branches: Branch[], prompts: string[]): string[] {
  const place = new Map(branches.map((each, n) => [each, n]));
  return branches.map((each) => {
    const { temperature, top_k, top_p, min_p } = each.sampling;
    return [each.parent ? place.get(each.parent) : "", each.parent ? each.at : prompts.indexOf(each.prompt), each.take ?? "", each.seed, each.own.length && each.state === "done" ? written(each) : each.length, temperature, top_k ?? "", top_p ?? "", min_p ?? ""].join("_");
  });
}

/** Tokens that were written in a branch: one that was stopped is written again as far as it came. */
const written = (branch: Branch): number => Math.max(1, Math.min(branch.length, branch.own.length - (branch.parent ? Number(branch.take !== null) : branch.given)));

/** The same back again; what cannot be read is left out. */
export function unspelled(words: string[], prompts: string[], model: string, add: Writer["add"]): Branch[] {
  const found: Branch[] = [];
  for (const word of words) {
    const [parent, at, take, seed, length, temperature, top_k, top_p, min_p] = word.split("_").map(number);
    if ([seed, length, temperature].some((each) => each === null || each === undefined || !Number.isFinite(each))) continue;
    const above = parent === null ? null : found[parent];
    if (above === undefined || at === null || !Number.isInteger(at) || at < 0 || (!above && prompts[at] === undefined)) continue;
    found.push(add({
      parent: above, at: above ? at : 0, take: take ?? null, prompt: above ? "" : prompts[at], seed: seed!, length: Math.max(1, Math.min(4000, length!)), model,
      sampling: { temperature: temperature!, top_k: top_k ?? null, top_p: top_p ?? null, min_p: min_p ?? null },
    }));
  }
  return found;
}
