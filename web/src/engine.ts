// The forward pass, with everything that it computes kept. Reads top to bottom, as octavo/model/gpt.py does.
// T positions, C width, H heads, G key/value heads, D head width, F features, V vocabulary.
import { Arena } from "./arena";
import { Counts } from "./counts";
import type { Config, Facts } from "./facts";
import { integers, sizeOf, unpack } from "./unpack";

export interface Block {
  attentionIn: Float32Array; // (T, C)
  qkv: Float32Array; // (T, (H+2G)·D), queries and keys normed and turned
  weights: Float32Array; // (H, T, T)
  joined: Float32Array; // (T, H·D)
  attention: Float32Array; // (T, C)
  middle: Float32Array; // (T, C), the stream after attention
  forwardIn: Float32Array; // (T, C)
  up: Float32Array; // (T, F), or of a gated one (T, 2F)
  hidden: Float32Array; // (T, F)
  forward: Float32Array; // (T, C)
  out: Float32Array; // (T, C), the stream after the block
}

const SQRT_2 = Math.sqrt(2);

/** Error function, to 1e-7 (Abramowitz and Stegun 1964, 7.1.26). */
function erf(x: number): number {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const y = 1 - poly * Math.exp(-x * x);
  return x < 0 ? -y : y;
}

const ACTIVATIONS: Record<string, (x: number) => number> = {
  relu: (x) => Math.max(0, x),
  relu2: (x) => Math.max(0, x) ** 2,
  gelu: (x) => 0.5 * x * (1 + erf(x / SQRT_2)),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};

const STEP = 1000003n, MIX = 0x9e3779b97f4a7c15n;

export class Engine {
  readonly config: Config;
  readonly arena = new Arena();
  ids: number[] = [];
  off = new Set<string>();
  start!: Float32Array; // (T, C), the stream before the first block
  blocks: Block[] = [];
  final!: Float32Array; // (T, C)
  logits!: Float32Array; // (T, V), the network's
  private mixed: Float32Array | null = null; // (T, V), with counts beside it
  private counts: Counts | null = null;
  private earlier: number[] = []; // ids before these, for counts alone
  private spare!: Float32Array; // (C)

  private constructor(readonly facts: Facts) {
    this.config = facts.config;
  }

  static async open(facts: Facts, raw: ArrayBuffer, native = true): Promise<Engine> {
    const engine = new Engine(facts), { arena, config } = engine;
    const weights = facts.tensors.filter((entry) => !/^u?int(16|32)$|^uint8$/.test(entry.type));
    for (const entry of weights) arena.reserve(entry.name, sizeOf(entry));
    const T = config.context, C = config.width, D = config.head_width, F = config.features, inner = config.heads * D;
    const gated = config.feed_forward === "swiglu";
    const rows: [string, number][] = [
      ["attentionIn", C], ["qkv", (config.heads + 2 * config.kv_heads) * D], ["weights", config.heads * T],
      ["joined", inner], ["attention", C], ["middle", C], ["forwardIn", C], ["up", gated ? 2 * F : F], ["hidden", F],
      ["forward", C], ["out", C],
    ];
    for (let l = 0; l < config.layers; l++) for (const [name, size] of rows) arena.reserve(`#${l}.${name}`, T * size);
    for (const [name, size] of [["start", T * C], ["final", T * C], ["logits", T * config.vocab], ["spare", C]] as const)
      arena.reserve(`#${name}`, size);
    await arena.open(native);
    for (const entry of weights) unpack(entry, raw, arena.get(entry.name));
    for (let l = 0; l < config.layers; l++)
      engine.blocks.push(Object.fromEntries(rows.map(([name]) => [name, arena.get(`#${l}.${name}`)])) as unknown as Block);
    const text = facts.tensors.find((entry) => entry.name === "counts.tokens");
    if (config.counts && text) {
      const { orders, recent } = config.counts;
      engine.counts = new Counts(integers(text, raw), config.vocab, orders, recent, (name) => arena.find(name));
      engine.mixed = new Float32Array(T * config.vocab);
    }
    for (const name of ["start", "final", "logits", "spare"] as const) engine[name as "start"] = arena.get(`#${name}`);
    return engine;
  }

