// The rooms of the forward pass: the plan, vectors, a head, one number, the stream, feed-forward, the lens.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Room } from "./app";
import { partName, useShared } from "./context";
import { percent, short } from "./format";
import { Heat, Thumb } from "./heat";
import { ranked, softmax } from "./sampling";
import { say } from "./strings";
import { places, sumOf } from "./sums";

const TERMS = 8;
const LENS = 14; // positions beside each other
const PICTURE = 360; // pixels that a picture is high at most

const cellOf = (rows: number, cols: number, wide = 460): number => Math.max(2, Math.min(18, Math.floor(Math.min(PICTURE / rows, wide / cols))));

function Switch({ part }: { part: string }) {
  const { s, state, toggle } = useShared(), off = state.off.has(part);
  return (
    <label class="ox-switch">
      <input type="checkbox" checked={!off} onChange={() => toggle(part)} aria-label={say(s.switchOff, { part: partName(part, s) })} />
      <span aria-hidden="true">{off ? s.offWord : s.isOn}</span>
    </label>
  );
}

export function Plan() {
  const { engine, s, state, set, theme, facts } = useShared(), n = engine.length, { context: T } = engine.config;
  return (
    <Room id="plan" title={s.plan} note={s.planNote}>
      <div class="ox-plan">
        <div class="ox-floor ox-thin"><b>{s.embeddingRoom}</b><span>(V, C) → (T, C)</span></div>
        {engine.blocks.map((block, l) => (
          <div class="ox-floor" key={l}>
            <b>{say(s.block, { l })}</b>
            <div class="ox-part">
              <span class="ox-part-name">{s.attention} <Switch part={`b${l}.attention`} /></span>
              <div class="ox-thumbs">
                {Array.from({ length: engine.config.heads }, (_, h) => {
                  const found = facts.heads.find((one) => one.layer === l && one.head === h)?.name;
                  const named = found ? s[found as "previous" | "same" | "induction"] : "";
                  return (
                    <div class={`ox-head${state.off.has(`b${l}.h${h}`) ? " ox-is-off" : ""}`} key={h}>
                      <button type="button" aria-pressed={state.layer === l && state.head === h} aria-label={`${say(s.headOf, { l, h })} ${named}`}
                        onClick={() => set({ layer: l, head: h, picked: null })}>
                        <Thumb size={n} theme={theme} value={(t, i) => (i > t ? NaN : block.weights[(h * T + t) * T + i])} />
                      </button>
                      <span>{say(s.head, { h })} <Switch part={`b${l}.h${h}`} /></span>
                      {named && <em>{named}</em>}
                    </div>
                  );
                })}
              </div>
            </div>
            {engine.config.feed_forward !== "none" && (
              <div class="ox-part"><span class="ox-part-name">{s.feedForward} <Switch part={`b${l}.feed_forward`} /></span><span>(T, C) → (T, F) → (T, C)</span></div>
            )}
          </div>
        ))}
        <div class="ox-floor ox-thin"><b>{s.headRoom}</b><span>(T, C) → (T, V)</span></div>
      </div>
    </Room>
  );
}

export function Embedding() {
  const { engine, s, state, theme, name } = useShared(), { at } = state, C = engine.config.width;
  const { token, ngrams, position } = engine.parts(at), kind = engine.weight("positions.cos") ? s.positionsTurn : engine.weight("positions.weight") ? s.positionsTable : s.positionsNone;
  const rows: [string, Float32Array][] = [[say(s.tokenVector, { name: name(at) }), token]];
  ngrams.forEach((row, i) => rows.push([say(s.ngramVector, { n: i + 2 }), row]));
  if (position) rows.push([say(s.positionVector, { t: at }), position]);
  rows.push([s.streamStart, engine.start.subarray(at * C, at * C + C)]);
  const most = Math.max(...rows.map(([, row]) => row.reduce((a, x) => Math.max(a, Math.abs(x)), 0)));
  return (
    <Room id="embedding" title={s.embedding} note={`${say(s.embeddingNote, { positions: kind })}${ngrams.length ? ` ${s.ngrams}` : ""}`}>
      {rows.map(([label, row]) => <Heat key={label} label={label} rows={1} cols={C} width="full" height={22} most={most} theme={theme} value={(_, c) => row[c]} />)}
    </Room>
  );
}

