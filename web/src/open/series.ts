// Curves as numbers: a run's metrics in columns, smoothed over all that there is, and only then thinned out for the screen.

/** A table that grows: a column of numbers for each key, NaN where a row has none. */
export class Table {
  n = 0;
  private room = 256;
  readonly columns = new Map<string, Float64Array>();

  private column(key: string): Float64Array {
    let found = this.columns.get(key);
    if (!found) this.columns.set(key, (found = new Float64Array(this.room).fill(NaN)));
    return found;
  }

  add(row: Record<string, unknown>): void {
    if (this.n === this.room) {
      this.room *= 2;
      for (const [key, old] of this.columns) {
        const more = new Float64Array(this.room).fill(NaN);
        more.set(old);
        this.columns.set(key, more);
      }
    }
    for (const key in row) {
      const value = row[key];
      if (typeof value === "number") this.column(key)[this.n] = value;
      else if (value === null) this.column(key);
    }
    this.n++;
  }

  of(key: string): Float64Array | null {
    return this.columns.get(key)?.subarray(0, this.n) ?? null;
  }
}

/** All rows of a run by their event. */
export class Metrics {
  readonly tables = new Map<string, Table>();
  version = 0;

  clear(): void {
    this.tables.clear();
    this.version++;
  }

  /** Lines of metrics.jsonl; one that is no JSON is passed over. */
  read(text: string): void {
    const lines = text.split("\n").filter(Boolean);
    if (!lines.length) return;
    let rows: unknown[];
    try {
      rows = JSON.parse(`[${lines.join(",")}]`) as unknown[];
    } catch {
      rows = lines.map((line) => {
        try {
          return JSON.parse(line) as unknown;
        } catch {
          return null;
        }
      });
    }
    for (const row of rows) {
      const event = (row as { event?: unknown } | null)?.event;
      if (typeof event !== "string") continue;
      let table = this.tables.get(event);
      if (!table) this.tables.set(event, (table = new Table()));
      table.add(row as Record<string, unknown>);
    }
    this.version++;
  }

  /** Points of a key such as train.loss over another of the same rows. */
  points(key: string, over: string): Points | null {
    const at = key.indexOf("."), table = this.tables.get(key.slice(0, at));
    const y = table?.of(key.slice(at + 1));
    let x = table?.of(over);
    if (!y || !table) return null;
    if (!x && over !== "step") x = this.across(table, over);
    return x ? { x, y, n: y.length } : null;
  }

  /** What rows of judging lack, such as tokens seen or seconds: as the training's rows around them say. */
  private across(table: Table, over: string): Float64Array | null {
    const train = this.tables.get("train"), at = train?.of("step"), value = train?.of(over), steps = table.of("step");
    if (!at || !value || !steps || !at.length) return null;
    return Float64Array.from(steps, (step) => between(at, value, step));
  }

  keys(): string[] {
    return [...this.tables].flatMap(([event, table]) => [...table.columns.keys()].map((key) => `${event}.${key}`));
  }
}

export interface Points { x: Float64Array; y: Float64Array; n: number }

