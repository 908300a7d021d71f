// From logits to a token, in the order of octavo/generation/sampling.py.

export interface Sampling {
  temperature: number;
  top_k: number | null;
  top_p: number | null;
  min_p: number | null;
}

export function softmax(logits: ArrayLike<number>): Float64Array {
  const found = Float64Array.from(logits);
  let highest = -Infinity, sum = 0;
  for (const x of found) if (x > highest) highest = x;
  for (let i = 0; i < found.length; i++) sum += found[i] = Math.exp(found[i] - highest);
  for (let i = 0; i < found.length; i++) found[i] /= sum;
  return found;
}

/** Ids, the most probable first. */
export function ranked(values: ArrayLike<number>): number[] {
  return Array.from({ length: values.length }, (_, i) => i).sort((a, b) => values[b] - values[a] || a - b);
}

/** The probabilities that are drawn from, 0 for what is left out. */
export function filtered(logits: ArrayLike<number>, { temperature, top_k, top_p, min_p }: Sampling): Float64Array {
  const order = ranked(logits), highest = logits[order[0]];
  if (temperature === 0) return Float64Array.from(logits, (_, i) => (i === order[0] ? 1 : 0));
  const scaled = Float64Array.from(logits, (x) => (x - highest) / temperature);
  if (top_k !== null && top_k < order.length) {
    const least = scaled[order[top_k - 1]];
    for (let i = 0; i < scaled.length; i++) if (scaled[i] < least) scaled[i] = -Infinity;
  }
  if (top_p !== null) {
    const p = softmax(scaled);
    let before = 0;
    for (const i of order) {
      if (before >= top_p) scaled[i] = -Infinity;
      before += p[i];
    }
  }
  if (min_p !== null) for (let i = 0; i < scaled.length; i++) if (scaled[i] < Math.log(min_p)) scaled[i] = -Infinity;
  return softmax(scaled);
}

/** The token at which the summed probability passes a number in [0, 1). */
export function drawn(p: Float64Array, uniform: number): number {
  let sum = 0, last = 0;
  for (let i = 0; i < p.length; i++) {
    if (p[i] === 0) continue;
    last = i;
    if ((sum += p[i]) > uniform) return i;
  }
  return last;
}

/** Numbers in [0, 1), the same from the same seed (mulberry32). */
export function uniforms(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
