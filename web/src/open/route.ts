// Where in the page one is, and what one looks at there: all of it in the address, so that a reload changes nothing.
import { useEffect, useState } from "preact/hooks";

export const VIEWS = ["start", "watch", "play", "inside", "away"] as const;
export type View = (typeof VIEWS)[number];

export interface Route { view: View; at: URLSearchParams }

function read(): Route {
  const [name, words] = location.hash.slice(1).split("?", 2);
  return { view: VIEWS.includes(name as View) ? (name as View) : "start", at: new URLSearchParams(words ?? "") };
}

export function address(view: View, at: URLSearchParams | Record<string, string> = {}): string {
  const words = new URLSearchParams(at).toString();
  return `#${view}${words ? `?${words}` : ""}`;
}

const listeners = new Set<() => void>();

export function go(view: View, at: URLSearchParams | Record<string, string> = {}): void {
  location.hash = address(view, at);
}

/** Change parts of the address of this view without a step of history; null takes one out. */
export function put(changes: Record<string, string | string[] | null>): void {
  const { view, at } = read();
  for (const [name, value] of Object.entries(changes)) {
    at.delete(name);
    if (value !== null) [value].flat().forEach((each) => at.append(name, each));
  }
  history.replaceState(history.state, "", address(view, at));
  listeners.forEach((listener) => listener());
}

export function useRoute(): Route {
  const [route, set] = useState(read);
  useEffect(() => {
    const again = () => set(read());
    addEventListener("hashchange", again);
    listeners.add(again);
    return () => {
      removeEventListener("hashchange", again);
      listeners.delete(again);
    };
  }, []);
  return route;
}