  get length(): number {
    return this.ids.length;
  }

  weight(name: string): Float32Array | null {
    return this.arena.find(name);
  }

  get embedding(): Float32Array {
    return this.arena.get("embedding.weight");
  }

  get head(): Float32Array {
    return this.config.tied ? this.embedding : this.arena.get("lm_head.weight");
  }

  /** Read ids (at most T), which follow `earlier` ones. What begins as the last ones did, with the same parts switched
   * off, is not computed again. */
  run(ids: number[], off: Set<string> = this.off, earlier: number[] = []): void {
    const same = off.size === this.off.size && [...off].every((part) => this.off.has(part)) && earlier.join() === this.earlier.join();
    let known = 0;
    if (same) while (known < ids.length && known < this.ids.length && ids[known] === this.ids[known]) known++;
    this.ids = ids.slice();
    this.off = new Set(off);
    this.earlier = earlier.slice();
    if (known < ids.length) this.compute(known, ids.length);
  }

  private compute(from: number, to: number): void {
    this.embed(from, to);
    let x = this.start;
    this.blocks.forEach((block, l) => {
      this.attend(block, l, x, from, to);
      this.feed(block, l, from, to);
      x = block.out;
    });
    this.norm("norm", x, this.final, from, to);
    this.project("lm_head", this.final, this.logits, from, to, this.config.width, this.config.vocab, this.head);
    const cap = this.config.softcap;
    if (cap !== null) {
      const end = to * this.config.vocab;
      for (let i = from * this.config.vocab; i < end; i++) this.logits[i] = cap * Math.tanh(this.logits[i] / cap);
    }
    this.count(from, to);
  }

  /** Mix what was counted into the predictions. */
  private count(from: number, to: number): void {
    if (!this.counts || !this.mixed) return;
    const { vocab: V, width: C } = this.config, text = [...this.earlier, ...this.ids], places = this.counts.places(text), before = this.earlier.length;
    for (let t = from; t < to; t++) {
      const logits = this.logits.subarray(t * V, (t + 1) * V), into = this.mixed.subarray(t * V, (t + 1) * V);
      if (this.off.has("counts")) into.set(logits);
      else this.counts.mix(logits, this.final.subarray(t * C, (t + 1) * C), places[before + t], text.slice(0, before + t + 1), into);
    }
  }

  /** The place in the tables of n-grams of each of the last tokens together. */
  private rows(at: number): number[] {
    const { before, buckets } = this.config.ngrams!, found: number[] = [];
    let hashed = BigInt(this.ids[at] + 1);
    for (let back = 1; back <= before; back++) {
      const earlier = at - back >= 0 ? BigInt(this.ids[at - back] + 1) : 0n;
      hashed = BigInt.asIntN(64, hashed * STEP + earlier);
      const mixed = BigInt.asIntN(64, hashed * MIX) >> 32n, size = BigInt(buckets);
      found.push(Number(((mixed % size) + size) % size) + (back - 1) * buckets);
    }
    return found;
  }

  /** What is added up to the vector (C) of a position: the token's own, n-grams', the position's. */
  parts(at: number): { token: Float32Array; ngrams: Float32Array[]; position: Float32Array | null } {
    const C = this.config.width, row = (table: Float32Array, i: number) => table.subarray(i * C, (i + 1) * C);
    const tables = this.weight("ngrams.weight"), places = this.weight("positions.weight");
    return {
      token: row(this.embedding, this.ids[at]),
      ngrams: tables && this.config.ngrams ? this.rows(at).map((i) => row(tables, i)) : [],
      position: places && !this.off.has("positions") ? row(places, at) : null,
    };
  }

