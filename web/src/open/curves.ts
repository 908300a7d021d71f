// The metrics of runs, fetched by a cursor: only new lines, and only of runs that are looked at.
import { ask } from "./api";
import { Metrics } from "./series";
import { things, type Run } from "./things";

interface Held { metrics: Metrics; cursor: string; seen: string; busy: boolean; failed: boolean }

const PAUSE = 150;

class Curves {
  private readonly held = new Map<string, Held>();
  private readonly listeners = new Set<() => void>();
  private wanted: readonly string[] = [];
  private timer = 0;

  constructor() {
    things.listen(() => this.fetch());
  }

  of(id: string): Metrics | undefined {
    return this.held.get(id)?.metrics;
  }

  /** Whether all that there is of the runs looked at is here. */
  get complete(): boolean {
    return this.wanted.every((id) => this.held.get(id)?.seen === things.get<Run>(`run:${id}`)?.metrics);
  }

  want(ids: readonly string[]): void {
    this.wanted = ids;
    this.fetch();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private tell(): void {
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.listeners.forEach((listener) => listener());
    }, PAUSE);
  }

  private fetch(): void {
    for (const id of this.held.keys()) if (!things.get(`run:${id}`) && things.connection === "here") this.held.delete(id);
    for (const id of this.wanted) {
      const run = things.get<Run>(`run:${id}`);
      if (!run?.metrics) continue;
      let held = this.held.get(id);
      if (!held) this.held.set(id, (held = { metrics: new Metrics(), cursor: "", seen: "", busy: false, failed: false }));
      if (!held.busy && held.seen !== run.metrics) void this.read(id, held, run.metrics);
    }
  }

  private async read(id: string, held: Held, wanted: string): Promise<void> {
    held.busy = true;
    try {
      for (;;) {
        const response = await ask("/api/metrics", { query: { run: id, after: held.cursor } });
        const cursor = response.headers.get("x-cursor") ?? "", text = await response.text();
        const done = cursor === held.cursor || !text;
        if (response.headers.get("x-anew") === "yes") held.metrics.clear(); // once the new lines are here: no empty plot
        held.cursor = cursor;
        held.metrics.read(text);
        if (text) this.tell();
        if (done) break;
      }
      held.seen = wanted;
      held.failed = false;
    } catch {
      held.failed = true; // the run is gone, or the server: the next news tries again
    }
    held.busy = false;
    this.tell();
    const now = things.get<Run>(`run:${id}`)?.metrics;
    if (!held.failed && now && now !== held.seen && this.wanted.includes(id)) void this.read(id, held, now);
  }
}

export const curves = new Curves();
