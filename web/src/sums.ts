// One number of the model and the sum that made it.
import type { Engine } from "./engine";
import { say, type Strings } from "./strings";
import { short } from "./format";

export type Picked =
  | { kind: "q" | "k" | "v" | "out"; t: number; d: number }
  | { kind: "score" | "weight"; t: number; s: number }
  | { kind: "hidden"; t: number; f: number }
  | { kind: "logit"; t: number; v: number };

export interface Sum {
  title: string;
  formula: string;
  terms: { label: string; a: number; b: number | null; product: number }[];
  after: string[];
  value: number;
}

/** Where a head's queries, keys and values stand in a row of qkv. */
export function places(engine: Engine, head: number): { q: number; k: number; v: number; wide: number } {
  const { heads: H, kv_heads: G, head_width: D } = engine.config, group = Math.floor(head / (H / G));
  return { q: head * D, k: (H + group) * D, v: (H + G + group) * D, wide: (H + 2 * G) * D };
}

function products(x: Float32Array, w: Float32Array, name: string): Sum["terms"] {
  return Array.from(x, (a, i) => ({ label: `${name}=${i}`, a, b: w[i], product: a * w[i] }));
}

const total = (terms: Sum["terms"]): number => terms.reduce((sum, term) => sum + term.product, 0);

export function sumOf(engine: Engine, picked: Picked, layer: number, head: number, name: (t: number) => string, s: Strings): Sum {
  const { config } = engine, { width: C, head_width: D, context: T } = config, block = engine.blocks[layer];
  const at = places(engine, head), { t } = picked, where = `l=${layer}, h=${head}, t=${t}`;
  const row = (array: Float32Array, size: number, i = t) => array.subarray(i * size, (i + 1) * size);
  const biased = (sum: number, bias: number | undefined, after: string[]) => {
    if (bias) after.push(say(s.plusBias, { bias: short(bias) }));
    after.push(say(s.equals, { value: short(sum + (bias ?? 0)) }));
    return sum + (bias ?? 0);
  };
  if (picked.kind === "q" || picked.kind === "k" || picked.kind === "v") {
    const place = at[picked.kind] + picked.d, prefix = `blocks.${layer}.attention.qkv`;
    const terms = products(row(block.attentionIn, C), row(engine.weight(`${prefix}.weight`)!, C, place), "c"), after: string[] = [];
    biased(total(terms), engine.weight(`${prefix}.bias`)?.[place], after);
    const value = block.qkv[t * at.wide + place], normed = config.qk_norm_eps !== null, turns = Boolean(engine.weight("positions.cos"));
    if (picked.kind !== "v" && (normed || turns)) after.push(say(normed && turns ? s.normedTurned : normed ? s.normedOnly : s.turnedOnly, { value: short(value) }));
    return { title: `${picked.kind}[${where}, d=${picked.d}]`, formula: `Σ_c x[t,c] · W_${picked.kind}[c,d]`, terms, after, value };
  }
  if (picked.kind === "score" || picked.kind === "weight") {
    const q = block.qkv.subarray(t * at.wide + at.q, t * at.wide + at.q + D);
    const score = (i: number) => {
      const k = block.qkv.subarray(i * at.wide + at.k, i * at.wide + at.k + D);
      return { terms: products(q, k, "d"), value: total(products(q, k, "d")) * config.scale };
    };
    if (picked.kind === "score") {
      const { terms, value } = score(picked.s);
      const after = [say(s.times, { scale: short(config.scale) }), say(s.equals, { value: short(value) })];
      return { title: `score[${where}, s=${picked.s}]`, formula: "scale · Σ_d q[t,d] · k[s,d]", terms, after, value };
    }
    const terms = Array.from({ length: t + 1 }, (_, i) => ({ label: name(i), a: score(i).value, b: null, product: Math.exp(score(i).value) }));
    const value = block.weights[(head * T + t) * T + picked.s];
    const after = picked.s > t ? [s.masked] : [say(s.softmaxOf, { score: short(terms[picked.s].a), n: t + 1, value: short(value) })];
    return { title: `weight[${where}, s=${picked.s}]`, formula: "e^score[t,s] / Σ_s e^score[t,s]", terms, after, value };
  }
  if (picked.kind === "out") {
    const terms = Array.from({ length: t + 1 }, (_, i) => {
      const a = block.weights[(head * T + t) * T + i], b = block.qkv[i * at.wide + at.v + picked.d];
      return { label: name(i), a, b, product: a * b };
    });
    const value = block.joined[t * config.heads * D + head * D + picked.d];
    return { title: `out[${where}, d=${picked.d}]`, formula: "Σ_s weight[t,s] · v[s,d]", terms, after: [say(s.equals, { value: short(value) })], value };
  }
  if (picked.kind === "hidden") {
    const gated = config.feed_forward === "swiglu", prefix = `blocks.${layer}.feed_forward.${gated ? "gate_up_proj" : "up_proj"}`;
    const terms = products(row(block.forwardIn, C), row(engine.weight(`${prefix}.weight`)!, C, picked.f), "c"), after: string[] = [];
    const before = biased(total(terms), engine.weight(`${prefix}.bias`)?.[picked.f], after), value = row(block.hidden, config.features)[picked.f];
    const up = gated ? row(block.up, 2 * config.features)[config.features + picked.f] : 0;
    after.push(gated ? say(s.gated, { gate: short(before), up: short(up), value: short(value) }) : say(s.activated, { kind: config.feed_forward, before: short(before), value: short(value) }));
    return { title: `feature[l=${layer}, t=${t}, f=${picked.f}]`, formula: "Σ_c x[t,c] · W_up[c,f]", terms, after, value };
  }
  const { v } = picked as Extract<Picked, { kind: "logit" }>;
  const terms = products(row(engine.final, C), row(engine.head, C, v), "c"), after: string[] = [];
  const before = biased(total(terms), engine.weight("lm_head.bias")?.[v], after), value = engine.logits[t * config.vocab + v];
  if (config.softcap !== null) after.push(say(s.activated, { kind: `${short(config.softcap)} tanh`, before: short(before), value: short(value) }));
  return { title: `logit[t=${t}, v=${v}]`, formula: "Σ_c x[t,c] · W_head[c,v]", terms, after, value };
}