  private embed(from: number, to: number): void {
    const C = this.config.width;
    for (let t = from; t < to; t++) {
      const { token, ngrams, position } = this.parts(t), x = this.start.subarray(t * C, (t + 1) * C);
      x.set(token);
      for (const added of position ? [...ngrams, position] : ngrams) for (let c = 0; c < C; c++) x[c] += added[c];
    }
    this.norm("embedding_norm", this.start, this.start, from, to);
  }

  private lacks(norm: string): boolean {
    const { norm: own, embedding_norm, final_norm } = this.config;
    return own.kind === "none" || (norm === "embedding_norm" && !embedding_norm) || (norm === "norm" && !final_norm);
  }

  /** One row (C) through a norm of the model. */
  normed(name: string, x: Float32Array, y: Float32Array): void {
    const { kind, eps } = this.config.norm, C = x.length;
    if (this.lacks(name)) return void y.set(x);
    let mean = 0, square = 0;
    if (kind !== "rms") {
      for (let c = 0; c < C; c++) mean += x[c];
      mean /= C;
    }
    for (let c = 0; c < C; c++) square += (x[c] - mean) ** 2;
    const factor = 1 / Math.sqrt(square / C + eps), scale = this.weight(`${name}.weight`), shift = this.weight(`${name}.bias`);
    for (let c = 0; c < C; c++) y[c] = (x[c] - mean) * factor * (scale ? scale[c] : 1) + (shift ? shift[c] : 0);
  }

  private norm(name: string, x: Float32Array, y: Float32Array, from: number, to: number): void {
    const C = this.config.width;
    for (let t = from; t < to; t++) this.normed(name, x.subarray(t * C, t * C + C), y.subarray(t * C, t * C + C));
  }

  private project(
    name: string, x: Float32Array, y: Float32Array, from: number, to: number, into: number, out: number,
    weight = this.arena.get(`${name}.weight`),
  ): void {
    const rows = to - from;
    this.arena.products.linear(x.subarray(from * into, to * into), weight, this.weight(`${name}.bias`), y.subarray(from * out, to * out), rows, into, out);
  }

  private attend(block: Block, l: number, x: Float32Array, from: number, to: number): void {
    const { heads: H, kv_heads: G, head_width: D, width: C, context: T, scale } = this.config;
    const { products } = this.arena, name = `blocks.${l}.attention`, pre = this.config.norm_place === "pre", wide = (H + 2 * G) * D;
    if (pre) this.norm(`blocks.${l}.attention_norm`, x, block.attentionIn, from, to);
    else block.attentionIn.set(x.subarray(from * C, to * C), from * C);
    this.project(`${name}.qkv`, block.attentionIn, block.qkv, from, to, C, wide);
    for (let t = from; t < to; t++) this.turn(name, block.qkv.subarray(t * wide, (t + 1) * wide), t);
    for (let h = 0; h < H; h++) {
      const key = (H + Math.floor(h / (H / G))) * D, value = key + G * D, silent = this.off.has(`b${l}.h${h}`);
      for (let t = from; t < to; t++) {
        const row = block.weights.subarray((h * T + t) * T, (h * T + t) * T + T), q = block.qkv.subarray(t * wide + h * D);
        products.dots(q, block.qkv.subarray(key), row, scale, t + 1, wide, D);
        let highest = -Infinity, sum = 0;
        for (let s = 0; s <= t; s++) if (row[s] > highest) highest = row[s];
        for (let s = 0; s <= t; s++) sum += row[s] = Math.exp(row[s] - highest);
        for (let s = 0; s <= t; s++) row[s] /= sum;
        row.fill(0, t + 1);
        const out = block.joined.subarray((t * H + h) * D, (t * H + h + 1) * D);
        if (silent) out.fill(0);
        else products.weighted(row, block.qkv.subarray(value), out, t + 1, wide, D);
      }
    }
    if (this.weight(`${name}.project.weight`)) this.project(`${name}.project`, block.joined, block.attention, from, to, H * D, C);
    else block.attention.set(block.joined.subarray(from * C, to * C), from * C);
    if (this.off.has(`b${l}.attention`)) block.attention.fill(0, from * C, to * C);
    this.join(x, block.attention, block.middle, from, to);
    if (!pre) this.norm(`blocks.${l}.attention_norm`, block.middle, block.middle, from, to);
  }

