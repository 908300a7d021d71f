// Runs side by side: which there are, their curves, what they write, and what studies say of them.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { short } from "../format";
import { say } from "../strings";
import { ask, openWindow } from "./api";
import { Chart, type Banded, type Curve } from "./chart";
import { curves } from "./curves";
import { Jobs, start } from "./jobs";
import { Command, shortName, TimeLeft, Trouble } from "./pieces";
import { address, put, useRoute } from "./route";
import { band, Smoothed, type Points, type Table } from "./series";
import { runsOf, useThings, type Job, type Run, type Study } from "./things";
import { ago, count, useWords } from "./words";

const COLOURS = 10, DASHES: number[][] = [[], [7, 4], [2, 3], [10, 3, 2, 3], [1, 5]], FIRST = 6, FILTERED = 9;
const MORE = [5, 30];
const LOSS = "loss", BITS = "validation.bits_per_byte", SMOOTH = "0.6";

/** The colour of the nth run shown. */
export const colourOf = (n: number): string => `--run-${n % COLOURS}`;

/** Smoothed curves, kept with the tables that they are of: more rows go on where the mean was. */
const smoothed = new WeakMap<Table, Map<string, Smoothed>>();

function smooth(table: Table, key: string, share: number, points: Points): Points {
  if (!share) return points;
  let of = smoothed.get(table);
  if (!of) smoothed.set(table, (of = new Map()));
  let kept = of.get(key);
  if (!kept || kept.share !== share) of.set(key, (kept = new Smoothed(share)));
  return { ...points, y: kept.of(points.y) };
}

export function Watch() {
  const { s } = useWords(), them = useThings(), { at } = useRoute();
  const every = runsOf(them), studies = them.all<Study>("study");
  const known = new Map(every.map((run) => [run.id, run]));
  const asked = at.getAll("run"), none = at.get("none") === "1";
  const first = every.filter((run) => !run.study && (run.metrics || run.held)).slice(0, FIRST).map((run) => run.id);
  const wanted = asked.length ? asked : none ? [] : first;
  const shown = wanted.filter((id) => known.has(id)), missing = wanted.filter((id) => !known.has(id));
  const focus = known.get(at.get("focus") ?? "") ?? known.get(shown[0] ?? "");
  const show = (ids: string[]) => put({ run: ids, none: ids.length ? null : "1" });
  if (!every.length) {
    const coming = them.all<Job>("job").some((job) => job.running);
    return (
      <>
        <Jobs kinds={["train", "more", "demo", "tune"]} />
        <section class="oo-empty">
          <h1>{s.watchTitle}</h1>
          {coming ? <p class="oo-note oo-busy" role="status">{s.runComing}</p> : <><p>{s.noRuns}</p><p><a class="oo-button oo-primary" href={address("start")}>{s.startOne}</a></p></>}
        </section>
      </>
    );
  }
  return (
    <div class="oo-watch">
      <div class="oo-lead"><h1>{s.watchTitle}</h1><p>{s.watchLead}</p></div>
      <Jobs kinds={["train", "more", "demo", "tune"]} />
      {missing.length > 0 && <p class="oo-banner" role="status">{say(s.deleted, { names: missing.map(shortName).join(", ") })} <button type="button" onClick={() => show(shown)}>{s.close}</button></p>}
      <div class="oo-split">
        <RunList runs={every} shown={shown} focus={focus?.id ?? null} show={show} />
        <div class="oo-main">
          <Curves runs={shown.map((id) => known.get(id)!)} studies={studies} />
          {focus && <About run={focus} key={focus.id} />}
        </div>
      </div>
      {studies.length > 0 && <Studies studies={studies} runs={every} show={show} />}
    </div>
  );
}

