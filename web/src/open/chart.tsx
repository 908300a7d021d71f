// Curves on a canvas: drag to zoom, double click to see all, hover or arrow keys to read. The curves lie on one canvas, what
// follows the pointer on another, so that moving it draws no curve anew.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { short } from "../format";
import { between, first, thinned, ticks, type Band, type Points } from "./series";

export interface Curve {
  id: string;
  label: string;
  colour: string; // a CSS variable
  dash?: number[];
  dots?: boolean;
  points: Points; // as drawn
  raw?: Points; // before smoothing
}

export interface Banded { id: string; label: string; colour: string; band: Band }

export interface ChartProps {
  label: string;
  xLabel: string;
  yLabel: string;
  curves: Curve[];
  bands?: Banded[];
  marks?: { y: number; label: string }[];
  logX: boolean;
  logY: boolean;
  zoom: [number, number] | null;
  onZoom: (zoom: [number, number] | null) => void;
  height?: number;
  theme: number;
  format?: (x: number) => string;
  words: { help: string; nothing: string; reset: string };
}

const NONE: never[] = []; // always the same one, or every curve would be drawn anew
const LEFT = 52, RIGHT = 14, TOP = 12, BOTTOM = 30, MOST_TOLD = 10;

interface Scale { from: number; to: number; low: number; high: number; x: (v: number) => number; y: (v: number) => number; back: (pixel: number) => number }

