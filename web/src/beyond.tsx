// What was measured, and what is not one forward pass: named heads, surgery, the map, time, the floor, paper.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Room } from "./app";
import { bytesOf } from "./arena";
import { partName, useShared } from "./context";
import type { Interval } from "./facts";
import { percent, short, signed, thousands } from "./format";
import { Heat } from "./heat";
import { B, C_K, C_Q, E, masked, type Matrix, scores, softmaxRows } from "./paper";
import { ranked } from "./sampling";
import { say } from "./strings";

const NAMED = 0.4;
const NEAREST = 10;
const LABELS = 120; // tokens that have their names on the map

function Change({ change }: { change: Interval | undefined }) {
  if (!change) return <>–</>;
  return <>{signed(change.mean)} <small>{signed(change.low)} … {signed(change.high)}</small></>;
}

export function Heads() {
  const { facts, s, state, set } = useShared();
  if (!facts.heads.length) return <Room id="heads" title={s.heads} note={s.noHeads} />;
  const score = (value: number, own: boolean) => <td class={`number${own ? " ox-strong" : ""}`}>{value.toFixed(2)}</td>;
  return (
    <Room id="heads" title={s.heads} note={say(s.headsNote, { named: NAMED })}>
      <div class="ox-scroll" tabIndex={0} role="group" aria-label={s.heads}>
        <table class="ox-table">
          <thead><tr><th>{s.headColumn}</th><th>{s.nameColumn}</th><th class="number">{s.previous}</th><th class="number">{s.same}</th><th class="number">{s.induction}</th><th class="number">{s.worth}</th></tr></thead>
          <tbody>
            {facts.heads.map((one) => (
              <tr key={`${one.layer}.${one.head}`}>
                <td><button type="button" aria-pressed={state.layer === one.layer && state.head === one.head} onClick={() => {
                  set({ layer: one.layer, head: one.head, picked: null });
                  document.getElementById("ox-head")?.scrollIntoView({ block: "start" });
                }}>{say(s.headOf, { l: one.layer, h: one.head })}</button></td>
                <td>{one.name ? <b>{s[one.name as "previous" | "same" | "induction"]}</b> : "–"}</td>
                {score(one.previous, one.name === "previous")}{score(one.same, one.name === "same")}{score(one.induction, one.name === "induction")}
                <td class="number"><Change change={facts.measured?.parts[`b${one.layer}.h${one.head}`]} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Room>
  );
}

export function Surgery() {
  const { facts, s, state, toggle } = useShared(), { measured, config } = facts;
  const parts = config.positions === "none" ? [] : ["positions"];
  if (config.counts) parts.unshift("counts");
  for (let l = 0; l < config.layers; l++) {
    parts.push(`b${l}.attention`);
    for (let h = 0; h < config.heads; h++) parts.push(`b${l}.h${h}`);
    if (config.feed_forward !== "none") parts.push(`b${l}.feed_forward`);
  }
  // A scale of square roots, so that small changes are seen beside large ones.
  const root = (x: number) => Math.sign(x) * Math.sqrt(Math.abs(x)), ends = Object.values(measured?.parts ?? {}).flatMap((one) => [root(one.low), root(one.high)]);
  const least = Math.min(0, ...ends), most = Math.max(1e-9, ...ends);
  const place = (x: number) => `${((100 * (root(x) - least)) / (most - least)).toFixed(1)}%`;
  return (
    <Room id="surgery" title={s.surgery} note={measured ? say(s.surgeryNote, { tokens: thousands(measured.tokens), rows: measured.rows }) : s.surgeryUnmeasured}>
      <div class="ox-scroll" tabIndex={0} role="group" aria-label={s.surgery}>
        <table class="ox-table ox-surgery">
          <thead><tr><th>{s.part}</th><th class="number">{measured ? say(s.change, { unit: measured.unit }) : ""}</th><th /></tr></thead>
          <tbody>
            {parts.map((part) => {
              const change = measured?.parts[part], inner = part.includes(".h");
              return (
                <tr key={part} class={state.off.has(part) ? "ox-is-off" : ""}>
                  <td><label class={inner ? "ox-inner" : ""}><input type="checkbox" checked={!state.off.has(part)} onChange={() => toggle(part)} /> {partName(part, s)}</label></td>
                  <td class="number">{measured ? <Change change={change} /> : ""}</td>
                  <td class="ox-interval">{change && <span role="img" aria-label={change.low <= 0 && change.high >= 0 ? s.nothing : `${signed(change.low)} … ${signed(change.high)}`}>
                    <s style={{ left: place(0) }} /><i style={{ left: place(change.low), right: `calc(100% - ${place(change.high)})` }} /><b style={{ left: place(change.mean) }} /></span>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Room>
  );
}

interface Plane {
  x: Float64Array;
  y: Float64Array;
  share: number;
}

/** The two main directions of rows (V, C), and the share of the variance that they hold (power iteration). */
export function plane(table: Float32Array, V: number, C: number): Plane {
  const mean = new Float64Array(C);
  for (let v = 0; v < V; v++) for (let c = 0; c < C; c++) mean[c] += table[v * C + c] / V;
  const covariance = new Float64Array(C * C);
  for (let v = 0; v < V; v++)
    for (let a = 0; a < C; a++) {
      const x = (table[v * C + a] - mean[a]) / V;
      for (let b = 0; b <= a; b++) covariance[a * C + b] += x * (table[v * C + b] - mean[b]);
    }
  for (let a = 0; a < C; a++) for (let b = a + 1; b < C; b++) covariance[a * C + b] = covariance[b * C + a];
  let all = 0, held = 0;
  for (let c = 0; c < C; c++) all += covariance[c * C + c];
  const axes: Float64Array[] = [];
  for (let n = 0; n < 2; n++) {
    let axis = Float64Array.from({ length: C }, (_, c) => Math.sin(1 + c * (n + 1)));
    for (let step = 0; step < 60; step++) {
      const next = new Float64Array(C);
      for (let a = 0; a < C; a++) for (let b = 0; b < C; b++) next[a] += covariance[a * C + b] * axis[b];
      for (const other of axes) {
        const along = next.reduce((sum, x, c) => sum + x * other[c], 0);
        for (let c = 0; c < C; c++) next[c] -= along * other[c];
      }
      const length = Math.hypot(...next) || 1;
      axis = next.map((x) => x / length);
      if (step === 59) held += length;
    }
    axes.push(axis);
  }
  const along = (axis: Float64Array) => Float64Array.from({ length: V }, (_, v) => axis.reduce((sum, x, c) => sum + x * (table[v * C + c] - mean[c]), 0));
  return { x: along(axes[0]), y: along(axes[1] ?? axes[0]), share: all ? held / all : 0 };
}

export function TokenMap() {
  const { engine, tokenizer, s, state, theme } = useShared(), { vocab: V, width: C } = engine.config;
  const found = useMemo(() => plane(engine.embedding, V, C), []), canvas = useRef<HTMLCanvasElement>(null);
  const [chosen, choose] = useState<number | null>(null), token = chosen ?? engine.ids[state.at] ?? 0;
  const distance = (v: number) => {
    let square = 0;
    for (let c = 0; c < C; c++) square += (engine.embedding[v * C + c] - engine.embedding[token * C + c]) ** 2;
    return Math.sqrt(square);
  };
  const far = Float64Array.from({ length: V }, (_, v) => -distance(v)), near = ranked(far).filter((v) => v !== token).slice(0, NEAREST);
  const bounds = useMemo(() => [found.x, found.y].map((xs) => [Math.min(...xs), Math.max(...xs)]), [found]);
  const spot = (v: number): [number, number] => [found.x[v], found.y[v]].map((x, i) => 0.04 + (0.92 * (x - bounds[i][0])) / (bounds[i][1] - bounds[i][0] || 1)) as [number, number];
  useEffect(() => {
    const element = canvas.current, context = element?.getContext("2d");
    if (!element || !context) return;
    const style = getComputedStyle(document.documentElement), ratio = window.devicePixelRatio || 1, size = element.clientWidth || 400;
    const tall = Math.round(size * 0.7);
    element.width = size * ratio;
    element.height = tall * ratio;
    context.scale(ratio, ratio);
    context.font = "12px ui-monospace, monospace";
    context.textAlign = "center";
    context.textBaseline = "middle";
    const at = (v: number): [number, number] => [spot(v)[0] * size, spot(v)[1] * tall], colour = (name: string) => style.getPropertyValue(name).trim();
    context.strokeStyle = colour("--model");
    for (const v of near) {
      context.globalAlpha = 0.45;
      context.beginPath();
      context.moveTo(...at(token));
      context.lineTo(...at(v));
      context.stroke();
    }
    const close = new Set(near);
    for (let v = 0; v < V; v++) {
      const own = v === token || close.has(v);
      context.globalAlpha = own ? 1 : 0.6;
      context.fillStyle = v === token ? colour("--model") : own ? colour("--ink") : colour("--muted");
      if (V <= LABELS || own) context.fillText(tokenizer.name(v), ...at(v));
      else context.fillRect(at(v)[0] - 1, at(v)[1] - 1, 2, 2);
    }
  }, [token, theme, found]);
  const pick = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect(), x = (event.clientX - box.left) / box.width, y = (event.clientY - box.top) / box.height;
    choose(ranked(Float64Array.from({ length: V }, (_, v) => -Math.hypot(spot(v)[0] - x, 0.7 * (spot(v)[1] - y))))[0]);
  };
  return (
    <Room id="map" title={s.map} note={say(s.mapNote, { share: percent(found.share) })}>
      <div class="ox-row ox-map">
        <canvas ref={canvas} role="img" aria-label={say(s.mapLabel, { count: V, name: tokenizer.name(token) })} onClick={pick} />
        <div>
          <label class="ox-label">{s.chooseToken}{" "}
            <select value={token} onChange={(event) => choose(Number(event.currentTarget.value))}>
              {tokenizer.facts.names.map((_, id) => <option key={id} value={id}>{tokenizer.name(id)}</option>)}
            </select>
          </label>
          <h4>{say(s.nearest, { name: tokenizer.name(token) })}</h4>
          <ol class="ox-list">{near.map((v) => <li key={v}><button type="button" onClick={() => choose(v)}><bdi>{tokenizer.name(v)}</bdi></button> <small>{s.distance} {short(distance(v))}</small></li>)}</ol>
        </div>
      </div>
    </Room>
  );
}

export function Story() {
  const { facts, s, state, theme } = useShared(), { story } = facts, [at, go] = useState(story.length - 1), [sentence, choose] = useState(0);
  if (!story.length) return <Room id="story" title={s.story} note={s.storyNone} />;
  const chapter = story[at], probe = chapter.probes[Math.min(sentence, chapter.probes.length - 1)], n = probe.tokens.length;
  const weights = bytesOf(probe.attention), { heads: H } = facts.config, from = (state.layer * H + state.head) * n * n;
  return (
    <Room id="story" title={s.story} note={s.storyNote}>
      <label class="ox-slider ox-wide"><span>{say(s.step, { step: thousands(chapter.step) })}</span>
        <input type="range" min={0} max={story.length - 1} step={1} value={at} aria-valuetext={say(s.step, { step: chapter.step })} onInput={(event) => go(Number(event.currentTarget.value))} />
        <output>{say(s.stepLoss, { loss: chapter.loss.toFixed(3) })}</output></label>
      <div class="ox-curve" aria-hidden="true">
        {story.map((one, i) => <i key={one.step} class={i === at ? "ox-now" : ""} style={{ height: `${Math.max(3, (100 * one.loss) / Math.max(...story.map((each) => each.loss)))}%` }} />)}
      </div>
      {chapter.probes.length > 1 && (
        <label class="ox-label">{s.probe} <select value={sentence} onChange={(event) => choose(Number(event.currentTarget.value))}>{chapter.probes.map((one, i) => <option key={i} value={i}>{i + 1}: {one.tokens.slice(0, 8).join(" ")}</option>)}</select></label>
      )}
      <div class="ox-row">
        <Heat label={`${say(s.headOf, { l: state.layer, h: state.head })} · ${s.weights}`} rows={n} cols={n} cell={Math.max(4, Math.floor(300 / n))} most={1} theme={theme} value={(t, i) => (i > t ? NaN : weights[from + t * n + i] / 255)} />
        <div class="ox-grow"><h4>{s.wrote}</h4><pre class="sample ox-sample" dir="auto">{chapter.sample}</pre></div>
      </div>
      <div class="ox-scroll" tabIndex={0} role="group" aria-label={`${s.story}: ${s.lens}`}>
        <table class="ox-lens">
          <thead><tr><th />{probe.tokens.map((name, t) => <th key={t} scope="col"><bdi>{name}</bdi></th>)}</tr></thead>
          <tbody>{[...probe.lens.keys()].reverse().map((r) => (
            <tr key={r}><th scope="row">{r ? say(s.afterBlock, { l: r - 1 }) : s.afterEmbedding}</th>
              {probe.lens[r].map(([name, p], t) => <td key={t} class={name === probe.tokens[t + 1] ? "ox-agrees" : ""} style={{ "--p": p.toFixed(2) }}><bdi>{name}</bdi><small>{percent(p)}</small></td>)}</tr>
          ))}</tbody>
        </table>
      </div>
    </Room>
  );
}

export function Floor() {
  const { facts, s } = useShared(), { floor } = facts, [at, go] = useState(0);
  if (!floor.length) return null;
  const text = floor[at];
  return (
    <Room id="floor" title={s.floor} note={s.floorNote}>
      <div class="ox-key"><span class="ox-best">{s.best}</span><span class="ox-own">{s.model}</span></div>
      {floor.length > 1 && <label class="ox-label">{s.text} <select value={at} onChange={(event) => go(Number(event.currentTarget.value))}>{floor.map((one, i) => <option key={i} value={i}>{i + 1}: {one.tokens.slice(0, 8).join(" ")}</option>)}</select></label>}
      <div class="ox-scroll" tabIndex={0} role="group" aria-label={s.floor}>
        <div class="ox-floors">
          {text.tokens.map((name, t) => (
            <div key={t} class={`ox-floor-token${text.model[t] < text.best[t] / 2 ? " ox-lacking" : ""}`} role="img" aria-label={`${name}: ${s.best} ${percent(text.best[t])}, ${s.model} ${percent(text.model[t])}`}>
              <span class="ox-columns-pair"><i class="ox-best" style={{ height: `${100 * text.best[t]}%` }} /><i class="ox-own" style={{ height: `${100 * text.model[t]}%` }} /></span>
              <bdi>{name}</bdi>
            </div>
          ))}
        </div>
      </div>
    </Room>
  );
}

function Numbers({ rows, title, bold }: { rows: Matrix; title: string; bold?: number }) {
  const cell = (x: number) => (x === -Infinity ? "−∞" : x === Math.round(x) ? String(x) : x.toFixed(4));
  return (
    <div class="ox-scroll" tabIndex={0} role="group" aria-label={title}>
      <table class="ox-paper-table">
        <caption>{title}</caption>
        <tbody>{rows.map((row, r) => <tr key={r} class={r === bold ? "ox-strong" : ""}>{row.map((x, c) => <td key={c} class="number">{cell(x)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

export function Paper() {
  const { engine, s, state, name } = useShared(), { layer, head, at } = state, T = engine.config.context;
  const b = scores(B, B, 1 / Math.sqrt(3), true), c = scores(C_Q, C_K, 1, false);
  const own = engine.length ? Array.from({ length: at + 1 }, (_, i) => engine.blocks[layer].weights[(head * T + at) * T + i]) : [];
  const top = ranked(own).slice(0, 6).sort((x, y) => x - y);
  return (
    <Room id="paper" title={s.paper} note={s.paperNote}>
      <details id="ox-paper-b" open><summary>{s.paperB}</summary><p class="note">{s.paperBNote}</p>
        <div class="ox-row"><Numbers title="Q = K = V (T, D)" rows={B} /><Numbers title={s.scores} rows={b} bold={2} /><Numbers title="softmax" rows={softmaxRows(b)} bold={2} /></div></details>
      <details id="ox-paper-c"><summary>{s.paperC}</summary><p class="note">{s.paperCNote}</p>
        <div class="ox-row"><Numbers title="Q (T, D)" rows={C_Q} /><Numbers title="K (T, D)" rows={C_K} /><Numbers title={s.withoutMask} rows={softmaxRows(c)} bold={0} /><Numbers title={s.withMask} rows={softmaxRows(masked(c))} bold={2} /></div></details>
      <details id="ox-paper-e"><summary>{s.paperE}</summary><p class="note">{s.paperENote}</p>
        <div class="ox-row"><Numbers title={s.scores} rows={E} /><Numbers title={s.withMask} rows={masked(E)} /><Numbers title="softmax" rows={softmaxRows(masked(E))} bold={2} /></div></details>
      {own.length > 0 && (
        <div class="ox-scroll" tabIndex={0} role="group" aria-label={say(s.yours, { r: at, l: layer, h: head })}><table class="ox-paper-table"><caption>{say(s.yours, { r: at, l: layer, h: head })}</caption><tbody>
          <tr>{top.map((i) => <th key={i} scope="col"><bdi>{name(i)}</bdi></th>)}</tr>
          <tr>{top.map((i) => <td key={i} class="number">{own[i].toFixed(4)}</td>)}</tr>
        </tbody></table></div>
      )}
    </Room>
  );
}
