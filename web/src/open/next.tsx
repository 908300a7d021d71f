// What may come at a place: the model's own distribution, and what is left of it to draw from, as the controls are moved.
import { useEffect, useMemo, useState } from "preact/hooks";
import { percent, short } from "../format";
import { filtered, ranked, softmax, type Sampling } from "../sampling";
import { say } from "../strings";
import { asked } from "./api";
import { Trouble } from "./pieces";
import { useWords } from "./words";
import type { Token } from "./writer";

const SHOWN = 12, REST = 250, KEPT = 60;

interface Distribution { logs: Float32Array; names: Map<number, string> }

const known = new Map<string, Distribution>();

/** The distribution after a text or ids, once they rest. */
export function useNext(model: string, prompt: string | number[] | null): { found: Distribution | null; trouble: unknown; busy: boolean } {
  const key = prompt === null ? "" : `${model} ${JSON.stringify(prompt)}`, [, again] = useState(0), [trouble, setTrouble] = useState<unknown>(null);
  useEffect(() => {
    if (!key || known.has(key)) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      asked<{ logs: string; names: [number, string][] }>("/api/next", { body: { model, prompt }, signal: stop.signal }).then(({ logs, names }) => {
        const bytes = Uint8Array.from(atob(logs), (c) => c.charCodeAt(0));
        if (known.size > KEPT) known.delete(known.keys().next().value!);
        known.set(key, { logs: new Float32Array(bytes.buffer), names: new Map(names) });
        setTrouble(null);
        again((n) => n + 1);
      }, (error) => !stop.signal.aborted && setTrouble(error));
    }, REST);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key]);
  return { found: known.get(key) ?? null, trouble, busy: !!key && !known.has(key) };
}

/** A token's text so that it can be seen. */
export const visible = (text: string): string => text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/ /g, "␣") || "∅";

export function NextPanel({ model, prompt, chosen, counts, sampling, setSampling, take }: {
  model: string; prompt: string | number[] | null; chosen: Token | null; counts: boolean; sampling: Sampling; setSampling: (sampling: Sampling) => void; take: ((id: number) => void) | null;
}) {
  const { s } = useWords(), { found, trouble, busy } = useNext(model, prompt);
  const drawn = useMemo(() => {
    if (!found) return null;
    const kept = filtered(found.logs, sampling), p = softmax(found.logs), order = ranked(found.logs);
    return { kept, p, order };
  }, [found, sampling]);
  const rank = chosen && drawn ? drawn.order.indexOf(chosen.id) : -1;
  const shown = drawn ? drawn.order.slice(0, SHOWN) : [];
  if (drawn && chosen && rank >= SHOWN) shown[SHOWN - 1] = chosen.id;
  const most = drawn ? Math.max(...shown.map((id) => Math.max(drawn.kept[id], drawn.p[id]))) || 1 : 1, V = found?.logs.length ?? 100;
  const slider = (key: keyof Sampling, label: string, min: number, max: number, step: number, off: number | null) => {
    const value = sampling[key];
    return (
      <label class="oo-slider"><span>{label}</span>
        <input type="range" min={min} max={max} step={step} value={value ?? off!} aria-valuetext={value === null ? s.offWord : short(value)}
          onInput={(event) => {
            const given = Number(event.currentTarget.value);
            setSampling({ ...sampling, [key]: off !== null && given === off ? null : given });
          }} />
        <output>{value === null ? s.offWord : short(value)}</output></label>
    );
  };
  return (
    <section class="oo-next" id="oo-next" aria-label={s.here}>
      <h2>{chosen ? s.hereAt : s.here}</h2>
      <div aria-live="polite">
        {chosen && <p class="oo-chosen">{chosen.log === null ? visible(chosen.text) : rank >= 0 ? say(s.hereChosen, { name: visible(chosen.text), p: percent(Math.exp(chosen.log)), rank: rank + 1, all: V }) : say(s.hereChosenFar, { name: visible(chosen.text), p: percent(Math.exp(chosen.log)) })}</p>}
        {chosen && chosen.log !== null && <Who token={chosen} counts={counts} />}
      </div>
      <ol class="oo-bars" aria-busy={busy}>
        {shown.map((id) => {
          const name = visible(found!.names.get(id) ?? (chosen?.id === id ? chosen.text : `#${id}`));
          const inner = (
            <>
              <bdi class="oo-token-name">{name}</bdi>
              <span class="oo-barbox" aria-hidden="true"><i class="oo-pale" style={{ width: `${(100 * drawn!.p[id]) / most}%` }} /><i class="oo-full" style={{ width: `${(100 * drawn!.kept[id]) / most}%` }} /></span>
              <span class="oo-share">{percent(drawn!.kept[id] || drawn!.p[id])}</span>
            </>
          );
          return (
            <li key={id} class={chosen?.id === id ? "oo-was" : drawn!.kept[id] ? "" : "oo-left-out"}>
              {take ? <button type="button" title={say(s.branchHere, { name })} onClick={() => take(id)}>{inner}</button> : <div>{inner}</div>}
            </li>
          );
        })}
      </ol>
      {busy && <p class="oo-note oo-busy">…</p>}
      <Trouble of={trouble} />
      <h3>{s.sampling}</h3>
      {slider("temperature", s.temperature, 0, 2, 0.05, null)}
      {slider("top_k", s.topK, 1, Math.min(V, 100) + 1, 1, Math.min(V, 100) + 1)}
      {slider("top_p", s.topP, 0.05, 1, 0.05, 1)}
      {slider("min_p", s.minP, 0, 0.5, 0.01, 0)}
      <p class="oo-note">{s.pale}</p>
    </section>
  );
}

/** How much of a prediction came from the network, and how much from counting. */
export function Who({ token, counts }: { token: Token; counts: boolean }) {
  const { s } = useWords();
  if (!counts) return <p class="oo-note">{s.whoNone}</p>;
  if (!token.share) return <p class="oo-note">{s.whoLater}</p>;
  const [network, networkLog, countsLog] = token.share;
  return (
    <div class="oo-who">
      <div class="oo-whobar" aria-hidden="true"><i style={{ width: `${100 * network}%` }} /></div>
      <p><b>{s.who}:</b> <span class="oo-network">{say(s.whoNetwork, { weight: percent(network), p: percent(Math.exp(networkLog)) })}</span>; <span class="oo-counted">{say(s.whoCounts, { weight: percent(1 - network), p: percent(Math.exp(countsLog)) })}</span></p>
    </div>
  );
}