function scaled(curves: Curve[], bands: Banded[], marks: { y: number }[], zoom: [number, number] | null, logX: boolean, logY: boolean, width: number, height: number): Scale | null {
  let from = Infinity, to = -Infinity;
  const every = [...curves.map((each) => each.points), ...bands.map(({ band }) => ({ x: band.x, y: band.mean, n: band.x.length }))];
  for (const { x, n } of every) {
    if (!n) continue;
    const begin = logX ? first(x, Number.MIN_VALUE, n) : 0;
    if (begin < n) from = Math.min(from, x[begin]);
    to = Math.max(to, x[n - 1]);
  }
  if (zoom) [from, to] = zoom;
  if (!(to >= from)) return null;
  if (to === from) [from, to] = logX ? [from / 2, to * 2] : [from - 1, to + 1];
  let low = Infinity, high = -Infinity;
  const see = (y: ArrayLike<number>, begin: number, end: number) => {
    for (let i = begin; i < end; i++) {
      const value = y[i];
      if (logY && !(value > 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  };
  for (const { x, y, n } of curves.map((each) => each.points)) see(y, Math.max(0, first(x, from, n) - 1), Math.min(n, first(x, to, n) + 1));
  for (const { band } of bands) {
    const begin = first(band.x, from), end = first(band.x, to) + 1;
    see(band.low, begin, end);
    see(band.high, begin, end);
  }
  if (!(high >= low)) return null;
  for (const { y } of marks) if ((!logY || y > 0) && y > low - (high - low) && y < high + (high - low)) [low, high] = [Math.min(low, y), Math.max(high, y)];
  if (high === low) [low, high] = logY ? [low / 1.5, high * 1.5] : [low - Math.abs(low || 1) / 10, high + Math.abs(high || 1) / 10];
  const lx = logX ? Math.log : (v: number) => v, ly = logY ? Math.log : (v: number) => v;
  const pad = (ly(high) - ly(low)) * 0.04;
  const bottom = ly(low) - pad, top = ly(high) + pad, left = lx(from), right = lx(to);
  return {
    from, to, low: logY ? Math.exp(bottom) : bottom, high: logY ? Math.exp(top) : top,
    x: (v) => LEFT + ((lx(v) - left) / (right - left)) * (width - LEFT - RIGHT),
    y: (v) => TOP + ((top - ly(v)) / (top - bottom)) * (height - TOP - BOTTOM),
    back: (pixel) => {
      const at = left + ((pixel - LEFT) / (width - LEFT - RIGHT)) * (right - left);
      return logX ? Math.exp(at) : at;
    },
  };
}

function ready(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = Math.min(2, devicePixelRatio || 1);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen?.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen?.clearRect(0, 0, width, height);
  return pen;
}

const big = (x: number): string =>
  Math.abs(x) >= 1e9 ? `${+(x / 1e9).toPrecision(3)}G` : Math.abs(x) >= 1e6 ? `${+(x / 1e6).toPrecision(3)}M` : Math.abs(x) >= 1e4 ? `${+(x / 1e3).toPrecision(3)}k` : `${+x.toPrecision(4)}`;

export function Chart(props: ChartProps) {
  const { curves, logX, logY, zoom, theme, words } = props, bands = props.bands ?? NONE, marks = props.marks ?? NONE;
  const height = props.height ?? 340, format = props.format ?? short;
  const box = useRef<HTMLDivElement>(null), under = useRef<HTMLCanvasElement>(null), over = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(600), [at, setAt] = useState<number | null>(null), [drag, setDrag] = useState<[number, number] | null>(null);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(220, Math.round(entry.contentRect.width))));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  const scale = useMemo(() => scaled(curves, bands, marks, zoom, logX, logY, width, height), [curves, bands, marks, zoom, logX, logY, width, height]);
  useEffect(() => {
    const canvas = under.current, pen = canvas && ready(canvas, width, height);
    if (!pen) return;
    const style = getComputedStyle(canvas), colour = (name: string) => style.getPropertyValue(name).trim() || "#888";
    pen.font = `11px ${style.fontFamily}`;
    if (!scale) return;
    pen.lineWidth = 1;
    pen.strokeStyle = colour("--grid");
    pen.fillStyle = colour("--muted");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of ticks(scale.low, scale.high, Math.max(3, height / 60), logY)) {
      const y = Math.round(scale.y(value)) + 0.5;
      pen.beginPath();
      pen.moveTo(LEFT, y);
      pen.lineTo(width - RIGHT, y);
      pen.stroke();
      pen.fillText(big(value), LEFT - 7, y);
    }
    pen.textAlign = "center";
    pen.textBaseline = "top";
    let taken = -Infinity;
    for (const value of ticks(scale.from, scale.to, Math.max(3, width / 110), logX)) {
      const x = scale.x(value), text = big(value), half = pen.measureText(text).width / 2;
      if (x - half < taken + 8 || x + half > width) continue;
      taken = x + half;
      pen.fillText(text, x, height - BOTTOM + 7);
    }
    pen.save();
    pen.beginPath();
    pen.rect(LEFT - 4, TOP - 4, width - LEFT - RIGHT + 8, height - TOP - BOTTOM + 8);
    pen.clip();
    for (const { y, label } of marks) {
      const at = scale.y(y);
      pen.setLineDash([2, 4]);
      pen.strokeStyle = pen.fillStyle = colour("--muted");
      pen.beginPath();
      pen.moveTo(LEFT, at);
      pen.lineTo(width - RIGHT, at);
      pen.stroke();
      pen.setLineDash([]);
      pen.textAlign = "right";
      pen.textBaseline = "bottom";
      pen.fillText(label, width - RIGHT - 4, at - 2);
    }
    pen.lineJoin = "bevel";
    for (const { band, colour: name } of bands) {
      pen.fillStyle = colour(name);
      pen.globalAlpha = 0.18;
      pen.beginPath();
      for (let i = 0; i < band.x.length; i++) pen.lineTo(scale.x(band.x[i]), scale.y(band.high[i]));
      for (let i = band.x.length - 1; i >= 0; i--) pen.lineTo(scale.x(band.x[i]), scale.y(band.low[i]));
      pen.fill();
      pen.globalAlpha = 1;
      trace(pen, { x: band.x, y: band.mean, n: band.x.length }, scale, colour(name), 2, []);
    }
    if (curves.length <= 12) {
      pen.globalAlpha = 0.28;
      for (const each of curves) if (each.raw) trace(pen, each.raw, scale, colour(each.colour), 1, []);
      pen.globalAlpha = 1;
    }
    for (const each of curves) trace(pen, each.points, scale, colour(each.colour), curves.length > 20 ? 1.2 : 1.8, each.dash ?? [], each.dots && each.points.n < 60);
    pen.restore();
  }, [scale, curves, bands, theme]);
  // What is told at a place: the nearest curves there, the best first.
  const told = useMemo(() => {
    if (at === null || !scale) return null;
    const found = curves
      .filter(({ points: { x, n } }) => n && at >= x[0] && at <= x[n - 1])
      .map((each) => ({ id: each.id, label: each.label, colour: each.colour, y: between(each.points.x.subarray(0, each.points.n), each.points.y.subarray(0, each.points.n), at) }))
      .concat(bands.filter(({ band }) => at >= band.x[0] && at <= band.x[band.x.length - 1]).map((each) => ({ ...each, y: between(each.band.x, each.band.mean, at) })))
      .filter(({ y }) => !Number.isNaN(y))
      .sort((a, b) => a.y - b.y);
    return { at, found };
  }, [at, scale, curves, bands]);
  useEffect(() => {
    const canvas = over.current, pen = canvas && ready(canvas, width, height);
    if (!pen || !scale) return;
    const style = getComputedStyle(canvas), colour = (name: string) => style.getPropertyValue(name).trim() || "#888";
    if (drag && Math.abs(drag[1] - drag[0]) > 3) {
      pen.fillStyle = colour("--accent");
      pen.globalAlpha = 0.14;
      pen.fillRect(Math.min(...drag), TOP, Math.abs(drag[1] - drag[0]), height - TOP - BOTTOM);
      pen.globalAlpha = 1;
    }
    if (told) {
      const x = Math.round(scale.x(told.at)) + 0.5;
      pen.strokeStyle = colour("--muted");
      pen.beginPath();
      pen.moveTo(x, TOP);
      pen.lineTo(x, height - BOTTOM);
      pen.stroke();
      for (const { y, colour: name } of told.found) {
        pen.fillStyle = colour(name);
        pen.beginPath();
        pen.arc(scale.x(told.at), scale.y(y), 3.2, 0, 7);
        pen.fill();
      }
    }
  }, [told, drag, scale, theme]);
  const pixel = (event: MouseEvent) => event.clientX - box.current!.getBoundingClientRect().left;
  const inside = (x: number) => Math.max(LEFT, Math.min(width - RIGHT, x));
  const zoomBy = (factor: number) => {
    if (!scale) return;
    const middle = at === null ? (LEFT + width - RIGHT) / 2 : inside(scale.x(at));
    props.onZoom([scale.back(middle - (middle - LEFT) * factor), scale.back(middle + (width - RIGHT - middle) * factor)]);
  };
  const key = (event: KeyboardEvent) => {
    if (!scale) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) setAt(scale.back(inside((at === null ? (step > 0 ? LEFT : width - RIGHT) : scale.x(at)) + step * (event.shiftKey ? 40 : 8))));
    else if (event.key === "+" || event.key === "=") zoomBy(0.6);
    else if (event.key === "-") zoomBy(1 / 0.6);
    else if (event.key === "0" || event.key === "Escape") {
      props.onZoom(null);
      setAt(null);
    } else return;
    event.preventDefault();
  };
  const some = told?.found.slice(0, MOST_TOLD) ?? [], beside = told && scale ? scale.x(told.at) : 0;
  const summary = `${props.label}. ${curves.length || bands.length} × ${props.xLabel}, ${props.yLabel}. ${words.help}`;
  return (
    <figure class="oo-chart">
      <div class="oo-axes" aria-hidden="true"><span>{props.yLabel}</span>{zoom && <button type="button" tabIndex={-1} onClick={() => props.onZoom(null)}>{words.reset}</button>}</div>
      <div class="oo-plot" ref={box} style={{ height: `${height}px` }} tabIndex={0} role="application" aria-roledescription="chart" aria-label={summary} onKeyDown={key}
        onPointerDown={(event) => {
          if (event.button || !scale) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag([inside(pixel(event)), inside(pixel(event))]);
        }}
        onPointerMove={(event) => {
          if (!scale) return;
          const x = inside(pixel(event));
          if (drag) setDrag([drag[0], x]);
          setAt(scale.back(x));
        }}
        onPointerUp={() => {
          if (drag && scale && Math.abs(drag[1] - drag[0]) > 6) props.onZoom([scale.back(Math.min(...drag)), scale.back(Math.max(...drag))]);
          setDrag(null);
        }}
        onPointerCancel={() => setDrag(null)} onPointerLeave={() => !drag && setAt(null)} onBlur={() => setAt(null)}
        onDblClick={() => props.onZoom(null)}
        onWheel={(event) => {
          if (!event.ctrlKey) return;
          event.preventDefault();
          zoomBy(event.deltaY > 0 ? 1.15 : 1 / 1.15);
        }}>
        <canvas ref={under} aria-hidden="true" /><canvas ref={over} aria-hidden="true" />
        {!scale && <p class="oo-nothing">{words.nothing}</p>}
        {told && some.length > 0 && (
          <div class="oo-told" style={beside > width / 2 ? { right: `${width - beside + 10}px` } : { left: `${beside + 10}px` }} aria-hidden="true">
            <b>{props.xLabel} {big(told.at)}</b>
            {some.map((each) => <span key={each.id}><i style={{ background: `var(${each.colour})` }} />{format(each.y)}<em>{each.label}</em></span>)}
            {told.found.length > some.length && <span>… {told.found.length - some.length}</span>}
          </div>
        )}
      </div>
      <figcaption aria-hidden="true">{props.xLabel}</figcaption>
      <p class="oo-aside" role="status">{told && some.length ? `${props.xLabel} ${big(told.at)}: ${some.slice(0, 4).map((each) => `${each.label} ${format(each.y)}`).join("; ")}` : ""}</p>
    </figure>
  );
}

function trace(pen: CanvasRenderingContext2D, points: Points, scale: Scale, colour: string, thick: number, dash: number[], dots = false): void {
  const found = thinned(points, scale.from, scale.to, scale.x);
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = thick;
  pen.setLineDash(dash);
  pen.beginPath();
  let down = false;
  for (let k = 0; k < found.length; k += 2) {
    const y = scale.y(found[k + 1]);
    if (!Number.isFinite(y) || !Number.isFinite(found[k])) down = false;
    else if (down) pen.lineTo(found[k], y);
    else {
      pen.moveTo(found[k], y);
      down = true;
    }
  }
  pen.stroke();
  pen.setLineDash([]);
  if (dots)
    for (let k = 0; k < found.length; k += 2) {
      pen.beginPath();
      pen.arc(found[k], scale.y(found[k + 1]), 2.6, 0, 7);
      pen.fill();
    }
}
