// What the server lists, by name: runs, studies, texts, jobs. All windows see the same; a server that is gone is waited for.
import { useEffect, useReducer } from "preact/hooks";
import { ask, events, Refused } from "./api";

export interface Run {
  id: string; path: string; state: "preparing" | "training" | "stopped" | "finished" | "damaged"; held: boolean;
  task: string | null; description: string; recipe: string; texts: string[]; changed: string[]; parameters: number | null;
  step: number; steps: number | null; minutes: number | null;
  promise: { minutes: number; bits: number; within: number } | null; came_out: number | null;
  bits: number | null; loss: number | null; unit: string | null; counting: number | null; counts: boolean; verdict: string[]; next: string;
  tokens_per_second: number | null; began: number | null; written: number | null; ends: number | null;
  metrics: string; samples: number[]; checkpoints: number[]; report: boolean; explained: boolean;
  study: string | null; variant: string | null; seed: number | null; damage: string | null;
}

export interface Study {
  id: string; path: string; name: string; description: string; metric: string; held: boolean; done: number; planned: number;
  variants: { slug: string; name: string; hypothesis: string; done: number; planned: number; verdict: string | null; sentence: string | null }[];
  nothing_learned: string | null; notes: string[]; damage: string | null;
}

export interface Text { id: string; path: string; files: number; bytes: number; added: number }

export interface Job {
  id: string; kind: string; command: string; about: string; began: number; running: boolean; stopping: boolean;
  code: number | null; ended: number | null; said: string[]; error: string | null;
}

export interface Exported {
  id: string; path: string; target: string; run: string; written: number; missed: string[]; logits: number | null; greedy: [number, number] | null; ids: [number, number] | null; loss: number | null;
}

export interface About { folder: string; runs: string; exports: string; version: string; empty: boolean; cut: boolean }

export type Connection = "waiting" | "here" | "gone" | "refused";
const FIRST_PAUSE = 500, LONGEST_PAUSE = 4000;

class Things {
  private known = new Map<string, unknown>();
  private readonly listeners = new Set<() => void>();
  connection: Connection = "waiting";

  get<T>(name: string): T | undefined {
    return this.known.get(name) as T | undefined;
  }

  /** All of a kind, such as run. */
  all<T>(kind: string): T[] {
    return [...this.known].filter(([name]) => name.startsWith(`${kind}:`)).map(([, thing]) => thing as T);
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private tell(connection: Connection): void {
    this.connection = connection;
    this.listeners.forEach((listener) => listener());
  }

  /** Follow the server for as long as the page is there. */
  async follow(): Promise<never> {
    let pause = FIRST_PAUSE;
    for (;;) {
      try {
        const response = await ask("/api/events");
        let first = true;
        for await (const news of events<Record<string, unknown>>(response)) {
          if (first) this.known = new Map();
          for (const [name, thing] of Object.entries(news)) thing === null ? this.known.delete(name) : this.known.set(name, thing);
          if (first || Object.keys(news).length) this.tell("here");
          first = false;
          pause = FIRST_PAUSE;
        }
        this.tell("gone");
      } catch (error) {
        this.tell(error instanceof Refused && error.status === 401 ? "refused" : "gone");
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(LONGEST_PAUSE, pause * 1.5);
    }
  }
}

export const things = new Things();

/** Draws anew when anything has changed. */
export function useThings(): Things {
  const [, again] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const stop = things.listen(() => again(0));
    again(0); // news may have come before anybody listened
    return stop;
  }, []);
  return things;
}

/** The newest first. */
export const runsOf = (them: Things): Run[] =>
  them.all<Run>("run").sort((a, b) => Number(b.held) - Number(a.held) || (b.written ?? b.began ?? 0) - (a.written ?? a.began ?? 0) || (a.id < b.id ? -1 : 1));
