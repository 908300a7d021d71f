// Small things that several views show.
import { useEffect, useState } from "preact/hooks";
import { say } from "../strings";
import { Refused } from "./api";
import type { Run } from "./things";
import { lasting, useWords } from "./words";

export const shortName = (id: string): string => id.replace(/^runs\//, "");

export function TimeLeft({ run }: { run: Run }) {
  const { s } = useWords(), [, again] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => again((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  if (!run.held) return <>{s.states[run.state]}</>;
  if (run.ends === null) return <>{s.states[run.state]}</>;
  const left = run.ends - Date.now() / 1000;
  return <>{left > 1 ? say(s.left, { time: lasting(left, s) }) : s.overdue}</>;
}

export function Command({ words, label }: { words: string; label?: string }) {
  const { s } = useWords(), [copied, set] = useState(false);
  useEffect(() => set(false), [words]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(words);
      set(true);
    } catch {
      getSelection()?.selectAllChildren(document.activeElement!.parentElement!.querySelector("code")!);
    }
  };
  return (
    <div class="oo-command">
      <span>{label ?? s.commandLabel}</span>
      <code>{words}</code>
      <button type="button" onClick={copy}>{copied ? s.copied : s.copy}</button>
    </div>
  );
}

/** What the server refused, in words; nothing where nothing went wrong. */
export function Trouble({ of }: { of: unknown }) {
  const { s } = useWords();
  if (of === null || of === undefined || (of as Error).name === "AbortError") return null;
  const told = of instanceof Refused ? (of.status === 0 ? s.gone : (s.codes[of.code] ?? of.message)) : of instanceof TypeError ? s.gone : String((of as Error)?.message ?? of);
  return <p class="oo-warning" role="alert">{told.split("\n").map((line, n) => <span key={n}>{line}<br /></span>)}</p>;
}
