// What all rooms of the page share.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Engine } from "./engine";
import type { Facts } from "./facts";
import type { Sampling } from "./sampling";
import type { Strings } from "./strings";
import type { Picked } from "./sums";
import type { Tokenizer } from "./tokenizer";

export interface State {
  text: string;
  at: number; // position looked at
  layer: number;
  head: number;
  off: ReadonlySet<string>;
  sampling: Sampling;
  picked: Picked | null;
  language: "en" | "de";
  stop: number | null;
}

export interface Shared {
  facts: Facts;
  engine: Engine;
  tokenizer: Tokenizer;
  s: Strings;
  state: State;
  set: (change: Partial<State>) => void;
  /** Changes when what is drawn has to be drawn anew in other colours. */
  theme: number;
  /** Logits (V) after the position looked at of the model whole, where something is off. */
  whole: Float32Array | null;
  name: (t: number) => string;
  toggle: (part: string) => void;
}

export const Context = createContext<Shared>(null as unknown as Shared);
export const useShared = (): Shared => useContext(Context);

/** b0.h1 in words. */
export function partName(part: string, s: Strings): string {
  const [, layer, what] = /^b(\d+)\.(.+)$/.exec(part) ?? [];
  if (!what) return part === "counts" ? s.counts : s.positions;
  const inner = what === "attention" ? s.attention : what === "feed_forward" ? s.feedForward : s.head.replace("{h}", what.slice(1));
  return `${s.block.replace("{l}", layer)}, ${inner}`;
}
