// N-grams of the training text beside the network, as octavo/ngram/ has them: interpolated modified Kneser–Ney of all
// orders (Chen and Goodman 1999), what the text itself has said so far (recent.py), and the gates that weigh them.
// K orders, V vocabulary, H hidden units of the gate.

interface Level {
  start: Int32Array; // of each context its first n-gram
  token: Int32Array; // the last token of each n-gram
  share: Float32Array;
  left: Float32Array;
  lower: { share: Float32Array; left: Float32Array } | null; // by predecessors, for the orders above
  known: Float32Array; // (contexts, 2) ln(1 + occurrences), ln(1 + kinds of tokens that follow)
}

type Weights = (name: string) => Float32Array | null;

const FALLBACK = [0, 0.5, 1, 1.5];
const LONGEST = 7; // tokens of the longest context of the text so far
const MOST_SHARE = 1 - 1e-4;

function discounts(counts: Int32Array): number[] {
  const n = [0, 0, 0, 0, 0];
  for (const count of counts) if (count <= 4) n[count]++;
  const [, n1, n2, n3, n4] = n;
  if (!n1 || !n2 || !n3) return FALLBACK;
  const y = n1 / (n1 + 2 * n2), found = [0, 1 - (2 * y * n2) / n1, 2 - (3 * y * n3) / n2, 3 - (4 * y * n4) / n3];
  return found.slice(1).every((d) => d > 0) && found.every((d, i) => d <= i) ? found : FALLBACK;
}

function estimate(counts: Int32Array, owner: Int32Array, contexts: number): { share: Float32Array; left: Float32Array } {
  const D = discounts(counts), total = new Float64Array(contexts), freed = new Float64Array(contexts);
  counts.forEach((count, i) => {
    total[owner[i]] += count;
    freed[owner[i]] += D[Math.min(count, 3)];
  });
  return {
    share: Float32Array.from(counts, (count, i) => (count - D[Math.min(count, 3)]) / total[owner[i]]),
    left: Float32Array.from(freed, (free, c) => (total[c] ? free / total[c] : 1)),
  };
}

/** The rank of each pair (a, b) among all different ones, their keys a · V + b, and the first place of each. */
function ranks(a: Int32Array, b: Int32Array, V: number): { here: Int32Array; keys: Float64Array; first: Int32Array } {
  const keys = Float64Array.from(b, (token, i) => a[i] * V + token), sorted = keys.slice().sort();
  let size = 0;
  for (let i = 0; i < sorted.length; i++) if (!i || sorted[i] !== sorted[i - 1]) sorted[size++] = sorted[i];
  const unique = sorted.slice(0, size), first = new Int32Array(size), here = new Int32Array(keys.length);
  for (let i = keys.length - 1; i >= 0; i--) {
    let low = 0, high = size - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (unique[middle] < keys[i]) low = middle + 1;
      else high = middle;
    }
    first[(here[i] = low)] = i;
  }
  return { here, keys: unique, first };
}

function levelOf(keys: Float64Array, counts: Int32Array, contexts: number, predecessors: Int32Array | null, V: number): Level {
  const owner = Int32Array.from(keys, (key) => Math.floor(key / V)), token = Int32Array.from(keys, (key) => key % V);
  const start = new Int32Array(contexts + 1), seen = new Float64Array(contexts);
  owner.forEach((context, i) => {
    start[context + 1]++;
    seen[context] += counts[i];
  });
  const known = new Float32Array(2 * contexts);
  for (let c = 0; c < contexts; c++) {
    known[2 * c] = Math.log1p(seen[c]);
    known[2 * c + 1] = Math.log1p(start[c + 1]);
  }
  for (let c = 0; c < contexts; c++) start[c + 1] += start[c];
  return { start, token, ...estimate(counts, owner, contexts), lower: predecessors && estimate(predecessors, owner, contexts), known };
}

function count(tokens: Int32Array, V: number, orders: number): Level[] {
  const levels: Level[] = [], N = tokens.length;
  let places = new Int32Array(N + 1), size = 1, held: [Float64Array, Int32Array, number] | null = null;
  for (let k = 1; k <= Math.min(orders, N); k++) {
    const { here, keys, first } = ranks(places.subarray(0, N - k + 1), tokens.subarray(k - 1), V);
    if (held) {
      const predecessors = new Int32Array(size);
      for (const at of first) predecessors[places[at + 1]]++;
      predecessors[places[0]]++; // the start of the text counts as one too
      levels.push(levelOf(...held, predecessors, V));
    }
    const counts = new Int32Array(keys.length);
    for (const rank of here) counts[rank]++;
    held = [keys, counts, size];
    [places, size] = [here as Int32Array<ArrayBuffer>, keys.length];
  }
  levels.push(levelOf(...held!, null, V));
  return levels;
}

export class Counts {
  private levels: Level[];

  constructor(tokens: Int32Array, private V: number, readonly orders: number, private recent: number, private weights: Weights) {
    this.levels = count(tokens, V, orders);
  }