export function Head() {
  const { engine, s, state, set, theme, name } = useShared(), { layer: l, head: h, picked, at } = state;
  const { head_width: D, context: T, heads: H, kv_heads: G, scale } = engine.config, n = engine.length, block = engine.blocks[l];
  const where = places(engine, h), square = cellOf(n, n, 330), tall = Math.min(n * 9, 300), wide = Math.max(120, Math.min(225, D * 14));
  const matrix = (kind: "q" | "k" | "v", label: string) => (
    <Heat label={label} rows={n} cols={D} width={wide} height={tall} theme={theme} rowName={name} colName={(d) => `d=${d}`}
      value={(t, d) => block.qkv[t * where.wide + where[kind] + d]}
      selected={picked?.kind === kind ? [picked.t, picked.d] : null} onPick={(t, d) => set({ picked: { kind, t, d } })} />
  );
  const score = (t: number, i: number) => {
    let sum = 0;
    for (let d = 0; d < D; d++) sum += block.qkv[t * where.wide + where.q + d] * block.qkv[i * where.wide + where.k + d];
    return sum * scale;
  };
  const weight = (t: number, i: number) => (i > t ? NaN : block.weights[(h * T + t) * T + i]);
  const looks = ranked(Array.from({ length: at + 1 }, (_, i) => weight(at, i)))[0];
  return (
    <Room id="head" title={`${s.headTitle}: ${say(s.headOf, { l, h })}`} note={`${s.headNote}${G < H ? ` ${say(s.groups, { n: H / G })}` : ""}`}>
      <div class="ox-row">{matrix("q", s.queries)}{matrix("k", s.keys)}{matrix("v", s.values)}</div>
      <div class="ox-row" id="ox-scores">
        <Heat label={s.scores} rows={n} cols={n} cell={square} theme={theme} rowName={name} colName={name} value={score}
          selected={picked?.kind === "score" ? [picked.t, picked.s] : null} onPick={(t, i) => set({ picked: { kind: "score", t, s: i } })} />
        <Heat label={s.weights} rows={n} cols={n} cell={square} most={1} theme={theme} rowName={name} colName={name} value={weight}
          selected={picked?.kind === "weight" ? [picked.t, picked.s] : null} onPick={(t, i) => set({ picked: { kind: "weight", t, s: i }, at: t })} />
      </div>
      <p class="note">{say(s.looksMost, { name: name(at), other: name(looks), p: percent(weight(at, looks)) })}</p>
      <div class="ox-row" id="ox-output">
        <Heat label={s.output} rows={n} cols={D} width={wide} height={tall} theme={theme} rowName={name} colName={(d) => `d=${d}`}
          value={(t, d) => block.joined[t * H * D + h * D + d]}
          selected={picked?.kind === "out" ? [picked.t, picked.d] : null} onPick={(t, d) => set({ picked: { kind: "out", t, d } })} />
      </div>
    </Room>
  );
}

export function OneNumber() {
  const { engine, s, state, set, name } = useShared(), box = useRef<HTMLDivElement>(null), { picked, layer, head } = state;
  useEffect(() => box.current?.scrollIntoView({ block: "nearest" }), [picked]);
  if (!picked || picked.t >= engine.length) return null;
  const sum = sumOf(engine, picked, layer, head, name, s);
  const order = [...sum.terms].sort((a, b) => Math.abs(b.product) - Math.abs(a.product)), rest = order.slice(TERMS);
  const most = Math.abs(order[0]?.product ?? 1) || 1;
  return (
    <div class="ox-number" aria-live="polite" ref={box}>
      <button type="button" class="ox-shut" aria-label={s.close} onClick={() => set({ picked: null })}>×</button>
      <h4>{s.number} <small>{s.numberNote}</small></h4>
      <p><code>{sum.title}</code><br /><code class="ox-formula">{sum.formula}</code></p>
      <p class="note">{say(s.terms, { n: sum.terms.length })}</p>
      <table class="ox-terms"><tbody>
        {order.slice(0, TERMS).map((term) => (
          <tr key={term.label}>
            <td><bdi>{term.label}</bdi></td>
            <td class="number">{term.b === null ? `e^${short(term.a)}` : `${short(term.a)} · ${short(term.b)}`}</td>
            <td class="number">{short(term.product)}</td>
            <td class="ox-term"><i class={term.product < 0 ? "ox-below" : ""} style={{ width: `${(100 * Math.abs(term.product)) / most}%` }} /></td>
          </tr>
        ))}
        {rest.length > 0 && (
          <tr><td>{say(s.rest, { n: rest.length })}</td><td /><td class="number">{short(rest.reduce((a, term) => a + term.product, 0))}</td><td /></tr>
        )}
      </tbody></table>
      {sum.after.map((line) => <p key={line} class="ox-after">{line}</p>)}
    </div>
  );
}

export function Stream() {
  const { engine, s, state, theme, name } = useShared(), { at } = state, C = engine.config.width;
  const row = (x: Float32Array) => x.subarray(at * C, at * C + C), norm = (x: Float32Array) => Math.sqrt(x.reduce((a, v) => a + v * v, 0));
  const stages: { label: string; x: Float32Array; added: Float32Array | null }[] = [{ label: s.embeddingRoom, x: row(engine.start), added: null }];
  engine.blocks.forEach((block, l) => {
    stages.push({ label: `${say(s.block, { l })}, ${s.attention}`, x: row(block.middle), added: row(block.attention) });
    if (engine.config.feed_forward !== "none") stages.push({ label: `${say(s.block, { l })}, ${s.feedForward}`, x: row(block.out), added: row(block.forward) });
  });
  const most = Math.max(...stages.map(({ x, added }) => Math.max(norm(x), added ? norm(added) : 0))) || 1;
  const long = (x: Float32Array) => `${100 * Math.sqrt(norm(x) / most)}%`; // roots, for the last may be a hundred times the first
  return (
    <Room id="stream" title={s.stream} note={say(s.streamNote, { name: name(at), t: at })}>
      <table class="ox-stages"><tbody>
        {stages.map(({ label, x, added }) => (
          <tr key={label}>
            <td>{label}</td>
            <td class="ox-double" role="img" aria-label={`${s.length} ${short(norm(x))}${added ? `, ${s.added} ${short(norm(added))}` : ""}`}>
              <i style={{ width: long(x) }} />
              {added && <i class="ox-added" style={{ width: long(added) }} />}
            </td>
            <td class="number">{short(norm(x))}{added && <small>+ {short(norm(added))}</small>}</td>
          </tr>
        ))}
      </tbody></table>
      <Heat label={s.streamLabel} rows={stages.length} cols={C} width="full" height={stages.length * 14} theme={theme} value={(r, c) => stages[r].x[c]} />
    </Room>
  );
}

