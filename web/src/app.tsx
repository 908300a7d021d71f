// The page: its state, the text, what comes next, the tour.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Floor, Heads, Paper, Story, Surgery, TokenMap } from "./beyond";
import { Context, partName, useShared, type State } from "./context";
import type { Engine } from "./engine";
import type { Facts } from "./facts";
import { percent, short, signed, thousands } from "./format";
import { Embedding, FeedForward, Head, Lens, OneNumber, Plan, Stream } from "./inside";
import { drawn, filtered, ranked, softmax, uniforms } from "./sampling";
import { LANGUAGES, say } from "./strings";
import { Tokenizer, visible } from "./tokenizer";

const MANY = 40;
const SHOWN = 10;
const SLICE = 14; // milliseconds of writing between two pictures
const STOPS = ["text", "embedding", "head", "scores", "output", "stream", "feed-forward", "next", "lens", "surgery"];

/** What the model reads of a text: the start, where the tokenizer has one, and its tokens; the last T of them. */
export function read(tokenizer: Tokenizer, text: string, context: number) {
  const { ids, unknown } = tokenizer.encode(text), { start } = tokenizer.facts;
  const all = start === null ? ids : [start, ...ids];
  return { all, ids: all.slice(-context), earlier: all.slice(0, -context), unknown };
}

function queryOf(name: string): string | null {
  return new URLSearchParams(location.search).get(name);
}

export function App({ facts, engine, tokenizer }: { facts: Facts; engine: Engine; tokenizer: Tokenizer }) {
  const first = useMemo(() => read(tokenizer, facts.text, facts.config.context).ids.length, []);
  const [state, change] = useState<State>(() => ({
    text: facts.text, at: first - 1, layer: 0, head: 0, off: new Set(), sampling: facts.sampling, picked: null,
    language: queryOf("lang") === "de" ? "de" : "en",
    stop: /^\d+$/.test(queryOf("stop") ?? "") ? Math.min(10, Math.max(1, Number(queryOf("stop")))) - 1 : null,
  }));
  const set = (more: Partial<State>) => change((before) => ({ ...before, ...more }));
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)"), again = () => setTheme((n) => n + 1);
    dark.addEventListener("change", again);
    return () => dark.removeEventListener("change", again);
  }, []);
  const s = LANGUAGES[state.language];
  const { all, ids, earlier, unknown } = useMemo(() => read(tokenizer, state.text, facts.config.context), [state.text]);
  const at = Math.max(0, Math.min(ids.length - 1, state.at));
  let whole: Float32Array | null = null;
  if (ids.length) {
    if (state.off.size) {
      engine.run(ids, new Set(), earlier);
      whole = engine.after(at).slice();
    }
    engine.run(ids, new Set(state.off), earlier);
  }
  const toggle = (part: string) => {
    const off = new Set(state.off);
    if (!off.delete(part)) off.add(part);
    set({ off });
  };
  const shared = {
    facts, engine, tokenizer, s, state: { ...state, at }, set, theme, whole, toggle,
    name: (t: number) => tokenizer.name(ids[t]),
  };
  return (
    <Context.Provider value={shared}>
      <div class="ox" lang={state.language} data-off={[...state.off].join(" ")}>
        <Top />
        <div class="ox-columns">
          <div class="ox-main">
            <Text all={all.length} unknown={unknown} />
            {ids.length ? <><Plan /><Embedding /><Head /><Stream /><FeedForward /><Lens /></> : <p class="ox-warning" role="status">{s.empty}</p>}
            <Heads /><Surgery /><TokenMap /><Story /><Floor /><Paper />
          </div>
          <aside class="ox-side" aria-label={s.next}>{ids.length > 0 && <><Next /><OneNumber /></>}</aside>
        </div>
        {ids.length > 0 && <Strip />}
        <Tour />
      </div>
    </Context.Provider>
  );
}

function Top() {
  const { facts, engine, s, state, set } = useShared(), { config, measured } = facts;
  const size = (facts.bytes * 4) / 3 / 1e6;
  return (
    <div class="ox-top">
      <p>{s.lead}</p>
      <p class="note">
        {say(s.shape, { parameters: thousands(facts.parameters), T: config.context, C: config.width, H: config.heads, L: config.layers, D: config.head_width, V: thousands(config.vocab) })}{" "}
        {measured
          ? say(s.packed, { weights: facts.weights, mean: signed(measured.packing.mean, 4), low: signed(measured.packing.low, 4), high: signed(measured.packing.high, 4), size: size.toFixed(1) })
          : say(s.packedUnmeasured, { weights: facts.weights, size: size.toFixed(1) })}
        {config.counts && ` ${s.withCounts}`}
        {facts.left_out.includes("counts") && ` ${s.noCounts}`}
        {!engine.arena.native && ` ${s.byHand}`}
      </p>
      <p class="ox-actions">
        <button type="button" class="ox-primary" onClick={() => set({ stop: 0 })}>{s.tourStart}</button>
        <button type="button" lang={state.language === "en" ? "de" : "en"} onClick={() => set({ language: state.language === "en" ? "de" : "en" })}>{s.language}</button>
      </p>
    </div>
  );
}