  /** The place of the n-gram of a context and a token in the table of an order, or −1. */
  private find(level: Level, context: number, token: number): number {
    if (context < 0) return -1;
    let low = level.start[context], high = level.start[context + 1] - 1;
    while (low <= high) {
      const middle = (low + high) >> 1, own = level.token[middle];
      if (own === token) return middle;
      if (own < token) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  /** Contexts of 0 to K − 1 tokens that end with each token of a text, −1 where never counted. */
  places(text: number[]): Int32Array[] {
    const found: Int32Array[] = [];
    for (let t = 0; t < text.length; t++) {
      const own = new Int32Array(this.orders).fill(-1);
      own[0] = 0;
      for (let k = 1; k < this.orders; k++) {
        const before = t ? found[t - 1][k - 1] : k === 1 ? 0 : -1;
        own[k] = this.find(this.levels[k - 1], before, text[t]);
      }
      found.push(own);
    }
    return found;
  }

  /** Logarithms (V) of the mixture's probabilities, from the network's logits (V) and its last state (C). */
  mix(logits: Float32Array, state: Float32Array, places: Int32Array, text: number[], into: Float32Array): void {
    const { V, orders: K } = this, own = (name: string) => this.weights(`counts.${name}`)!;
    let most = -Infinity, sum = 0, entropy = 0, highest = -Infinity;
    for (const x of logits) if (x > most) most = x;
    for (const x of logits) sum += Math.exp(x - most);
    const p = Float64Array.from(logits, (x) => Math.exp(x - most) / sum);
    for (let v = 0; v < V; v++) {
      const log = logits[v] - most - Math.log(sum);
      entropy -= p[v] * log;
      if (log > highest) highest = log;
    }
    const known: number[] = [];
    for (let k = 1; k < K; k++) for (const i of [0, 1]) known.push(places[k] < 0 ? 0 : this.levels[k].known[2 * places[k] + i]);
    known.push(entropy, highest);
    const bias = own("from_known.bias"), a = own("from_state.weight"), b = own("from_known.weight"), C = state.length;
    const hidden = Float64Array.from(bias, (x, h) => {
      for (let c = 0; c < C; c++) x += a[h * C + c] * state[c];
      for (let i = 0; i < known.length; i++) x += b[h * known.length + i] * known[i];
      return Math.max(0, x);
    });
    const out = own("out.weight"), gate = Float64Array.from(own("out.bias"), (x, k) => hidden.reduce((s, y, h) => s + out[k * hidden.length + h] * y, x));
    const top = Math.max(...gate), weights = gate.map((x) => Math.exp(x - top)), all = weights.reduce((x, y) => x + y, 0);
    let beneath = new Float64Array(V).fill(1 / V);
    for (let v = 0; v < V; v++) p[v] *= weights[0] / all;
    for (let k = 0; k < K; k++) {
      const level = this.levels[k], context = places[k], over = (one: { share: Float32Array; left: Float32Array }) => {
        const found = beneath.map((x) => x * one.left[context]);
        for (let i = level.start[context]; i < level.start[context + 1]; i++) found[level.token[i]] += one.share[i];
        return found;
      };
      const mine = context < 0 ? beneath : over(level), weight = weights[k + 1] / all;
      for (let v = 0; v < V; v++) p[v] += weight * mine[v];
      if (context >= 0 && level.lower) beneath = over(level.lower);
    }
    if (this.recent) this.remember(text.slice(-this.recent), p);
    for (let v = 0; v < V; v++) into[v] = Math.log(p[v]);
  }

  /** Mix in what the text has said so far (Witten and Bell 1991; see recent.py). */
  private remember(text: number[], p: Float64Array): void {
    const n = text.length, matched = new Int32Array(n);
    for (let t = 0; t < n; t++) while (matched[t] < LONGEST && matched[t] < t && text[t - 1 - matched[t]] === text[n - 1 - matched[t]]) matched[t]++;
    const longest = matched.reduce((a, x) => Math.max(a, x), 0), counted: number[] = [], kinds: number[] = [];
    for (let order = 0; order <= longest; order++) {
      const there = text.filter((_, t) => matched[t] >= order);
      counted.push(there.length);
      kinds.push(new Set(there).size);
    }
    let rest = 1;
    const adds = new Float64Array(LONGEST + 1);
    for (let order = longest; order >= 0 && n; order--) {
      const together = counted[order] + kinds[order];
      adds[order] = rest / together;
      rest *= kinds[order] / together;
    }
    for (let order = 1; order <= LONGEST; order++) adds[order] += adds[order - 1];
    const known = new Float64Array(LONGEST + 3);
    known[longest] = 1;
    known[LONGEST + 1] = Math.log1p(n ? counted[longest] : 0);
    known[LONGEST + 2] = Math.log1p(n ? kinds[longest] : 0);
    const into = this.weights("counts.recent.into")!, onto = this.weights("counts.recent.onto")!, H = onto.length - 1, F = known.length;
    let x = onto[H];
    for (let h = 0; h < H; h++) x += onto[h] * Math.max(0, known.reduce((s, y, f) => s + into[h * (F + 1) + f] * y, into[h * (F + 1) + F]));
    const share = Math.min(MOST_SHARE, 1 / (1 + Math.exp(-x))), kept = 1 - share + share * rest;
    for (let v = 0; v < p.length; v++) p[v] *= kept;
    text.forEach((token, t) => (p[token] += share * adds[matched[t]]));
  }
}
