// Lessons in a panel beside the page, each of which points at the part that it is about.
import { useEffect, useState } from "preact/hooks";
import { say } from "../strings";
import { go, put, useRoute } from "./route";
import { useThings } from "./things";
import { useWords } from "./words";

export function Lessons() {
  const { s } = useWords(), { view, at } = useRoute(), them = useThings(), stops = s.lessonStops;
  const given = Number(at.get("lesson") ?? 0), n = Number.isInteger(given) && given >= 1 && given <= stops.length ? given : 0, [absent, setAbsent] = useState(false);
  const [title, text, where, part] = stops[Math.max(0, n - 1)];
  const open = (to: number) => {
    const next = stops[to - 1];
    if (next[2] === view) return put({ lesson: String(to) });
    const keep = new URLSearchParams(next[2] === "play" || next[2] === "inside" || next[2] === "away" ? (at.has("run") ? { run: at.get("run")! } : {}) : {});
    keep.set("lesson", String(to));
    go(next[2], keep);
  };
  // What it points at may come later, or be made anew: it is looked for whenever the page has changed.
  useEffect(() => {
    if (!n) return;
    let marked: Element | null = null;
    const mark = (): void => {
      const found = view === where ? document.querySelector(part) : null;
      if (found === marked) return;
      marked?.classList.remove("oo-pointed");
      marked = found;
      marked?.classList.add("oo-pointed");
      setAbsent(!found);
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      marked?.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "nearest" });
    };
    mark();
    setAbsent(!marked);
    const timer = setInterval(mark, 500);
    return () => {
      clearInterval(timer);
      marked?.classList.remove("oo-pointed");
    };
  }, [n, view, where, part, them.connection]);
  useEffect(() => {
    document.documentElement.classList.toggle("oo-with-lessons", n > 0);
    return () => document.documentElement.classList.remove("oo-with-lessons");
  }, [n > 0]);
  if (!n) return null;
  return (
    <aside class="oo-lessons" aria-label={s.lessons} onKeyDown={(event) => event.key === "Escape" && put({ lesson: null })}>
      <p class="oo-note">{say(s.lessonOf, { n, all: stops.length })} <button type="button" class="oo-plain" onClick={() => put({ lesson: null })}>{s.close}</button></p>
      <div aria-live="polite"><h2>{title}</h2><p>{text}</p>{absent && <p class="oo-note">{s.lessonAbsent}</p>}</div>
      <div class="oo-actions">
        <button type="button" disabled={n === 1} onClick={() => open(n - 1)}>{s.lessonBack}</button>
        <button type="button" class="oo-primary" disabled={n === stops.length} onClick={() => open(n + 1)}>{s.lessonNext}</button>
      </div>
      <details><summary>{s.lessonList}</summary><ol>{stops.map(([name], k) => <li key={name}><button type="button" class="oo-plain" aria-current={k + 1 === n ? "step" : undefined} onClick={() => open(k + 1)}>{name}</button></li>)}</ol></details>
    </aside>
  );
}