export function FeedForward() {
  const { engine, tokenizer, s, state, set, theme, name } = useShared(), { at, layer: l, picked } = state, { features: F, width: C } = engine.config;
  if (!F) return <Room id="feed-forward" title={s.ffTitle} note={s.ffNone} />;
  const block = engine.blocks[l], own = block.hidden.subarray(at * F, at * F + F), n = engine.length;
  const active = own.reduce((count, x) => count + (Math.abs(x) > 1e-3 ? 1 : 0), 0) / F;
  const strongest = ranked(Float32Array.from(own, Math.abs)).slice(0, 4);
  const down = engine.weight(`blocks.${l}.feed_forward.down_proj.weight`)!, head = engine.head, V = engine.config.vocab;
  const writes = (f: number): string => {
    const logits = new Float32Array(V), sign = Math.sign(own[f]);
    for (let v = 0; v < V; v++) {
      let sum = 0;
      for (let c = 0; c < C; c++) sum += head[v * C + c] * down[c * F + f];
      logits[v] = sign * sum;
    }
    return ranked(logits).slice(0, 5).map((id) => tokenizer.name(id)).join("  ");
  };
  return (
    <Room id="feed-forward" title={`${s.ffTitle}: ${say(s.block, { l })}`} note={say(s.ffNote, { F, share: percent(active) })}>
      <Heat label={s.hidden} rows={n} cols={F} width="full" height={Math.min(240, n * 8)} theme={theme} rowName={name} colName={(f) => `f=${f}`}
        value={(t, f) => block.hidden[t * F + f]} selected={picked?.kind === "hidden" ? [picked.t, picked.f] : null} onPick={(t, f) => set({ picked: { kind: "hidden", t, f } })} />
      <ul class="ox-list">
        {strongest.map((f) => (
          <li key={f}><button type="button" onClick={() => set({ picked: { kind: "hidden", t: at, f } })}>{say(s.neuron, { f })}</button> <b>{short(own[f])}</b> {say(s.wouldWrite, { tokens: "" })}<bdi class="ox-pieces">{writes(f)}</bdi></li>
        ))}
      </ul>
    </Room>
  );
}

export function Lens() {
  const { engine, tokenizer, s, state, set, name } = useShared(), { at } = state, V = engine.config.vocab, n = engine.length;
  const from = Math.max(0, Math.min(at - LENS + 4, n - LENS)), to = Math.min(n, from + LENS);
  const spare = useMemo(() => new Float32Array(V), []);
  const streams = [engine.start, ...engine.blocks.map((block) => block.out)];
  const cells = streams.map((stream) => Array.from({ length: to - from }, (_, i) => {
    const p = softmax(engine.lens(stream, from + i, spare)), id = ranked(p)[0];
    return { id, p: p[id] };
  }));
  const last = cells[cells.length - 1];
  return (
    <Room id="lens" title={s.lens} note={s.lensNote}>
      <div class="ox-scroll" tabIndex={0} role="group" aria-label={s.lens}>
        <table class="ox-lens">
          <thead><tr><th />{last.map((_, i) => <th key={i} scope="col" aria-current={from + i === at ? "true" : undefined}><button type="button" onClick={() => set({ at: from + i })}><bdi>{name(from + i)}</bdi></button></th>)}</tr></thead>
          <tbody>
            {[...cells.keys()].reverse().map((r) => (
              <tr key={r}>
                <th scope="row">{r ? say(s.afterBlock, { l: r - 1 }) : s.afterEmbedding}</th>
                {cells[r].map(({ id, p }, i) => (
                  <td key={i} class={id === last[i].id ? "ox-agrees" : ""} style={{ "--p": p.toFixed(2) }}><bdi>{tokenizer.name(id)}</bdi><small>{percent(p)}</small></td>
                ))}
              </tr>
            ))}
            <tr class="ox-actual"><th scope="row">{s.actual}</th>{last.map((_, i) => <td key={i}><bdi>{from + i + 1 < n ? name(from + i + 1) : "·"}</bdi></td>)}</tr>
          </tbody>
        </table>
      </div>
    </Room>
  );
}