function Text({ all, unknown }: { all: number; unknown: string[] }) {
  const { facts, engine, tokenizer, s, state, set, name } = useShared(), T = facts.config.context;
  const [writing, setWriting] = useState(false), [speed, setSpeed] = useState(0);
  const stopped = useRef(false), random = useRef(uniforms(1));
  const write = async (count: number) => {
    stopped.current = false;
    setWriting(true);
    const own = read(tokenizer, state.text, Infinity).all, special = new Set(tokenizer.facts.special);
    let seen = own.slice(-T), done = 0, spent = 0;
    while (done < count && !stopped.current) {
      const began = performance.now();
      let over = false;
      while (done < count && performance.now() - began < SLICE) {
        if (seen.length > T) seen = seen.slice(-Math.max(1, T - Math.max(1, T >> 2)));
        engine.run(seen, new Set(state.off), own.slice(0, own.length - seen.length));
        const id = drawn(filtered(engine.after(seen.length - 1), state.sampling), random.current());
        done++;
        if ((over = special.has(id))) break;
        own.push(id);
        seen.push(id);
      }
      spent += performance.now() - began;
      const start = tokenizer.facts.start;
      set({ text: tokenizer.decode(start === null ? own : own.slice(1)), at: T });
      setSpeed((1000 * done) / spent);
      if (over) break;
      await new Promise((later) => setTimeout(later));
    }
    setWriting(false);
  };
  const strange = [...new Set(unknown)].slice(0, 8).map((piece) => `“${visible(piece)}”`).join(", ");
  return (
    <Room id="text" title={s.text} note={s.textNote}>
      <label class="ox-label" for="ox-typed">{s.yourText}</label>
      <textarea id="ox-typed" rows={3} dir="auto" spellcheck={false} value={state.text} disabled={writing}
        onInput={(event) => set({ text: event.currentTarget.value, at: T, picked: null })} />
      {unknown.length > 0 && <p class="ox-warning" role="status">{say(s.unknown, { what: strange })}</p>}
      {all > T && <p class="note" role="status">{say(s.cropped, { T, all })}</p>}
      <p class="ox-actions">
        {writing
          ? <button type="button" onClick={() => (stopped.current = true)}>{s.stopWriting}</button>
          : <>
            <button type="button" onClick={() => write(1)} disabled={!engine.length}>{s.writeOne}</button>
            <button type="button" onClick={() => write(MANY)} disabled={!engine.length}>{say(s.writeMany, { count: MANY })}</button>
            <button type="button" onClick={() => set({ text: facts.text, at: T, picked: null })}>{s.undo}</button>
          </>}
        {speed > 0 && <span class="note" data-speed={Math.round(speed)}>{say(s.speed, { speed: thousands(speed) })}</span>}
      </p>
      <div class="ox-tokens" role="group" aria-label={say(s.tokensLabel, { count: engine.length })}>
        {engine.ids.map((id, t) => {
          const p = t ? softmaxAt(engine.after(t - 1), id) : null;
          const title = p === null ? `${name(t)} · 0` : say(s.tokenTitle, { name: name(t), t, p: percent(p) });
          return (
            <button type="button" class="ox-token" key={t} aria-pressed={t === state.at} title={title} aria-label={title}
              style={p === null ? undefined : { "--p": Math.sqrt(p).toFixed(2) }} onClick={() => set({ at: t })}>
              <bdi>{name(t)}</bdi>
            </button>
          );
        })}
      </div>
    </Room>
  );
}

function softmaxAt(logits: Float32Array, id: number): number {
  let most = -Infinity, sum = 0;
  for (const x of logits) if (x > most) most = x;
  for (const x of logits) sum += Math.exp(x - most);
  return Math.exp(logits[id] - most) / sum;
}