/** The index of the first x that is at least as large. */
export function first(x: ArrayLike<number>, value: number, n = x.length): number {
  let low = 0, high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** y at an x between two known ones, along the line; at the ends the last one. */
export function between(x: ArrayLike<number>, y: ArrayLike<number>, at: number): number {
  const right = first(x, at);
  if (right === 0) return y[0];
  if (right === x.length) return y[x.length - 1];
  const share = (at - x[right - 1]) / (x[right] - x[right - 1] || 1);
  return y[right - 1] + (y[right] - y[right - 1]) * share;
}

/** An exponential mean over all points, which begins without a bias; a gap stays one. Goes on where it was with more points. */
export class Smoothed {
  private out = new Float64Array(256);
  private done = 0;
  private mean = 0;
  private weight = 0;

  constructor(readonly share: number) {}

  of(y: Float64Array): Float64Array {
    if (this.done > y.length) this.done = this.mean = this.weight = 0;
    if (this.out.length < y.length) {
      const more = new Float64Array(Math.max(y.length, 2 * this.out.length));
      more.set(this.out.subarray(0, this.done));
      this.out = more;
    }
    for (let i = this.done; i < y.length; i++) {
      if (Number.isNaN(y[i])) this.out[i] = NaN;
      else {
        this.mean = this.share * this.mean + (1 - this.share) * y[i];
        this.weight = this.share * this.weight + (1 - this.share);
        this.out[i] = this.mean / this.weight;
      }
    }
    this.done = y.length;
    return this.out.subarray(0, y.length);
  }
}

/**
 * What of a curve a screen can show: of all points that fall into one column of pixels the first, the lowest, the highest
 * and the last, in their order. `place` gives an x its pixel, from 0 to `width`. Returns pairs (pixel, y); NaN parts lines.
 */
export function thinned(points: Points, from: number, to: number, place: (x: number) => number): Float64Array {
  const { x, y } = points, end = Math.min(points.n, first(x, to, points.n) + 1), begin = Math.max(0, first(x, from, points.n) - 1);
  const found = new Float64Array(2 * Math.max(0, end - begin));
  let k = 0, column = NaN, low = 0, high = 0, opened = 0, last = 0;
  const put = (i: number) => {
    found[k++] = place(x[i]);
    found[k++] = y[i];
  };
  const close = () => {
    if (Number.isNaN(column)) return;
    const kept = [opened, Math.min(low, high), Math.max(low, high), last];
    for (let j = 0; j < 4; j++) if (!j || kept[j] !== kept[j - 1]) put(kept[j]);
    column = NaN;
  };
  for (let i = begin; i < end; i++) {
    if (Number.isNaN(y[i])) {
      close();
      if (k && !Number.isNaN(found[k - 1])) put(i);
      continue;
    }
    const here = Math.floor(place(x[i]));
    if (here !== column) {
      close();
      column = here;
      opened = low = high = i;
    } else if (y[i] < y[low]) low = i;
    else if (y[i] > y[high]) high = i;
    last = i;
  }
  close();
  return found.subarray(0, k);
}

export interface Band { x: Float64Array; mean: Float64Array; low: Float64Array; high: Float64Array; of: number }

/** The mean of several curves and what lies between the lowest and the highest, where all of them are. */
export function band(curves: Points[], most = 400): Band | null {
  const some = curves.filter((each) => each.n > 1);
  if (!some.length) return null;
  const from = Math.max(...some.map((each) => each.x[0])), to = Math.min(...some.map((each) => each.x[each.n - 1]));
  if (!(to > from)) return null;
  const longest = some.reduce((a, b) => (b.n > a.n ? b : a));
  let x = longest.x.subarray(0, longest.n).filter((each) => each >= from && each <= to);
  if (x.length > most) x = Float64Array.from({ length: most }, (_, i) => from + ((to - from) * i) / (most - 1));
  const made = (fold: (values: number[]) => number) =>
    Float64Array.from(x, (at) => fold(some.map((each) => between(each.x.subarray(0, each.n), each.y.subarray(0, each.n), at))));
  return {
    x, of: some.length,
    mean: made((values) => values.reduce((a, b) => a + b, 0) / values.length),
    low: made((values) => Math.min(...values)), high: made((values) => Math.max(...values)),
  };
}

/** Round numbers for an axis, about so many. */
export function ticks(low: number, high: number, about: number, log: boolean): number[] {
  if (!(high > low)) return [low];
  if (log) {
    const found: number[] = [];
    const decades = Math.log10(high / low), steps = decades > about ? [1] : decades > about / 3 ? [1, 3] : decades > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const step of steps) {
        const value = step * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
      }
    if (found.length >= 2) return found;
  }
  const raw = (high - low) / about, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw)!;
  const found: number[] = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