  /** Norm the queries and keys of a position, where the model does, and turn them by its angles. */
  private turn(name: string, qkv: Float32Array, t: number): void {
    const { heads: H, kv_heads: G, head_width: D, qk_norm_eps: eps } = this.config;
    const cos = this.off.has("positions") ? null : this.weight("positions.cos"), sin = this.weight("positions.sin");
    const pairs = cos ? cos.length / this.config.context : 0;
    for (let h = 0; h < H + G; h++) {
      const x = qkv.subarray(h * D, h * D + D);
      if (eps !== null) {
        let square = 0;
        for (let d = 0; d < D; d++) square += x[d] * x[d];
        const factor = 1 / Math.sqrt(square / D + eps), scale = this.weight(`${name}.${h < H ? "q" : "k"}_scale`);
        for (let d = 0; d < D; d++) x[d] *= factor * (scale ? scale[d] : 1);
      }
      for (let i = 0; i < pairs; i++) {
        const c = cos![t * pairs + i], s = sin![t * pairs + i], a = x[i], b = x[i + pairs];
        x[i] = a * c - b * s;
        x[i + pairs] = b * c + a * s;
      }
    }
  }

  private join(x: Float32Array, y: Float32Array, out: Float32Array, from: number, to: number): void {
    const C = this.config.width;
    for (let i = from * C; i < to * C; i++) out[i] = this.config.residual ? x[i] + y[i] : y[i];
  }

  private feed(block: Block, l: number, from: number, to: number): void {
    const { width: C, features: F, feed_forward: kind } = this.config, name = `blocks.${l}.feed_forward`;
    if (kind === "none") return void block.out.set(block.middle.subarray(from * C, to * C), from * C);
    const pre = this.config.norm_place === "pre", norm = `blocks.${l}.feed_forward_norm`;
    if (pre) this.norm(norm, block.middle, block.forwardIn, from, to);
    else block.forwardIn.set(block.middle.subarray(from * C, to * C), from * C);
    if (kind === "swiglu") {
      this.project(`${name}.gate_up_proj`, block.forwardIn, block.up, from, to, C, 2 * F);
      for (let t = from; t < to; t++)
        for (let f = 0; f < F; f++) {
          const gate = block.up[t * 2 * F + f];
          block.hidden[t * F + f] = (gate / (1 + Math.exp(-gate))) * block.up[t * 2 * F + F + f];
        }
    } else {
      this.project(`${name}.up_proj`, block.forwardIn, block.up, from, to, C, F);
      const act = ACTIVATIONS[kind];
      for (let i = from * F; i < to * F; i++) block.hidden[i] = act(block.up[i]);
    }
    this.project(`${name}.down_proj`, block.hidden, block.forward, from, to, F, C);
    if (this.off.has(`b${l}.feed_forward`)) block.forward.fill(0, from * C, to * C);
    this.join(block.middle, block.forward, block.out, from, to);
    if (!pre) this.norm(norm, block.out, block.out, from, to);
  }

  /** Logits (V) that the head would make of a stream's row (C): the lens. */
  lens(stream: Float32Array, t: number, into: Float32Array): Float32Array {
    const { width: C, vocab: V, softcap: cap } = this.config;
    this.normed("norm", stream.subarray(t * C, t * C + C), this.spare);
    const bias = this.weight("lm_head.bias"), head = this.head;
    for (let v = 0; v < V; v++) {
      let sum = bias ? bias[v] : 0;
      for (let c = 0; c < C; c++) sum += head[v * C + c] * this.spare[c];
      into[v] = cap === null ? sum : cap * Math.tanh(sum / cap);
    }
    return into;
  }

  /** Logits (V) after position t; with counts, logarithms of probabilities. */
  after(t: number): Float32Array {
    return (this.mixed ?? this.logits).subarray(t * this.config.vocab, (t + 1) * this.config.vocab);
  }
}