function RunList({ runs, shown, focus, show }: { runs: Run[]; shown: string[]; focus: string | null; show: (ids: string[]) => void }) {
  const { s } = useWords(), [filter, setFilter] = useState("");
  const place = new Map(shown.map((id, n) => [id, n]));
  const found = runs.filter((run) => run.id.toLowerCase().includes(filter.toLowerCase()));
  return (
    <section class="oo-runs" id="oo-runs" aria-label={s.runs}>
      <h2>{s.runs}</h2>
      <div class="oo-bar">
        <span class="oo-note">{say(s.shown, { n: shown.length, all: runs.length })}</span>
        <button type="button" class="oo-plain" onClick={() => show(found.filter((run) => run.metrics).map((run) => run.id))}>{s.showAll}</button>
        <button type="button" class="oo-plain" onClick={() => show([])}>{s.showNone}</button>
      </div>
      {runs.length > FILTERED && <input type="search" placeholder={s.filter} aria-label={s.filterLabel} value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />}
      <ul>
        {found.map((run) => {
          const n = place.get(run.id), share = run.steps ? Math.min(1, run.step / run.steps) : null;
          return (
            <li key={run.id} class={run.id === focus ? "oo-focus" : ""} data-run={run.id} data-state={run.state}>
              <label>
                <input type="checkbox" checked={n !== undefined} aria-label={run.id} style={n === undefined ? {} : { accentColor: `var(${colourOf(n)})` }}
                  onChange={() => show(n === undefined ? [...shown, run.id] : shown.filter((id) => id !== run.id))} />
                <i class="oo-swatch" style={n === undefined ? {} : { background: `var(${colourOf(n)})` }} />
              </label>
              <button type="button" class="oo-run" title={say(s.choose, { name: run.id })} onClick={() => put({ focus: run.id, ...(n === undefined ? { run: [...shown, run.id], none: null } : {}) })}>
                <b>{shortName(run.id)}</b>
                <span class={`oo-state oo-${run.state}`}>{run.held ? <TimeLeft run={run} /> : s.states[run.state]}</span>
                <small>{run.held && share !== null ? say(s.stepOf, { step: run.step, steps: run.steps! }) : run.written ? ago(run.written, s) : ""}</small>
                <em>{run.bits !== null ? run.bits.toFixed(3) : run.loss !== null ? short(run.loss) : ""}</em>
                {run.held && share !== null && <span class="oo-progress"><i style={{ width: `${100 * share}%` }} /></span>}
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Curves({ runs, studies }: { runs: Run[]; studies: Study[] }) {
  const { s, theme } = useWords(), { at } = useRoute(), [version, again] = useState(0);
  const ids = runs.map((run) => run.id).join("\n");
  useEffect(() => {
    const stop = curves.listen(() => again((n) => n + 1));
    again((n) => n + 1); // as in useThings
    return stop;
  }, []);
  useEffect(() => curves.want(runs.map((run) => run.id)), [ids]);
  const keys = useMemo(() => {
    const found = new Set<string>();
    for (const run of runs) for (const key of curves.of(run.id)?.keys() ?? []) if (!/\.(step|tokens|seconds|best|bytes)$/.test(key)) found.add(key);
    return [...found].sort();
  }, [ids, version]);
  const bits = runs.some((run) => run.bits !== null), chosen = at.get("what") ?? (bits ? BITS : LOSS);
  const over = at.get("over") ?? "step", share = Number(at.get("smooth") ?? SMOOTH), logX = at.get("logx") === "1", logY = at.get("logy") === "1";
  const zoomed = (at.get("zoom") ?? "").split("_").map(Number), zoom = zoomed.length === 2 && zoomed.every(Number.isFinite) && zoomed[1] > zoomed[0] ? (zoomed as [number, number]) : null;
  const grouped = at.get("bands") === "1";
  const drawn = useMemo(() => {
    const one: Curve[] = [], groups = new Map<string, { label: string; points: Points[] }>();
    runs.forEach((run, n) => {
      const metrics = curves.of(run.id);
      if (!metrics) return;
      const wanted = chosen === LOSS ? ["train.loss", "validation.loss"] : [chosen];
      for (const key of wanted) {
        const points = metrics.points(key, over), event = key.slice(0, key.indexOf("."));
        if (!points) continue;
        const judged = event === "validation", table = metrics.tables.get(event)!;
        const made = judged ? points : smooth(table, key, share, points);
        if (grouped && run.study && run.variant) {
          if (chosen === LOSS && !judged) continue;
          const name = `${run.study} ${run.variant}`, group = groups.get(name) ?? { label: run.variant, points: [] };
          group.points.push(made);
          groups.set(name, group);
          continue;
        }
        const beside = judged && chosen === LOSS;
        one.push({
          id: `${run.id} ${key}`, label: shortName(run.id) + (beside ? `, ${s.heldOut}` : ""), colour: colourOf(n),
          dash: beside ? [5, 3] : DASHES[Math.floor(n / COLOURS) % DASHES.length], dots: judged, points: made, raw: made === points ? undefined : points,
        });
      }
    });
    const bands: Banded[] = [...groups].flatMap(([id, group], n) => {
      const found = band(group.points);
      return found ? [{ id, label: `${group.label} (${say(s.seeds, { n: found.of })})`, colour: colourOf(n), band: found }] : [];
    });
    return { one, bands };
  }, [ids, version, chosen, over, share, grouped, s]);
  const name = s.measures[chosen] ?? chosen, options = [BITS, LOSS, ...keys.filter((key) => key !== BITS)];
  const check = (key: string, label: string, on: boolean) => (
    <label class="oo-check"><input type="checkbox" checked={on} onChange={() => put({ [key]: on ? null : "1" })} /> {label}</label>
  );
  return (
    <section id="oo-curves" aria-label={name}>
      <div class="oo-controls">
        <label>{s.measure} <select value={chosen} onChange={(event) => put({ what: event.currentTarget.value, zoom: null })}>
          {[...new Set([chosen, ...options])].map((key) => <option key={key} value={key}>{s.measures[key] ?? key}</option>)}
        </select></label>
        <label>{s.over} <select value={over} onChange={(event) => put({ over: event.currentTarget.value, zoom: null })}>
          {Object.keys(s.overs).map((key) => <option key={key} value={key}>{s.overs[key]}</option>)}
        </select></label>
        {!chosen.startsWith("validation.") && <label class="oo-smooth">{s.smoothing} <input type="range" min="0" max="0.99" step="0.01" value={share} onInput={(event) => put({ smooth: event.currentTarget.value })} /><output>{share.toFixed(2)}</output></label>}
        <span class="oo-checks">{check("logx", s.logX, logX)}{check("logy", s.logY, logY)}{studies.length > 0 && check("bands", s.bands, grouped)}</span>
      </div>
      <Chart label={name} xLabel={s.overs[over] ?? over} yLabel={name} curves={drawn.one} bands={drawn.bands} logX={logX} logY={logY} zoom={zoom} theme={theme}
        onZoom={(zoom) => put({ zoom: zoom && zoom.map((x) => x.toPrecision(7)).join("_") })}
        words={{ help: s.chartHelp, nothing: curves.complete ? s.nothingToDraw : s.loadingCurves, reset: s.resetZoom }} />
      <p class="oo-note oo-hint">{s.chartHint}</p>
      <ul class="oo-key">{drawn.bands.map((each) => <li key={each.id}><i style={{ background: `var(${each.colour})` }} />{each.label}</li>)}
        {!drawn.bands.length && runs.length <= COLOURS && runs.map((run, n) => <li key={run.id}><i style={{ background: `var(${colourOf(n)})` }} />{shortName(run.id)}</li>)}</ul>
      <details class="oo-table">
        <summary>{s.table}</summary>
        <table>
          <thead><tr><th>{s.run}</th><th>{s.state}</th><th class="oo-number">{s.best}</th><th class="oo-number">{s.steps}</th></tr></thead>
          <tbody>{runs.map((run) => <tr key={run.id}><td>{shortName(run.id)}</td><td>{s.states[run.state]}</td><td class="oo-number">{run.bits?.toFixed(4) ?? (run.loss === null ? "–" : short(run.loss))}</td><td class="oo-number">{run.step}</td></tr>)}</tbody>
        </table>
      </details>
    </section>
  );
}

function About({ run }: { run: Run }) {
  const { s, language } = useWords(), them = useThings(), [trouble, setTrouble] = useState<unknown>(null);
  const job = them.all<Job>("job").find((each) => each.running && each.about === run.path);
  const more = (minutes: number | null) => start({ kind: "more", run: run.id, minutes }).then(() => setTrouble(null), setTrouble);
  const mayGoOn = !run.held && !job && run.checkpoints.length > 0 && !run.changed.length;
  const facts: [string, string][] = [];
  if (run.promise) facts.push([s.promised, say(s.promisedValue, { bits: run.promise.bits.toFixed(2), within: run.promise.within.toFixed(2) })]);
  if (run.came_out !== null) facts.push([s.cameOut, run.came_out.toFixed(3)]);
  if (run.parameters) facts.push([s.parameters, count(run.parameters, language)]);
  if (run.counting !== null) facts.push([s.counted, `${Math.round(100 * run.counting)} %`]);
  if (run.texts.length) facts.push([s.text, run.texts.map((text) => text.split("/").pop()).join(", ")]);
  return (
    <section class="oo-about" id="oo-about" aria-label={say(s.choose, { name: run.id })}>
      <h2>{shortName(run.id)} <span class={`oo-state oo-${run.state}`}><TimeLeft run={run} /></span></h2>
      {run.damage && <p class="oo-warning">{say(s.damage, { why: run.damage })}</p>}
      {run.changed.length > 0 && <p class="oo-warning">{say(s.textChanged, { text: run.changed.join(", ") })}</p>}
      <dl class="oo-facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {run.held && !job && <p class="oo-note">{s.heldElsewhere}</p>}
      <div class="oo-actions">
        {run.checkpoints.length > 0 && <a class="oo-button oo-primary" href={address("play", { run: run.id })}>{s.playIt}</a>}
        {job && <button type="button" title={s.stopNote} disabled={job.stopping} onClick={() => ask("/api/stop", { body: { job: job.id } }).then(() => setTrouble(null), setTrouble)}>{s.stop}</button>}
        {mayGoOn && run.state === "stopped" && <button type="button" onClick={() => more(null)}>{s.goOn}</button>}
        {mayGoOn && run.minutes !== null && MORE.map((n) => <button type="button" key={n} onClick={() => more(n)}>{say(s.moreMinutes, { n })}</button>)}
        {run.report && <button type="button" onClick={() => openWindow("/api/page", { run: run.id, which: "report" }).catch(setTrouble)}>{s.report}</button>}
      </div>
      <Trouble of={trouble} />
      <Samples run={run} />
      {run.verdict.length > 0 && <><h3>{s.said}</h3><ul class="oo-said" lang="en">{run.verdict.map((each) => <li key={each}>{each}</li>)}</ul></>}
      {run.next && <Command words={run.next} />}
    </section>
  );
}

function Samples({ run }: { run: Run }) {
  const { s } = useWords(), last = run.samples.length - 1, [place, setPlace] = useState<number | null>(null), [text, setText] = useState("");
  const at = Math.min(place ?? last, last), step = run.samples[at], wanted = useRef(-1);
  useEffect(() => {
    if (step === undefined) return;
    wanted.current = step;
    ask("/api/sample", { query: { run: run.id, step } }).then((response) => response.text()).then((found) => wanted.current === step && setText(found), () => setText(""));
  }, [run.id, step]);
  return (
    <div class="oo-samples" id="oo-samples">
      <h3>{s.samples}</h3>
      {step === undefined ? <p class="oo-note">{s.samplesNone}</p> : (
        <>
          {last > 0 && <input type="range" min="0" max={last} value={at} aria-label={s.samplesNote} aria-valuetext={say(s.atStep, { step })} onInput={(event) => setPlace(Number(event.currentTarget.value))} />}
          <p class="oo-note">{say(s.atStep, { step })}</p>
          <pre class="oo-text" tabIndex={0}>{text}</pre>
        </>
      )}
    </div>
  );
}

function Studies({ studies, runs, show }: { studies: Study[]; runs: Run[]; show: (ids: string[]) => void }) {
  const { s } = useWords();
  return (
    <section class="oo-studies" id="oo-studies">
      <h2>{s.studies}</h2>
      <p class="oo-note">{s.studiesLead}</p>
      {studies.map((study) => (
        <article key={study.id}>
          <h3>{study.name || study.id} <span class={`oo-state oo-${study.held ? "training" : "finished"}`}>{say(s.studyRuns, { done: study.done, planned: study.planned })}</span></h3>
          {study.description && <p>{study.description}</p>}
          {study.damage && <p class="oo-warning">{study.damage}</p>}
          {study.nothing_learned && <p class="oo-warning">{study.nothing_learned}</p>}
          <table>
            <thead><tr><th>{s.change}</th><th class="oo-number">{s.runs}</th><th>{s.verdict}</th></tr></thead>
            <tbody>{study.variants.map((each) => (
              <tr key={each.slug}><td>{each.slug === "baseline" ? s.baseline : each.name}{each.hypothesis && <small>{each.hypothesis}</small>}</td>
                <td class="oo-number">{each.done}/{each.planned}</td><td>{each.sentence ?? (each.slug === "baseline" ? "" : s.notYet)}</td></tr>
            ))}</tbody>
          </table>
          {study.notes.map((note) => <p class="oo-note" key={note}>{note}</p>)}
          <p><button type="button" onClick={() => {
            show(runs.filter((run) => run.study === study.id).map((run) => run.id));
            put({ bands: "1" });
            document.getElementById("oo-curves")?.scrollIntoView({ block: "start" });
          }}>{s.showStudy}</button></p>
        </article>
      ))}
    </section>
  );
}
