// Small things that several views show.
import { Fragment } from "preact";
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
      <code>{words.split(" ").map((word, n) => <Fragment key={n}>{n ? " " : ""}<span>{word}</span></Fragment>)}</code>
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

export function RunPicker({ label, runs, run, pick }: { label: string; runs: Run[]; run: string; pick: (id: string) => void }) {
  return <div class="oo-picker"><label>{label} <select value={run} onChange={(event) => pick(event.currentTarget.value)}>{runs.map((each) => <option key={each.id} value={each.id}>{shortName(each.id)}</option>)}</select></label></div>;
}

/** A thumb, up or down. */
export function Thumb({ down = false }: { down?: boolean }) {
  return (
    <svg class="oo-thumb" viewBox="0 0 24 24" width="16" height="16" aria-hidden="true" style={down ? { transform: "rotate(180deg)" } : {}}>
      <path d="M7 11v9H3.5v-9zM7 11l4-7.5c1.6 0 2.6 1 2.3 2.7L12.7 10H19c1.2 0 2 1 1.7 2.2l-1.5 6.2c-.3 1-1 1.6-2 1.6H7" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round" />
    </svg>
  );
}