function Next() {
  const { engine, tokenizer, facts, s, state, set, whole, name } = useShared(), { at, sampling } = state;
  const logits = engine.after(at), p = softmax(logits), kept = filtered(logits, sampling), before = whole && softmax(whole);
  const order = ranked(logits), V = facts.config.vocab;
  const most = Math.max(kept[order[0]], p[order[0]], before ? before[ranked(whole!)[0]] : 0) || 1;
  const target = engine.ids[at + 1];
  const shown = order.slice(0, SHOWN);
  if (target !== undefined && !shown.includes(target)) shown[SHOWN - 1] = target;
  const bar = (x: number) => `${(100 * x) / most}%`;
  const number = (key: "temperature" | "top_k" | "top_p" | "min_p", label: string, min: number, max: number, step: number, off: number | null) => {
    const value = sampling[key];
    return (
      <label class="ox-slider">
        <span>{label}</span>
        <input type="range" min={min} max={max} step={step} value={value ?? off!} aria-valuetext={value === null ? s.offWord : short(value)}
          onInput={(event) => {
            const given = Number(event.currentTarget.value);
            set({ sampling: { ...sampling, [key]: off !== null && given === off ? null : given } });
          }} />
        <output>{value === null ? s.offWord : short(value)}</output>
      </label>
    );
  };
  return (
    <div class="ox-next" id="ox-next">
      <h3>{s.next}</h3>
      <p class="note">{say(s.nextAfter, { name: name(at), t: at })}</p>
      <ol class="ox-bars">
        {shown.map((id) => (
          <li key={id} class={id === target ? "ox-came" : ""}>
            <button type="button" onClick={() => set({ picked: { kind: "logit", t: at, v: id } })}>
              <bdi class="ox-name">{tokenizer.name(id)}</bdi>
              <span class="ox-bar" aria-hidden="true">
                <i class="ox-pale" style={{ width: bar(p[id]) }} /><i class="ox-full" style={{ width: bar(kept[id]) }} />
                {before && <i class="ox-outline" style={{ width: bar(before[id]) }} />}
              </span>
              <span class="ox-value">{percent(kept[id] || (sampling.temperature === 0 ? kept[id] : 0) || p[id])}</span>
            </button>
          </li>
        ))}
      </ol>
      <p class="note">{s.pale}</p>
      {number("temperature", s.temperature, 0, 2, 0.05, null)}
      {number("top_k", s.topK, 1, Math.min(V, 100) + 1, 1, Math.min(V, 100) + 1)}
      {number("top_p", s.topP, 0.05, 1, 0.05, 1)}
      {number("min_p", s.minP, 0, 0.5, 0.01, 0)}
      {target !== undefined && (
        <p class="note">{say(s.came, { name: tokenizer.name(target), p: percent(p[target]), rank: order.indexOf(target) + 1, V: thousands(V), nats: short(-Math.log(p[target])) })}</p>
      )}
      {state.off.size > 0 && (
        <p class="ox-warning" role="status">
          {say(s.offParts, { parts: [...state.off].map((part) => partName(part, s)).join("; ") })}{" "}
          <button type="button" onClick={() => set({ off: new Set() })}>{s.allOn}</button>
        </p>
      )}
    </div>
  );
}

/** On narrow screens: the first guesses, always in sight. */
function Strip() {
  const { engine, tokenizer, s, state } = useShared(), logits = engine.after(state.at), p = softmax(logits);
  return (
    <a class="ox-strip" href="#ox-next" aria-label={s.next}>
      {ranked(logits).slice(0, 4).map((id) => <span key={id}><bdi>{tokenizer.name(id)}</bdi> {percent(p[id])}</span>)}
      {state.off.size > 0 && <b>{state.off.size} {s.offWord}</b>}
    </a>
  );
}

export function Room({ id, title, note, children }: { id: string; title: string; note?: string; children?: preact.ComponentChildren }) {
  return (
    <div class="ox-room" id={`ox-${id}`} role="region" aria-label={title}>
      <h3>{title}</h3>
      {note && <p class="note">{note}</p>}
      {children}
    </div>
  );
}

function Tour() {
  const { s, state, set } = useShared(), stop = state.stop, box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    document.querySelectorAll(".ox-here").forEach((element) => element.classList.remove("ox-here"));
    if (stop === null) return;
    const room = document.getElementById(`ox-${STOPS[stop]}`);
    room?.classList.add("ox-here");
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    room?.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
    box.current?.focus({ preventScroll: true });
    try {
      history.replaceState(null, "", `?stop=${stop + 1}${state.language === "de" ? "&lang=de" : ""}`);
    } catch {
      // a page in a frame keeps its address
    }
  }, [stop]);
  if (stop === null) return null;
  const [title, text] = s.stops[stop];
  return (
    <div class="ox-tour" role="dialog" aria-label={s.tour} tabIndex={-1} ref={box}
      onKeyDown={(event) => event.key === "Escape" && set({ stop: null })}>
      <p class="note">{say(s.tourStop, { n: stop + 1, all: s.stops.length })}</p>
      <h3>{title}</h3>
      <p>{text}</p>
      <p class="ox-actions">
        <button type="button" disabled={stop === 0} onClick={() => set({ stop: stop - 1 })}>{s.back}</button>
        <button type="button" class="ox-primary" disabled={stop === s.stops.length - 1} onClick={() => set({ stop: stop + 1 })}>{s.forth}</button>
        <button type="button" onClick={() => set({ stop: null })}>{s.close}</button>
      </p>
    </div>
  );
}
