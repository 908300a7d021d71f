// What may follow a table's last row: the middle, and fans around it.
import { useState } from "preact/hooks";
import { asked } from "./api";
import { Trouble } from "./pieces";
import type { Model } from "./play";
import { dropped } from "./upload";
import { useWords } from "./words";
import { ticks } from "./series";

interface Channel { quantiles: Record<string, (number | null)[]> }
interface Foretold { series: { channels: Record<string, Channel> }[]; seed: number }

const PAST = 120, WIDEST = 960, HIGH = 220, PAD = 40;
const MIDDLE = "50", INNER = ["25", "75"], OUTER = ["2.5", "97.5"]; // per cent, as the server names quantiles

/** The columns of a table with a first line of names, as numbers; of a cell that is none NaN. */
function columns(text: string): Record<string, number[]> {
  const [head, ...lines] = text.trim().split(/\r?\n/), mark = [",", ";", "\t"].reduce((a, b) => (head.split(b).length > head.split(a).length ? b : a));
  const names = head.split(mark).map((name) => name.trim().replace(/^"|"$/g, "")), found: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]));
  for (const line of lines) line.split(mark).forEach((cell, n) => found[names[n]]?.push(cell.trim() === "" ? NaN : Number(cell)));
  return found;
}

export function Forecast({ model }: { model: Model }) {
  const { s } = useWords(), [table, setTable] = useState<{ name: string; text: string } | null>(null), [steps, setSteps] = useState(24);
  const [found, setFound] = useState<Foretold | null>(null), [trouble, setTrouble] = useState<unknown>(null), [busy, setBusy] = useState(false);
  const take = async (file: File | undefined) => {
    if (!file) return;
    setTable({ name: file.name, text: await file.slice(0, 900_000).text() });
    setFound(null);
  };
  const foretell = async () => {
    setBusy(true);
    try {
      const name = table!.name.replace(/[^\w.-]/g, "-").replace(/^[^\w]+/, "") || "table.csv";
      setFound(await asked<Foretold>("/v1/forecast", { body: { model: model.name, table: table!.text, name, steps, samples: 200 } }));
      setTrouble(null);
    } catch (error) {
      setTrouble(error);
    }
    setBusy(false);
  };
  const past = table ? columns(table.text) : {};
  return (
    <section class="oo-forecast" id="oo-forecast" onDragOver={(event) => event.preventDefault()} onDrop={(event) => {
      event.preventDefault();
      event.stopPropagation();
      void dropped(event.dataTransfer!).then(([first]) => take(first?.file));
    }}>
      <p class="oo-note">{s.forecastHint}</p>
      <div class="oo-actions">
        <label class="oo-button">{s.forecastChoose}<input class="oo-aside" type="file" accept=".csv,.tsv,.txt" onChange={(event) => take(event.currentTarget.files?.[0])} /></label>
        {table && <b>{table.name}</b>}
        <label>{s.forecastSteps} <input type="number" min="1" max="2000" value={steps} onInput={(event) => setSteps(Math.max(1, Math.min(2000, Number(event.currentTarget.value) || 1)))} /></label>
        <button type="button" class="oo-primary" disabled={!table || busy} onClick={foretell}>{s.forecastDo}</button>
        {busy && <span class="oo-note oo-busy" role="status" />}
      </div>
      <Trouble of={trouble} />
      {found?.series.map((one, n) => Object.entries(one.channels).map(([name, channel]) => <Fan key={`${n} ${name}`} name={name} past={(past[name] ?? []).filter((x) => !Number.isNaN(x)).slice(-PAST)} channel={channel} />))}
      {found && <p class="oo-scale-key oo-fan-key" aria-hidden="true">{s.forecastKey.map((word, n) => <span key={word}><i class={`oo-fan-${n}`} />{word}</span>)}</p>}
    </section>
  );
}

function Fan({ name, past, channel }: { name: string; past: number[]; channel: Channel }) {
  const WIDE = Math.min(WIDEST, innerWidth - 60), of = (q: string) => channel.quantiles[q].map((x) => x ?? NaN);
  const [low, high] = OUTER.map(of), inner = INNER.map(of), middle = of(MIDDLE);
  const all = [...past, ...low, ...high, ...middle].filter(Number.isFinite), from = Math.min(...all), to = Math.max(...all), n = past.length + middle.length;
  const x = (k: number) => PAD + ((WIDE - PAD - 8) * k) / Math.max(1, n - 1), y = (v: number) => 8 + ((HIGH - 30) * (to - v)) / (to - from || 1);
  const line = (values: number[], begin: number) => values.map((v, k) => (Number.isFinite(v) ? `${x(begin + k).toFixed(1)},${y(v).toFixed(1)}` : "")).filter(Boolean).join(" ");
  const area = (lower: number[], upper: number[]) => `${line(upper, past.length)} ${lower.map((v, k) => `${x(past.length + k).toFixed(1)},${y(v).toFixed(1)}`).reverse().join(" ")}`;
  const last = middle[middle.length - 1];
  return (
    <figure class="oo-fan"><figcaption>{name}</figcaption>
      <svg viewBox={`0 0 ${WIDE} ${HIGH}`} role="img" aria-label={`${name}: ${past[past.length - 1]} → ${last?.toPrecision(4)} (${low[low.length - 1]?.toPrecision(4)} – ${high[high.length - 1]?.toPrecision(4)})`}>
        {ticks(from, to, 4, false).map((v) => <g key={v}><line x1={PAD} x2={WIDE - 8} y1={y(v)} y2={y(v)} class="oo-grid" /><text x={PAD - 5} y={y(v) + 3} text-anchor="end">{+v.toPrecision(4)}</text></g>)}
        <polygon points={area(low, high)} class="oo-fan-3" />
        <polygon points={area(inner[0], inner[1])} class="oo-fan-2" />
        <polyline points={line([...past.slice(-1), ...middle], past.length - 1)} class="oo-fan-1" />
        <polyline points={line(past, 0)} class="oo-fan-0" />
      </svg>
    </figure>
  );
}
